//! Who else is asked before a write.

pub mod policy;
pub mod webhook;
