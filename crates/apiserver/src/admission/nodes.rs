//! A new node takes no Pods until it has said that it is ready.

use pintle_meta::object;
use serde_json::{Value, json};

const NOT_READY: &str = "node.kubernetes.io/not-ready";

pub(super) fn not_ready(node: &mut Value) {
    let is_it = |taint: &Value| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule";
    if object::list(node, &["spec", "taints"]).iter().any(is_it) {
        return;
    }
    let taints = object::map_at(node, "spec").entry("taints").or_insert_with(|| json!([]));
    if let Some(taints) = taints.as_array_mut() {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    }
}
