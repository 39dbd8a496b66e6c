//! What a user of a DaemonSet would lose.

mod history;
mod nodes;
mod rollout;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::plan::{self, Decision, Facts};

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).unwrap()
}

fn ago(seconds: i64) -> String {
    (now() - SignedDuration::from_secs(seconds)).to_string()
}

fn merge(target: &mut Value, change: Value) {
    match (target, change) {
        (Value::Object(target), Value::Object(change)) => {
            for (key, value) in change {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (target, change) => *target = change,
    }
}

/// A set, its nodes and Pods, and what its plan is.
struct World {
    set: Value,
    nodes: BTreeMap<String, Value>,
    pods: Vec<Value>,
    revisions: Vec<ControllerRevision>,
    backoffs: BTreeMap<String, Duration>,
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

/// A revision of an image, by which its Pods are labelled too.
fn revision(number: i64, image: &str) -> ControllerRevision {
    let mut restored = template(image);
    restored["$patch"] = json!("replace");
    serde_json::from_value(json!({"metadata": {"name": format!("agent-{image}"), "namespace": "shop",
        "labels": {"controller-revision-hash": image}}, "data": {"spec": {"template": restored}}, "revision": number}))
    .unwrap()
}

/// How Pods of an old template make way.
fn strategy(unavailable: Value, surge: Value) -> Value {
    json!({"spec": {"updateStrategy": {"type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}}}})
}

impl World {
    /// A set of image `new` with its revision, and nodes without Pods.
    fn of(nodes: &[&str], change: Value) -> Self {
        let mut set = json!({
            "metadata": {"name": "agent", "namespace": "shop", "uid": "set", "generation": 3},
            "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template("new")},
            "status": {"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0},
        });
        merge(&mut set, strategy(json!(1), json!(0)));
        merge(&mut set, change);
        let world = World {
            set,
            nodes: BTreeMap::new(),
            pods: Vec::new(),
            revisions: vec![revision(1, "old"), revision(2, "new")],
            backoffs: BTreeMap::new(),
        };
        nodes.iter().fold(world, |world, node| world.node(node, json!({})))
    }

    fn node(mut self, name: &str, change: Value) -> Self {
        let mut node = json!({"metadata": {"name": name}, "spec": {}});
        merge(&mut node, change);
        self.nodes.insert(name.to_owned(), node);
        self
    }

    /// With a Pod, called after its node and image: in a state, changed.
    fn pod(mut self, node: &str, image: &str, state: &str, change: Value) -> Self {
        let ready = |seconds: i64| json!([{"type": "Ready", "status": "True", "lastTransitionTime": ago(seconds)}]);
        let (phase, conditions) = match state {
            "ready" | "going" => ("Running", ready(3600)),
            "fresh" => ("Running", ready(5)),
            "running" => ("Running", json!([])),
            "Pending" | "Failed" | "Succeeded" => (state, json!([])),
            other => panic!("{other}"),
        };
        let mut pod = json!({
            "metadata": {"name": format!("{node}-{image}"), "namespace": "shop", "uid": format!("{node}-{image}"),
                "creationTimestamp": ago(100), "labels": {"app": "agent", "controller-revision-hash": image}},
            "spec": {"nodeName": node, "containers": []}, "status": {"phase": phase, "conditions": conditions},
        });
        if state == "going" {
            pod["metadata"]["deletionTimestamp"] = json!(ago(1));
        }
        merge(&mut pod, change);
        self.pods.push(pod);
        self
    }

    /// With an available Pod on each of these nodes.
    fn ready(self, nodes: &[&str], image: &str) -> Self {
        nodes.iter().fold(self, |world, node| world.pod(node, image, "ready", json!({})))
    }

    fn decide(&self) -> Decision {
        let set: DaemonSet = serde_json::from_value(self.set.clone()).unwrap();
        let read = |value: &Value| serde_json::from_value(value.clone()).unwrap();
        let nodes = self.nodes.values().map(|node| Arc::new(serde_json::from_value::<Node>(node.clone()).unwrap()));
        let pods = self.pods.iter().map(|pod| Arc::<Pod>::new(read(pod))).collect();
        let revisions: Vec<Arc<ControllerRevision>> = self.revisions.iter().cloned().map(Arc::new).collect();
        let named = |name: &str| revisions.iter().find(|it| it.metadata.name.as_deref() == Some(name)).cloned();
        let own = revisions.iter().filter(|it| it.revision > 0).cloned().collect();
        let backoff = |node: &str| self.backoffs.get(node).copied();
        let (nodes, now) = (nodes.collect(), now());
        plan::plan(Facts { set: &set, nodes, pods, revisions: own, revision: &named, backoff: &backoff, now })
    }

    /// The writes; a creation by the node that the Pod asks for.
    fn writes(&self) -> Vec<String> {
        let writes = self.decide().plan.writes;
        let told = writes.iter().map(|write| match write.to_string() {
            creation if creation == "create pods" => format!("create on {}", asked_for(&write.body())),
            other => other,
        });
        told.collect()
    }

    fn status(&self) -> Value {
        self.decide().plan.status.unwrap().changes().cloned().unwrap_or_default()
    }
}

/// The node that a Pod asks for by name.
fn asked_for(pod: &Value) -> String {
    let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0].as_str().unwrap().to_owned()
}
