//! For this crate's own tests: nodes and Pods from a few words of JSON.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use crate::pod::PodInfo;

/// A node of 4 processors, 8 GiB and 10 Pods; fields of `extra` take the place of whole top-level fields.
pub(crate) fn node(name: &str, extra: Value) -> Arc<Node> {
    let mut node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    });
    for (field, value) in extra.as_object().into_iter().flatten() {
        node[field] = value.clone();
    }
    Arc::new(serde_json::from_value(node).unwrap())
}

/// A node with these labels beside its host name.
pub(crate) fn labelled(name: &str, labels: Value) -> Arc<Node> {
    let mut labels = labels;
    labels["kubernetes.io/hostname"] = json!(name);
    node(name, json!({"metadata": {"name": name, "labels": labels}}))
}

pub(crate) fn pod(name: &str, spec: Value) -> Arc<PodInfo> {
    labelled_pod(name, json!({}), spec)
}

pub(crate) fn labelled_pod(name: &str, labels: Value, spec: Value) -> Arc<PodInfo> {
    let mut spec = spec;
    if spec.get("containers").is_none() {
        spec["containers"] = json!([{"name": "c"}]);
    }
    let metadata = json!({"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "labels": labels});
    let pod = json!({"metadata": metadata, "spec": spec});
    Arc::new(PodInfo::new(Arc::new(serde_json::from_value(pod).unwrap())))
}

/// A Pod that asks for this much of everything.
pub(crate) fn asking(name: &str, cpu: &str, memory: &str) -> Arc<PodInfo> {
    pod(name, json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]}))
}

/// A Pod whose status says that it is nominated.
pub(crate) fn nominated(name: &str, node: &str) -> Arc<PodInfo> {
    let mut pod = pod(name, json!({})).pod.as_ref().clone();
    pod.status.get_or_insert_default().nominated_node_name = Some(node.to_owned());
    Arc::new(PodInfo::new(Arc::new(pod)))
}

/// A Pod of this priority that asks for so much CPU.
pub(crate) fn important(name: &str, priority: i32, cpu: &str) -> Arc<PodInfo> {
    pod(name, json!({"priority": priority, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}))
}
