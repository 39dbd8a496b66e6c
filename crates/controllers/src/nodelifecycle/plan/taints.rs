//! Which taints a node's conditions call for.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// A condition, the status in which it taints, and the taint.
const BY_CONDITION: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// What may be done about taints that drive Pods away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Eviction {
    /// They are put on.
    Allowed,
    /// Those that are there stay; it is not yet the turn of others.
    Later,
    /// They are taken off: no node is healthy, so there is nowhere to go, and more likely the network is to blame.
    Withdrawn,
}

/// Whether the node's condition calls for a taint that drives Pods away and that it does not have.
pub(in super::super) fn awaits_eviction(node: &Node) -> bool {
    let called_for = called_for(node);
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let has = |key: &str| taints.iter().any(|taint| taint.key == key && taint.effect == "NoExecute");
    called_for.iter().any(|key| [NOT_READY, UNREACHABLE].contains(key) && !has(key))
}

/// The node's taints as they should be; nothing if they are.
pub(in super::super) fn wanted_taints(node: &Node, eviction: Eviction, now: Timestamp) -> Option<Vec<Taint>> {
    let called_for = called_for(node);
    let mut wanted: Vec<(&str, &str)> = called_for.iter().map(|key| (*key, "NoSchedule")).collect();
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    let drives_away = called_for.iter().filter(|key| [NOT_READY, UNREACHABLE].contains(key));
    let present = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    // While a node waits for its turn, a taint that turns from not-ready to unreachable is not taken off.
    let is_driven = present.iter().any(|taint| taint.effect == "NoExecute" && is_ours(taint));
    let may = eviction == Eviction::Allowed || (eviction == Eviction::Later && is_driven);
    wanted.extend(drives_away.filter(|_| may).map(|key| (*key, "NoExecute")));

    let mut taints = present.clone();
    taints.retain(|taint| !is_ours(taint) || wanted.contains(&(taint.key.as_str(), taint.effect.as_str())));
    for (key, effect) in wanted {
        if !taints.iter().any(|taint| taint.key == key && taint.effect == effect) {
            let (key, effect, time_added) = (key.to_owned(), effect.to_owned(), Some(Time(now)));
            taints.push(Taint { key, effect, time_added, value: None });
        }
    }
    (taints != present).then_some(taints)
}

/// The taints that the node's conditions call for.
fn called_for(node: &Node) -> Vec<&'static str> {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .flat_map(|condition| {
            let matching = BY_CONDITION.iter();
            matching.filter(move |(kind, status, _)| *kind == condition.type_ && *status == condition.status)
        })
        .map(|(_, _, taint)| *taint)
        .collect()
}

/// Taints that this loop puts on and takes off; users have their own.
fn is_ours(taint: &Taint) -> bool {
    match taint.effect.as_str() {
        "NoSchedule" => taint.key == UNSCHEDULABLE || BY_CONDITION.iter().any(|(_, _, key)| *key == taint.key),
        "NoExecute" => [NOT_READY, UNREACHABLE].contains(&taint.key.as_str()),
        _ => false,
    }
}
