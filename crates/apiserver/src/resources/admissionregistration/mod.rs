//! Who else is asked before a write.

pub mod policy;
pub mod rule;
pub mod webhook;
