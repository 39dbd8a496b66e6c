//! Workloads that keep Pods running.

pub mod controller_revision;
pub mod daemon_set;
pub mod deployment;
pub mod replica_set;
pub mod stateful_set;

use crate::strategy::ScalePaths;

/// Where every workload of this group has its number and its selector.
fn scale_paths() -> Option<ScalePaths> {
    Some(ScalePaths {
        replicas: "spec.replicas".into(),
        status_replicas: "status.replicas".into(),
        selector: Some("spec.selector".into()),
    })
}
