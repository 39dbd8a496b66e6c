//! How many replicas, by what is measured.

pub mod horizontal_pod_autoscaler;
pub mod metrics;
pub mod v1;
