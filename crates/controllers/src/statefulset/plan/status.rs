//! How many Pods of a StatefulSet there are, and in which state.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::Pod;

use super::revisions::{History, revision_of};
use super::{Facts, Wanted, min_ready_seconds};
use crate::{history, pods};

/// The status that the Pods call for, `leaving` of which are about to be deleted for an update.
pub(super) fn status(
    facts: &Facts<'_>,
    history: &History<'_>,
    counted: &[&Arc<Pod>],
    leaving: i32,
) -> StatefulSetStatus {
    let (set, minimum) = (facts.set, min_ready_seconds(facts.set));
    let count = |counts: &dyn Fn(&Pod) -> bool| number(counted.iter().filter(|pod| counts(pod)).count());
    let is_ready = |pod: &Pod| pods::phase(pod) == "Running" && pods::is_ready(pod);
    let is_of = |pod: &Pod, name: &str| pod.metadata.deletion_timestamp.is_none() && revision_of(pod) == name;
    let (current, update) = (history::name(&history.current), history::name(&history.update));
    let old = set.status.clone().unwrap_or_default();
    let mut status = StatefulSetStatus {
        observed_generation: set.metadata.generation,
        replicas: number(counted.len()),
        ready_replicas: Some(count(&is_ready)),
        available_replicas: Some(count(&|pod| is_ready(pod) && pods::is_available(pod, minimum, facts.now))),
        current_replicas: Some(count(&|pod| is_of(pod, current)).saturating_sub(leaving).max(0)),
        updated_replicas: Some(count(&|pod| is_of(pod, update))),
        current_revision: Some(current.to_owned()),
        update_revision: Some(update.to_owned()),
        collision_count: Some(old.collision_count.unwrap_or(0)),
        conditions: old.conditions,
    };
    if is_rolled_out(set, &status) {
        status.current_replicas = status.updated_replicas;
        status.current_revision.clone_from(&status.update_revision);
    }
    status
}

/// Whether every Pod is ready and of the new revision, which is the current one from then on.
fn is_rolled_out(set: &StatefulSet, status: &StatefulSetStatus) -> bool {
    let strategy = set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref()?.type_.as_deref());
    let wanted = i32::try_from(Wanted::of(set).replicas).unwrap_or(i32::MAX);
    strategy == Some("RollingUpdate")
        && (status.updated_replicas, status.ready_replicas, status.replicas) == (Some(wanted), Some(wanted), wanted)
}

/// When a ready Pod becomes available and no event will tell.
pub(super) fn next_check(
    set: &StatefulSet,
    all: &[Arc<Pod>],
    status: &StatefulSetStatus,
    now: Timestamp,
) -> Option<Duration> {
    let minimum = min_ready_seconds(set);
    if minimum <= 0 || status.ready_replicas == status.available_replicas {
        return None;
    }
    let waits = all.iter().filter_map(|pod| pods::available_in(pod, minimum, now));
    waits.filter(|wait| !wait.is_zero()).min()
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
