//! Certificates that are asked for.

pub mod request;
pub mod signing_request;
mod validate;
