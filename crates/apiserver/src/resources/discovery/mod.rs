//! Where Services are found.

pub mod endpoint_slice;
