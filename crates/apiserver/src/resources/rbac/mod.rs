//! Roles and who has them.

pub mod binding;
pub mod role;
