//! API servers beside this one.

pub mod api_service;
