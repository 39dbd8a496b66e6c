//! What a ReplicaSet needs: Pods made, Pods deleted, a status.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use pintle_runtime::{conditions, owner};

use super::rank::sort_for_deletion;
use crate::pods;

/// Pods made or deleted in one go, at most.
const BURST: usize = 500;

const REPLICA_FAILURE: &str = "ReplicaFailure";

/// What to do about the number of Pods.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Create(usize),
    Delete(Vec<Arc<Pod>>),
    Nothing,
}

/// Compares what is there with what is wanted. `kin` is asked only if some but not all must go.
pub(super) fn step(
    set: &ReplicaSet,
    mut active: Vec<Arc<Pod>>,
    kin: impl FnOnce() -> Vec<Arc<Pod>>,
    now: Timestamp,
) -> Step {
    let wanted = usize::try_from(wanted(set)).unwrap_or(0);
    if active.len() < wanted {
        return Step::Create((wanted - active.len()).min(BURST));
    }
    let surplus = (active.len() - wanted).min(BURST);
    if surplus == 0 {
        return Step::Nothing;
    }
    if surplus < active.len() {
        sort_for_deletion(&mut active, &kin(), now);
    }
    active.truncate(surplus);
    Step::Delete(active)
}

/// A Pod as the template describes it, named by the server.
pub(super) fn pod_from_template(set: &ReplicaSet) -> Pod {
    let template = set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
    let described = template.metadata.unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", set.metadata.name.as_deref().unwrap_or_default())),
            namespace: set.metadata.namespace.clone(),
            labels: described.labels,
            annotations: described.annotations,
            finalizers: described.finalizers,
            owner_references: Some(vec![owner::controller_reference(set)]),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}

/// Why the last step failed, if it did.
pub(super) struct Failure<'a> {
    pub(super) step: &'a Step,
    pub(super) message: String,
}

/// The status that the Pods call for.
pub(super) fn status(
    set: &ReplicaSet,
    active: &[Arc<Pod>],
    terminating: usize,
    failure: Option<Failure<'_>>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let minimum = min_ready_seconds(set);
    let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref()?.metadata.as_ref()?.labels.as_ref());
    let fully_labeled = |pod: &&Arc<Pod>| {
        let labels = pod.metadata.labels.as_ref();
        template.into_iter().flatten().all(|(key, value)| labels.is_some_and(|labels| labels.get(key) == Some(value)))
    };
    let mut status = set.status.clone().unwrap_or_default();
    let mut known = status.conditions.take().unwrap_or_default();
    match failure {
        None => conditions::remove(&mut known, REPLICA_FAILURE),
        // What is known to fail is not told anew: the message may differ each time.
        Some(_) if conditions::find(&known, REPLICA_FAILURE).is_some() => {}
        Some(failure) => known.push(ReplicaSetCondition {
            type_: REPLICA_FAILURE.into(),
            status: "True".into(),
            last_transition_time: Some(Time(now)),
            reason: Some(if matches!(failure.step, Step::Create(_)) { "FailedCreate" } else { "FailedDelete" }.into()),
            message: Some(failure.message),
        }),
    }
    ReplicaSetStatus {
        replicas: count(active.len()),
        fully_labeled_replicas: Some(count(active.iter().filter(fully_labeled).count())),
        ready_replicas: Some(count(active.iter().filter(|pod| pods::is_ready(pod)).count())),
        available_replicas: Some(count(active.iter().filter(|pod| pods::is_available(pod, minimum, now)).count())),
        terminating_replicas: Some(count(terminating)),
        observed_generation: set.metadata.generation,
        conditions: Some(known).filter(|conditions| !conditions.is_empty()),
    }
}

/// Whether the server would see a difference. It may leave zeros out.
pub(super) fn differs(before: Option<&ReplicaSetStatus>, after: &ReplicaSetStatus) -> bool {
    let Some(before) = before else { return true };
    let counts = |status: &ReplicaSetStatus| {
        [status.fully_labeled_replicas, status.ready_replicas, status.available_replicas].map(Option::unwrap_or_default)
    };
    let conditions = |status: &ReplicaSetStatus| status.conditions.clone().unwrap_or_default();
    before.replicas != after.replicas
        || counts(before) != counts(after)
        || before.terminating_replicas != after.terminating_replicas
        || before.observed_generation != after.observed_generation
        || conditions(before) != conditions(after)
}

/// When a ready Pod becomes available and no event will tell.
pub(super) fn next_check(set: &ReplicaSet, active: &[Arc<Pod>], now: Timestamp) -> Option<Duration> {
    let minimum = min_ready_seconds(set);
    let waits = active.iter().filter_map(|pod| pods::available_in(pod, minimum, now));
    waits.filter(|wait| minimum > 0 && !wait.is_zero()).min()
}

fn wanted(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

fn min_ready_seconds(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
