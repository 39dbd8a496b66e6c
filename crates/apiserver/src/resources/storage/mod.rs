//! Where volumes come from.

pub mod csi;
pub mod storage_class;
pub mod volume;
