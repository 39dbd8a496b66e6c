//! When a node counts as silent, what its conditions and taints become, and what its Pods say then.

mod health;
mod taints;
mod zones;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use pintle_runtime::plan::{Note, Pace};
use pintle_runtime::{Plan, Write};
use serde_json::json;

pub(super) use health::{Heard, Verdict, judge, ready_status};
pub(super) use taints::{Eviction, awaits_eviction};
pub(super) use zones::{Turn, Zones};

/// What is known of a node beside itself.
pub(super) struct Facts {
    pub(super) verdict: Verdict,
    /// Whether it was ready when last looked at.
    pub(super) was_ready: bool,
    pub(super) turn: Turn,
    pub(super) pods: Vec<Arc<Pod>>,
    pub(super) now: Timestamp,
}

/// A silent node is said to be so first; its taints and its Pods follow when that is seen.
pub(super) fn plan(node: &Node, facts: Facts) -> Plan {
    let Facts { verdict, was_ready, turn, pods, now } = facts;
    let mut plan = Plan::default();
    match verdict {
        Verdict::Silent(conditions) => {
            let patch = json!({"status": {"conditions": conditions}});
            return Plan::of(vec![Write::merge_at_version(node, patch).of("status")]);
        }
        Verdict::Alive(left) => plan.look_again(Some(left)),
        Verdict::KnownSilent => {}
    }
    let (name, ready) = (node.metadata.name.as_deref().unwrap_or_default(), ready_status(node));
    if was_ready && ready != "True" {
        plan.events.push(Note::normal("NodeNotReady", format!("Node {name} status is now: NodeNotReady")));
    }
    // A node that answers corrects its Pods' status itself; one that does not never will.
    if ready == "Unknown" || (was_ready && ready == "False") {
        for pod in pods {
            let Some(conditions) = health::not_ready_now(&pod, now) else { continue };
            let patch = json!({"status": {"conditions": conditions}});
            plan.writes.push(Write::merge_at_version(pod.as_ref(), patch).of("status").paced(Pace::Together));
            plan.events.push(Note::warning("NodeNotReady", "Node is not ready").about(pod.as_ref()));
        }
    }
    let eviction = match turn {
        Turn::Now => Eviction::Allowed,
        Turn::Never => Eviction::Withdrawn,
        Turn::After(wait) => {
            plan.look_again(wait);
            Eviction::Later
        }
    };
    if let Some(taints) = taints::wanted_taints(node, eviction, now) {
        // The list is replaced as a whole, so it must not meet another version.
        plan.writes.push(Write::merge_at_version(node, json!({"spec": {"taints": taints}})));
    }
    plan
}
