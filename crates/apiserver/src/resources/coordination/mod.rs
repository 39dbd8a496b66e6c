//! Who leads.

pub mod lease;
