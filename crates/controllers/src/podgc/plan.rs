//! Which Pods go because nobody else will see to it.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use pintle_runtime::plan::Pace;
use pintle_runtime::{Plan, Write, conditions};
use serde_json::{Value, json};

use crate::pods;

/// How long a node must be gone before its Pods go.
const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);

/// So many Pods that have ended are kept.
const KEPT: usize = 12_500;

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// What there is.
pub(super) struct Facts<'a> {
    pub(super) pod: &'a Pod,
    pub(super) node: NodeState,
    pub(super) now: Timestamp,
}

/// The node that a Pod is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeState {
    /// It is bound to none.
    None,
    There,
    /// It is not ready, and somebody has said that it will not be.
    OutOfService,
    MissingSince(Timestamp),
}

/// What to do.
#[derive(Debug)]
pub(super) enum Step {
    Done(Plan),
    /// This, if the server says that there is no such node.
    IfNodeIsGone(Plan),
}

pub(super) fn plan(facts: &Facts<'_>) -> Step {
    let Facts { pod, node, now } = facts;
    let is_going = pod.metadata.deletion_timestamp.is_some();
    match node {
        NodeState::None | NodeState::OutOfService if is_going => Step::Done(Plan::of(removal(pod, None, *now))),
        NodeState::None | NodeState::OutOfService | NodeState::There => Step::Done(Plan::default()),
        NodeState::MissingSince(since) => {
            let left = QUARANTINE.saturating_sub(now.duration_since(*since));
            match Duration::try_from(left).ok().filter(|left| !left.is_zero()) {
                Some(left) => Step::Done(Plan { again: Some(left), ..Plan::default() }),
                None => Step::IfNodeIsGone(Plan::of(removal(pod, Some("PodGC: node no longer exists"), *now))),
            }
        }
    }
}

/// Deletes the oldest of the Pods that have ended, evicted ones first, if there are too many.
pub(super) fn too_many(mut ended: Vec<Arc<Pod>>, now: Timestamp) -> Plan {
    let surplus = ended.len().saturating_sub(KEPT);
    if surplus == 0 {
        return Plan::default();
    }
    let is_evicted = |pod: &Pod| {
        let reason = pod.status.as_ref().and_then(|status| status.reason.as_deref());
        pods::phase(pod) == "Failed" && reason == Some("Evicted")
    };
    ended.sort_by_cached_key(|pod| {
        let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (!is_evicted(pod), created, pod.metadata.name.clone())
    });
    let removals = ended.iter().take(surplus).flat_map(|pod| removal(pod, None, now));
    Plan::of(removals.map(|write| write.paced(Pace::Together)).collect())
}

/// Whether a node is given up: it is not ready and has the taint.
pub(super) fn is_out_of_service(node: &Node) -> bool {
    let status = node.status.as_ref().and_then(|status| status.conditions.as_deref());
    let is_ready = conditions::find(status.unwrap_or_default(), "Ready").is_some_and(|ready| ready.status == "True");
    let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    !is_ready && taints.any(|taint| taint.key == OUT_OF_SERVICE)
}

/// The Pod fails, if it has not ended, and goes at once. Nothing if both were done and a finalizer holds it.
fn removal(pod: &Pod, disruption: Option<&str>, now: Timestamp) -> Vec<Write> {
    let failing = (!pods::is_terminal(pod)).then(|| Write::strategic(pod, failed(pod, disruption, now)).of("status"));
    let goes_already =
        pod.metadata.deletion_timestamp.is_some() && pod.metadata.deletion_grace_period_seconds == Some(0);
    let deletion = (!goes_already).then(|| Write::delete(pod).within_seconds(0));
    failing.into_iter().chain(deletion).collect()
}

fn failed(pod: &Pod, disruption: Option<&str>, now: Timestamp) -> Value {
    let mut status = json!({"phase": "Failed", "observedGeneration": pod.metadata.generation});
    if let Some(message) = disruption {
        let stamp = Timestamp::from_second(now.as_second()).unwrap_or(now);
        status["conditions"] = json!([{
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": message,
            "observedGeneration": pod.metadata.generation,
            "lastTransitionTime": stamp.to_string(),
        }]);
    }
    json!({"status": status})
}
