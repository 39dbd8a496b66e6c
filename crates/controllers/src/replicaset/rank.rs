//! Which Pods go first when there are too many.
//!
//! In this order: those no node has; pending before unknown before running; not ready before ready; those that cost
//! least to delete by their annotation; those that share a node with most of their kin; those ready for the shortest
//! time, in doubling buckets; those restarted most; the youngest, in doubling buckets.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use crate::pods;

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Sorts the Pods so that the first is the first to go. `kin` are the Pods of all sets with the same owner.
pub(super) fn sort_for_deletion(pods: &mut [Arc<Pod>], kin: &[Arc<Pod>], now: Timestamp) {
    let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in kin.iter().filter(|pod| pods::is_active(pod)) {
        *on_node.entry(pods::node_name(pod)).or_default() += 1;
    }
    let doubled_up = |pod: &Pod| on_node.get(pods::node_name(pod)).copied().unwrap_or(0);
    pods.sort_by(|a, b| compare(a, b, doubled_up(a), doubled_up(b), now));
}

fn compare(a: &Pod, b: &Pod, a_doubled_up: usize, b_doubled_up: usize, now: Timestamp) -> Ordering {
    let assigned = |pod: &Pod| !pods::node_name(pod).is_empty();
    let both_ready = pods::is_ready(a) && pods::is_ready(b);
    let readiness = || match both_ready {
        true => younger_first(pods::ready_since(a), pods::ready_since(b), a, b, now),
        false => Ordering::Equal,
    };
    let created = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    assigned(a)
        .cmp(&assigned(b))
        .then_with(|| phase_order(a).cmp(&phase_order(b)))
        .then_with(|| pods::is_ready(a).cmp(&pods::is_ready(b)))
        .then_with(|| deletion_cost(a).cmp(&deletion_cost(b)))
        .then_with(|| b_doubled_up.cmp(&a_doubled_up))
        .then_with(readiness)
        .then_with(|| restarts(b).cmp(&restarts(a)))
        .then_with(|| younger_first(created(a), created(b), a, b, now))
}

pub(crate) fn phase_order(pod: &Pod) -> u8 {
    match pods::phase(pod) {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    }
}

fn deletion_cost(pod: &Pod) -> i32 {
    let cost = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(DELETION_COST));
    cost.and_then(|cost| cost.parse().ok()).unwrap_or(0)
}

/// No time at all is youngest. Within one bucket the UID decides, so that old age is no protection by a second.
fn younger_first(a: Option<Timestamp>, b: Option<Timestamp>, a_pod: &Pod, b_pod: &Pod, now: Timestamp) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) if a == b => Ordering::Equal,
        (Some(a), Some(b)) => {
            bucket(a, now).cmp(&bucket(b, now)).then_with(|| a_pod.metadata.uid.cmp(&b_pod.metadata.uid))
        }
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

/// The binary logarithm of an age.
fn bucket(time: Timestamp, now: Timestamp) -> Option<u32> {
    u128::try_from(now.duration_since(time).as_nanos()).ok()?.checked_ilog2()
}

/// The most restarts of a container, then of a sidecar.
pub(crate) fn restarts(pod: &Pod) -> (i32, i32) {
    let Some(status) = &pod.status else { return (0, 0) };
    let sidecars = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars: Vec<&str> = sidecars
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| container.name.as_str())
        .collect();
    let regular = status.container_statuses.iter().flatten().map(|container| container.restart_count);
    let of_sidecars = status.init_container_statuses.iter().flatten();
    let of_sidecars = of_sidecars.filter(|status| sidecars.contains(&status.name.as_str()));
    (regular.max().unwrap_or(0), of_sidecars.map(|container| container.restart_count).max().unwrap_or(0))
}
