//! What Pods are made of, alone and in the templates of workloads.

pub mod default;
pub mod print;
pub mod references;
pub mod resize;
pub mod scheduling;
pub mod security;
pub mod update;
pub mod validate;
pub mod volumes;
