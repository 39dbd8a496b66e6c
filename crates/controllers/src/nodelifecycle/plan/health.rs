//! Whether a node has been heard of, and what its conditions become if not.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pintle_runtime::conditions;

/// How long a node may be silent whose Lease says nothing else.
const GRACE: SignedDuration = SignedDuration::from_secs(50);

/// How long a node that has never reported may take to do so.
const STARTUP_GRACE: SignedDuration = SignedDuration::from_secs(60);

/// What a silent node says nothing about any more.
const KUBELETS_CONDITIONS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The last sign of life. What counts is when it was seen here, not the time written on it: clocks differ.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Heard {
    renewed: Option<Timestamp>,
    heartbeat: Option<Timestamp>,
    pub(in super::super) at: Timestamp,
    /// How long it may be silent from then on.
    grace: SignedDuration,
    /// Whether the node was ready when last looked at.
    pub(in super::super) ready: String,
}

impl Heard {
    /// Takes in what the node and its lease say now.
    pub(in super::super) fn listen(
        before: Option<&Heard>,
        node: &Node,
        lease: Option<&Lease>,
        now: Timestamp,
    ) -> Heard {
        let renewed = lease.and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref()).map(|time| time.0);
        let heartbeat = ready(node).and_then(|condition| condition.last_heartbeat_time.as_ref()).map(|time| time.0);
        let ready = ready_status(node).to_owned();
        let created = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let at = match before {
            Some(before) if before.renewed == renewed && before.heartbeat == heartbeat => before.at,
            Some(_) => now,
            // One that never reported is timed from its creation.
            None if ready.is_empty() => created.unwrap_or(now),
            None => now,
        };
        let grace = if ready.is_empty() { STARTUP_GRACE } else { grace(lease) };
        Heard { renewed, heartbeat, at, grace, ready }
    }
}

/// A Lease that holds for longer is renewed less often: as with one of the usual 40 s, a quarter of its time is added.
fn grace(lease: Option<&Lease>) -> SignedDuration {
    let seconds = lease.and_then(|lease| lease.spec.as_ref()?.lease_duration_seconds).unwrap_or_default();
    GRACE.max(SignedDuration::from_secs(i64::from(seconds) * 5 / 4))
}

#[derive(Debug, PartialEq)]
pub(in super::super) enum Verdict {
    /// It lives; look again after this time.
    Alive(Duration),
    /// It is silent, and these are its conditions now.
    Silent(Vec<NodeCondition>),
    /// It is silent, and its conditions say so.
    KnownSilent,
}

pub(in super::super) fn judge(node: &Node, heard: &Heard, now: Timestamp) -> Verdict {
    let left = (heard.at + heard.grace).duration_since(now);
    if left >= SignedDuration::ZERO {
        // A moment past the limit, so that the next look finds it passed.
        return Verdict::Alive(Duration::try_from(left).unwrap_or(Duration::ZERO) + Duration::from_millis(1));
    }
    let before = node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let mut after = before.clone();
    for kind in KUBELETS_CONDITIONS {
        match after.iter_mut().find(|condition| condition.type_ == kind) {
            Some(condition) if condition.status != "Unknown" => {
                condition.status = "Unknown".into();
                condition.reason = Some("NodeStatusUnknown".into());
                condition.message = Some("Kubelet stopped posting node status.".into());
                condition.last_transition_time = Some(Time(now));
            }
            Some(_) => {}
            None => after.push(NodeCondition {
                type_: kind.into(),
                status: "Unknown".into(),
                reason: Some("NodeStatusNeverUpdated".into()),
                message: Some("Kubelet never posted node status.".into()),
                last_heartbeat_time: node.metadata.creation_timestamp.clone(),
                last_transition_time: Some(Time(now)),
            }),
        }
    }
    if after == before { Verdict::KnownSilent } else { Verdict::Silent(after) }
}

fn ready(node: &Node) -> Option<&NodeCondition> {
    let status = node.status.as_ref()?;
    conditions::find(status.conditions.as_deref().unwrap_or_default(), "Ready")
}

/// `True`, `False`, `Unknown`, or nothing if the node has never said.
pub(in super::super) fn ready_status(node: &Node) -> &str {
    ready(node).map(|condition| condition.status.as_str()).unwrap_or_default()
}

/// The Pod's conditions once its node is not ready; nothing if they say so already.
pub(in super::super) fn not_ready_now(pod: &Pod, now: Timestamp) -> Option<Vec<PodCondition>> {
    let mut conditions = pod.status.as_ref()?.conditions.clone()?;
    let ready = conditions.iter_mut().find(|condition| condition.type_ == "Ready" && condition.status != "False")?;
    ready.status = "False".into();
    ready.last_transition_time = Some(Time(now));
    Some(conditions)
}
