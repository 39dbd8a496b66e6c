//! On how many nodes a DaemonSet runs, and how well.

use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSetStatus;

use super::{Layout, min_ready_seconds};
use crate::pods;

/// The status that nodes and Pods call for. Of several Pods on a node the first one counts.
pub(super) fn status(layout: &Layout<'_>) -> DaemonSetStatus {
    let set = layout.facts.set;
    let old = set.status.clone().unwrap_or_default();
    let mut status = DaemonSetStatus {
        observed_generation: set.metadata.generation,
        collision_count: old.collision_count,
        conditions: old.conditions,
        ..DaemonSetStatus::default()
    };
    let (mut available, mut updated) = (0, 0);
    for node in &layout.facts.nodes {
        let first = layout.on(node).first();
        if !layout.daemon.fit(node).runs {
            status.number_misscheduled += i32::from(first.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pod) = first else { continue };
        status.current_number_scheduled += 1;
        status.number_ready += i32::from(pods::is_ready(pod));
        available += i32::from(layout.is_available(pod));
        updated += i32::from(layout.daemon.is_updated(pod, &layout.revision.hash));
    }
    status.number_available = Some(available);
    status.updated_number_scheduled = Some(updated);
    status.number_unavailable = Some(status.desired_number_scheduled - available);
    status
}

/// When a ready Pod becomes available and no event will tell.
pub(super) fn next_check(layout: &Layout<'_>) -> Option<Duration> {
    let minimum = min_ready_seconds(layout.facts.set);
    let waits = layout.facts.pods.iter().filter_map(|pod| pods::available_in(pod, minimum, layout.facts.now));
    waits.filter(|wait| minimum > 0 && !wait.is_zero()).min()
}
