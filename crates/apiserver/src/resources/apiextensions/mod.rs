//! Definitions of custom resources.

pub mod approval;
pub mod definition;
