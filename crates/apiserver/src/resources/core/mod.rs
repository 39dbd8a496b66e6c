//! The core group.

pub mod event;
pub mod namespace;
