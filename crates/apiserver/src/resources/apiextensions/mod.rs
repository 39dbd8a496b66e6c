//! Definitions of custom resources.

pub mod definition;
