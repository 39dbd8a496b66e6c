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

/// The node's taints as they should be; nothing if they are.
///
/// `evicts` allows those that drive Pods away: when no node is healthy there is nowhere to go, and more likely the
/// network is to blame.
pub(in super::super) fn wanted_taints(node: &Node, evicts: bool, now: Timestamp) -> Option<Vec<Taint>> {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let called_for: Vec<&str> = conditions
        .flat_map(|condition| {
            let matching = BY_CONDITION.iter();
            matching.filter(move |(kind, status, _)| *kind == condition.type_ && *status == condition.status)
        })
        .map(|(_, _, taint)| *taint)
        .collect();
    let mut wanted: Vec<(&str, &str)> = called_for.iter().map(|key| (*key, "NoSchedule")).collect();
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    let drives_away = called_for.iter().filter(|key| [NOT_READY, UNREACHABLE].contains(key));
    wanted.extend(drives_away.filter(|_| evicts).map(|key| (*key, "NoExecute")));

    let present = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
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

/// Taints that this loop puts on and takes off; users have their own.
fn is_ours(taint: &Taint) -> bool {
    match taint.effect.as_str() {
        "NoSchedule" => taint.key == UNSCHEDULABLE || BY_CONDITION.iter().any(|(_, _, key)| *key == taint.key),
        "NoExecute" => [NOT_READY, UNREACHABLE].contains(&taint.key.as_str()),
        _ => false,
    }
}

pub(in super::super) fn no_execute_taints(node: &Node) -> Vec<Taint> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.filter(|taint| taint.effect == "NoExecute").cloned().collect()
}
