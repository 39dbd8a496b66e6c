//! What a ReplicaSet, or a ReplicationController, needs: Pods created, Pods deleted, a status.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use pintle_runtime::plan::{Pace, StatusUpdate};
use pintle_runtime::{Plan, Write, conditions, owner};

use super::kind::Replicated;
use super::rank::sort_for_deletion;
use crate::pods;

/// Pods made or deleted in one go, at most.
const BURST: usize = 500;

const REPLICA_FAILURE: &str = "ReplicaFailure";

/// What there is.
pub(super) struct Facts<'a, S> {
    pub(super) set: &'a S,
    pub(super) active: Vec<Arc<Pod>>,
    /// Pods on their way out.
    pub(super) terminating: usize,
    pub(super) now: Timestamp,
}

/// Compares what is there with what is wanted. `kin` is asked only if some but not all must go.
pub(super) fn plan<S: Replicated>(facts: Facts<'_, S>, kin: impl FnOnce() -> Vec<Arc<Pod>>) -> Plan {
    let Facts { set, now, .. } = facts;
    let (status, again) = (status(&facts, None), next_check(set, &facts.active, now));
    let mut plan = Plan { again, ..Plan::default() };
    let wanted = usize::try_from(set.wanted()).unwrap_or(0);
    if set.meta().deletion_timestamp.is_some() || facts.active.len() == wanted {
        plan.set_status(set, set.status().as_ref(), &status);
        return plan;
    }
    let reason = if facts.active.len() < wanted { "FailedCreate" } else { "FailedDelete" };
    let failed = self::status(&facts, Some(reason));
    plan.status = Some(StatusUpdate::of(set, set.status().as_ref(), &status).if_failed(&failed));
    plan.writes = match facts.active.len() < wanted {
        true => vec![creation(set, (wanted - facts.active.len()).min(BURST))],
        false => deletions(facts.active, wanted, kin, now),
    };
    plan
}

fn creation<S: Replicated>(set: &S, count: usize) -> Write {
    Write::create(&pod_from_template(set))
        .times(count)
        .saying("SuccessfulCreate", "Created pod: {name}")
        .warning("FailedCreate", "Error creating: {error}")
}

fn deletions(
    mut active: Vec<Arc<Pod>>,
    wanted: usize,
    kin: impl FnOnce() -> Vec<Arc<Pod>>,
    now: Timestamp,
) -> Vec<Write> {
    let surplus = (active.len() - wanted).min(BURST);
    if surplus < active.len() {
        sort_for_deletion(&mut active, &kin(), now);
    }
    let deletion = |pod: &Arc<Pod>| {
        Write::delete(pod.as_ref())
            .paced(Pace::Together)
            .saying("SuccessfulDelete", "Deleted pod: {name}")
            .warning("FailedDelete", "Error deleting: {error}")
    };
    active[..surplus].iter().map(deletion).collect()
}

/// A Pod as the template describes it, named by the server.
fn pod_from_template<S: Replicated>(set: &S) -> Pod {
    let template = set.template().cloned().unwrap_or_default();
    let described = template.metadata.unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", set.meta().name.as_deref().unwrap_or_default())),
            namespace: set.meta().namespace.clone(),
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

/// The status that the Pods call for; with a reason if the Pods could not be made or deleted.
fn status<S: Replicated>(facts: &Facts<'_, S>, failed: Option<&str>) -> ReplicaSetStatus {
    let Facts { set, active, terminating, now } = facts;
    let minimum = set.min_ready_seconds();
    let template = set.template().and_then(|template| template.metadata.as_ref()?.labels.as_ref());
    let fully_labeled = |pod: &&Arc<Pod>| {
        let labels = pod.metadata.labels.as_ref();
        template.into_iter().flatten().all(|(key, value)| labels.is_some_and(|labels| labels.get(key) == Some(value)))
    };
    let mut known = set.status().and_then(|status| status.conditions).unwrap_or_default();
    match failed {
        None => conditions::remove(&mut known, REPLICA_FAILURE),
        // What is known to fail is not told anew: the message may differ each time.
        Some(_) if conditions::find(&known, REPLICA_FAILURE).is_some() => {}
        Some(reason) => known.push(ReplicaSetCondition {
            type_: REPLICA_FAILURE.into(),
            status: "True".into(),
            last_transition_time: Some(Time(*now)),
            reason: Some(reason.to_owned()),
            message: Some("{error}".to_owned()),
        }),
    }
    ReplicaSetStatus {
        replicas: count(active.len()),
        fully_labeled_replicas: Some(count(active.iter().filter(fully_labeled).count())),
        ready_replicas: Some(count(active.iter().filter(|pod| pods::is_ready(pod)).count())),
        available_replicas: Some(count(active.iter().filter(|pod| pods::is_available(pod, minimum, *now)).count())),
        terminating_replicas: S::COUNTS_TERMINATING.then(|| count(*terminating)),
        observed_generation: set.meta().generation,
        conditions: Some(known).filter(|conditions| !conditions.is_empty()),
    }
}

/// When a ready Pod becomes available and no event will tell.
fn next_check<S: Replicated>(set: &S, active: &[Arc<Pod>], now: Timestamp) -> Option<Duration> {
    let minimum = set.min_ready_seconds();
    let waits = active.iter().filter_map(|pod| pods::available_in(pod, minimum, now));
    waits.filter(|wait| minimum > 0 && !wait.is_zero()).min()
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
