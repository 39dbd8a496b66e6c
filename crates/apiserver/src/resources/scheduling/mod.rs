//! Who goes first.

pub mod priority_class;
