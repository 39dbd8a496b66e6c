//! How long a Pod stays on a node with taints, and how it goes.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition, Taint, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pintle_rules::placement::tolerates;
use pintle_runtime::{Plan, Write, conditions};
use serde_json::json;

/// Deletes the Pod if its tolerations have run out, or looks again when they will have.
///
/// First its conditions tell its owner that it did not fail. They are written at the version that was read, and the deletion
/// comes after: a Pod that somebody else has written is looked at again.
pub(super) fn plan(pod: &Pod, taints: &[Taint], first_seen: Timestamp, now: Timestamp) -> Plan {
    match fate(pod, taints, first_seen, now) {
        Fate::Stays => Plan::default(),
        Fate::GoesIn(left) => Plan { again: Some(left), ..Plan::default() },
        Fate::GoesNow => {
            let conditions = json!({"status": {"conditions": evicted(pod, now)}});
            let marked = Write::merge_at_version(pod, conditions).of("status");
            let (namespace, name) = (pod.metadata.namespace.as_deref(), pod.metadata.name.as_deref());
            let message =
                format!("Marking for deletion Pod {}/{}", namespace.unwrap_or_default(), name.unwrap_or_default());
            Plan::of(vec![marked, Write::delete(pod).saying("TaintManagerEviction", message)])
        }
    }
}

pub(super) fn no_execute_taints(node: &Node) -> Vec<Taint> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.filter(|taint| taint.effect == "NoExecute").cloned().collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    GoesIn(Duration),
    GoesNow,
}

/// What becomes of a Pod on a node with these taints. A taint without a time counts from when it was first seen.
fn fate(pod: &Pod, taints: &[Taint], first_seen: Timestamp, now: Timestamp) -> Fate {
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    let mut fate = Fate::Stays;
    for taint in taints {
        let matching: Vec<&Toleration> = tolerations.iter().filter(|toleration| tolerates(toleration, taint)).collect();
        if matching.is_empty() {
            return Fate::GoesNow;
        }
        let Some(seconds) = matching.iter().filter_map(|toleration| toleration.toleration_seconds).min() else {
            continue;
        };
        let since = taint.time_added.as_ref().map_or(first_seen, |time| time.0);
        let end = since.checked_add(SignedDuration::from_secs(seconds.max(0))).unwrap_or(Timestamp::MAX);
        let left = end.duration_since(now);
        match (Duration::try_from(left).ok().filter(|left| !left.is_zero()), fate) {
            (None, _) => return Fate::GoesNow,
            (Some(left), Fate::GoesIn(earlier)) => fate = Fate::GoesIn(left.min(earlier)),
            (Some(left), _) => fate = Fate::GoesIn(left),
        }
    }
    fate
}

/// The Pod's conditions on its way out, which tell its owner that it did not fail.
fn evicted(pod: &Pod, now: Timestamp) -> Vec<PodCondition> {
    let mut conditions = pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    conditions::set(
        &mut conditions,
        PodCondition {
            type_: "DisruptionTarget".into(),
            status: "True".into(),
            reason: Some("DeletionByTaintManager".into()),
            message: Some("Taint manager: deleting due to NoExecute taint".into()),
            last_transition_time: Some(Time(now)),
            ..PodCondition::default()
        },
    );
    conditions
}
