//! A Node: a machine that Pods run on.

use crate::resources::print::{AGE, NAME, NONE, UNKNOWN, or, text, text_or, wide};
use crate::resources::rules::items;
use crate::strategy::{Printed, Strategy};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::{Value, json};

const ROLE: &str = "node-role.kubernetes.io/";
const LEGACY_ROLE: &str = "kubernetes.io/role";

const COLUMNS: &[Printed] = &[
    NAME,
    text("Status", "The status of the node", |node, _| status(node).into()),
    text("Roles", "The roles of the node", |node, _| roles(node).into()),
    AGE,
    text("Version", "core.v1.NodeSystemInfo.kubeletVersion", |node, _| info(node, "kubeletVersion").into()),
    wide("Internal-IP", "core.v1.NodeStatus.addresses", |node, _| address(node, "InternalIP").into()),
    wide("External-IP", "core.v1.NodeStatus.addresses", |node, _| address(node, "ExternalIP").into()),
    wide("OS-Image", "core.v1.NodeSystemInfo.osImage", |node, _| or(info(node, "osImage"), UNKNOWN).into()),
    wide("Kernel-Version", "core.v1.NodeSystemInfo.kernelVersion", |node, _| {
        let kernel = or(info(node, "kernelVersion"), UNKNOWN);
        match info(node, "architecture") {
            "" => kernel.into(),
            architecture => format!("{kernel} ({architecture})").into(),
        }
    }),
    wide("Container-Runtime", "core.v1.NodeSystemInfo.containerRuntimeVersion", |node, _| {
        text_or(node, &["status", "nodeInfo", "containerRuntimeVersion"], UNKNOWN)
    }),
];

pub struct Node;

impl Strategy for Node {
    fn creates_with_status(&self) -> bool {
        true
    }

    fn default(&self, node: &mut Value) {
        // What can be used is what is there, until a kubelet says how much it keeps for itself.
        if let Some(capacity) = object::at(node, &["status", "capacity"]).filter(|c| c.is_object()).cloned() {
            object::fill(object::map_at(node, "status"), "allocatable", capacity);
        }
    }

    fn prepare_create(&self, node: &mut Value) {
        object::fill(object::as_map(node), "status", json!({}));
    }

    fn validate(&self, node: &Value, _old: Option<&Value>, errors: &mut Errors) {
        let mut seen: Vec<(&str, &str)> = Vec::new();
        let spec = node.get("spec").unwrap_or(&Value::Null);
        for (here, taint) in items(spec, &Path::new("spec"), "taints") {
            let pair = (object::text(taint, &["key"]), object::text(taint, &["effect"]));
            if seen.contains(&pair) {
                let mut error = Error::duplicate(&here, taint.clone());
                error.detail = "taints must be unique by key and effect pair".to_owned();
                errors.push(error);
            }
            seen.push(pair);
        }
    }

    /// Where a node's Pods have their addresses, and which machine it is, is said once.
    fn validate_update(&self, node: &Value, old: &Value, _subresource: &str, errors: &mut Errors) {
        let spec = Path::new("spec");
        for (key, detail) in [
            ("providerID", "node updates may not change providerID except from \"\" to valid"),
            ("podCIDR", "node updates may not change podCIDR except from \"\" to valid"),
        ] {
            let (now, before) = (object::text(node, &["spec", key]), object::text(old, &["spec", key]));
            if !before.is_empty() && now != before {
                errors.push(Error::forbidden(&spec.child(key), detail));
            }
        }
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.unschedulable"]
    }

    fn selectable_field(&self, node: &Value, _field: &str) -> String {
        object::flag(node, &["spec", "unschedulable"]).to_string()
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}

fn info<'a>(node: &'a Value, key: &str) -> &'a str {
    object::text(node, &["status", "nodeInfo", key])
}

fn status(node: &Value) -> String {
    let ready = object::list(node, &["status", "conditions"]).iter().find(|c| c["type"] == "Ready");
    let word = match ready.map(|c| object::text(c, &["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let held = if object::flag(node, &["spec", "unschedulable"]) { ",SchedulingDisabled" } else { "" };
    format!("{word}{held}")
}

fn roles(node: &Value) -> String {
    let labels = object::at(node, &["metadata", "labels"]).and_then(Value::as_object).into_iter().flatten();
    let mut roles: Vec<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix(ROLE) {
            Some("") => None,
            None if key == LEGACY_ROLE => value.as_str().filter(|v| !v.is_empty()),
            role => role,
        })
        .collect();
    roles.sort_unstable();
    roles.dedup();
    or(&roles.join(","), NONE).to_owned()
}

fn address(node: &Value, kind: &str) -> String {
    let found = object::list(node, &["status", "addresses"]).iter().find(|a| a["type"] == kind);
    found.map_or(NONE, |a| object::text(a, &["address"])).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_says_whether_it_takes_pods() {
        let node = |status: &str, held: bool| json!({"spec": {"unschedulable": held}, "status": {"conditions": [{"type": "Ready", "status": status}]}});
        assert_eq!(super::status(&node("True", false)), "Ready");
        assert_eq!(super::status(&node("Unknown", true)), "NotReady,SchedulingDisabled");
        assert_eq!(super::status(&json!({})), "Unknown");
    }
}
