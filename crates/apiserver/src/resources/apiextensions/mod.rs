//! Definitions of custom resources.

pub mod approval;
mod conversion;
pub mod definition;
mod names;
mod parts;
mod spec;
