//! Certificates that are asked for.

pub mod signing_request;
