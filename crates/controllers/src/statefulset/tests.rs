//! What a user of a StatefulSet would lose.

mod claims;
mod order;
mod updates;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use pintle_runtime::Plan;
use serde_json::{Value, json};

use super::plan::{self, Facts};

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

/// A set, what there is of it, and what its plan is.
struct World {
    set: Value,
    pods: Vec<Value>,
    revisions: Vec<ControllerRevision>,
    claims: BTreeMap<String, Value>,
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn revision(number: i64, image: &str) -> ControllerRevision {
    let mut restored = template(image);
    restored["$patch"] = json!("replace");
    serde_json::from_value(json!({"metadata": {"name": format!("web-{image}"), "namespace": "shop"},
        "data": {"spec": {"template": restored}}, "revision": number}))
    .unwrap()
}

impl World {
    /// A set of so many Pods of image `new`, none of which is there, with its revision.
    fn of(replicas: i64, change: Value) -> Self {
        let mut set = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "set", "generation": 3},
            "spec": {"replicas": replicas, "serviceName": "peers", "selector": {"matchLabels": {"app": "web"}},
                     "podManagementPolicy": "OrderedReady", "template": template("new"),
                     "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}},
            "status": {"replicas": 0},
        });
        merge(&mut set, change);
        World { set, pods: Vec::new(), revisions: vec![revision(2, "new")], claims: BTreeMap::new() }
    }

    fn parallel(replicas: i64) -> Self {
        World::of(replicas, json!({"spec": {"podManagementPolicy": "Parallel"}}))
    }

    /// With the revision `old`, which is the current one.
    fn updating(mut self) -> Self {
        self.revisions.insert(0, revision(1, "old"));
        merge(&mut self.set, json!({"status": {"currentRevision": "web-old"}}));
        self
    }

    fn with(mut self, change: Value) -> Self {
        merge(&mut self.set, change);
        self
    }

    /// With a Pod of this number: an image, a state, a change.
    fn pod(mut self, ordinal: u32, image: &str, state: &str, change: Value) -> Self {
        let name = format!("web-{ordinal}");
        let ready = |seconds: i64| json!([{"type": "Ready", "status": "True", "lastTransitionTime": ago(seconds)}]);
        let (phase, conditions) = match state {
            "ready" | "going" => ("Running", ready(3600)),
            "fresh" => ("Running", ready(5)),
            "running" => ("Running", json!([])),
            "Pending" | "Failed" | "Succeeded" => (state, json!([])),
            other => panic!("{other}"),
        };
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{ordinal}"), "labels": {"app": "web",
                "controller-revision-hash": format!("web-{image}"), "statefulset.kubernetes.io/pod-name": name}},
            "spec": {"containers": []}, "status": {"phase": phase, "conditions": conditions},
        });
        if state == "going" {
            pod["metadata"]["deletionTimestamp"] = json!(ago(1));
        }
        merge(&mut pod, change);
        self.pods.push(pod);
        self
    }

    /// With ready Pods of these numbers.
    fn ready(self, ordinals: impl IntoIterator<Item = u32>, image: &str) -> Self {
        ordinals.into_iter().fold(self, |world, ordinal| world.pod(ordinal, image, "ready", json!({})))
    }

    fn claim(mut self, name: &str, change: Value) -> Self {
        let mut claim = json!({"metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "5"}});
        merge(&mut claim, change);
        self.claims.insert(name.to_owned(), claim);
        self
    }

    fn plan(&self) -> Plan {
        let set: StatefulSet = serde_json::from_value(self.set.clone()).unwrap();
        let pods = self.pods.iter().map(|pod| Arc::new(serde_json::from_value::<Pod>(pod.clone()).unwrap())).collect();
        let claim = |name: &str| -> Option<Arc<PersistentVolumeClaim>> {
            self.claims.get(name).map(|claim| Arc::new(serde_json::from_value(claim.clone()).unwrap()))
        };
        let revisions: Vec<Arc<ControllerRevision>> = self.revisions.iter().cloned().map(Arc::new).collect();
        let named = |name: &str| revisions.iter().find(|it| it.metadata.name.as_deref() == Some(name)).cloned();
        let own = revisions.iter().filter(|it| it.revision > 0).cloned().collect();
        plan::plan(Facts { set: &set, pods, revisions: own, claim: &claim, revision: &named, now: now() })
    }

    fn writes(&self) -> Vec<String> {
        self.plan().writes.iter().map(ToString::to_string).collect()
    }

    /// The status that is written.
    fn status(&self) -> StatefulSetStatus {
        let mut status = self.set["status"].clone();
        let change = self.plan().status.and_then(|status| status.changes().cloned());
        merge(&mut status, change.unwrap_or_else(|| json!({})));
        serde_json::from_value(status).unwrap()
    }
}

fn events(plan: &Plan) -> Vec<String> {
    plan.events.iter().map(|note| format!("{} {}: {}", note.is_warning, note.reason, note.message)).collect()
}
