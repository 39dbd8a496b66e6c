//! What a user of a ReplicaSet would lose.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use pintle_runtime::Plan;

use super::plan::{self, Facts};

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).unwrap()
}

fn ago(seconds: i64) -> String {
    (now() - SignedDuration::from_secs(seconds)).to_string()
}

fn set(replicas: i32, min_ready: i32) -> ReplicaSet {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "rs", "generation": 3},
        "spec": {"replicas": replicas, "minReadySeconds": min_ready, "selector": {"matchLabels": {"app": "web"}},
                 "template": {"metadata": {"labels": {"app": "web", "tier": "front"}},
                              "spec": {"containers": [{"name": "c", "image": "i"}]}}},
    }))
    .unwrap()
}

/// A running Pod, changed by a merge of `change`.
fn pod(name: &str, ready_for: Option<i64>, change: Value) -> Arc<Pod> {
    let ready = match ready_for {
        Some(seconds) => json!([{"type": "Ready", "status": "True", "lastTransitionTime": ago(seconds)}]),
        None => json!([]),
    };
    let mut object = json!({
        "metadata": {"name": name, "uid": name, "labels": {"app": "web"}, "creationTimestamp": ago(5000)},
        "spec": {"nodeName": "n1", "containers": []},
        "status": {"phase": "Running", "conditions": ready},
    });
    merge(&mut object, change);
    Arc::new(serde_json::from_value(object).unwrap())
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

fn planned(set: &ReplicaSet, active: Vec<Arc<Pod>>) -> Plan {
    let kin = active.clone();
    plan::plan(Facts { set, active, terminating: 2, now: now() }, || kin)
}

fn writes(plan: &Plan) -> Vec<String> {
    plan.writes.iter().map(ToString::to_string).collect()
}

fn deleted(pods: Vec<Arc<Pod>>) -> String {
    let keep = i32::try_from(pods.len() - 1).unwrap();
    let plan = planned(&set(keep, 0), pods);
    let [write] = plan.writes.as_slice() else { panic!("{plan:?}") };
    write.to_string().strip_prefix("delete pods/").unwrap().to_owned()
}

#[test]
fn a_missing_pod_is_made_and_never_more_than_a_burst_at_once() {
    let one = vec![pod("a", None, json!({}))];
    assert_eq!(writes(&planned(&set(3, 0), one.clone())), ["create 2 pods"]);
    assert_eq!(writes(&planned(&set(9000, 0), one.clone())), ["create 500 pods"]);
    assert!(planned(&set(1, 0), one).writes.is_empty());
}

#[test]
fn the_pod_that_serves_least_goes_first() {
    let serving = || pod("serving", Some(4000), json!({}));
    let cases = [
        ("no node", pod("x", Some(4000), json!({"spec": {"nodeName": null}}))),
        ("pending", pod("x", Some(4000), json!({"status": {"phase": "Pending"}}))),
        ("not ready", pod("x", None, json!({}))),
        (
            "cheap",
            pod(
                "x",
                Some(4000),
                json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}}),
            ),
        ),
        ("just became ready", pod("x", Some(5), json!({}))),
        (
            "restarts",
            pod(
                "x",
                Some(4000),
                json!({"status": {"containerStatuses": [
                    {"name": "c", "restartCount": 4, "image": "", "imageID": "", "ready": true},
                ]}}),
            ),
        ),
        ("young", pod("x", Some(4000), json!({"metadata": {"creationTimestamp": ago(9)}}))),
    ];
    for (why, victim) in cases {
        assert_eq!(deleted(vec![serving(), victim.clone()]), "x", "{why}");
        assert_eq!(deleted(vec![victim, serving()]), "x", "{why}, the other way round");
    }
}

#[test]
fn pods_stay_spread_over_nodes_when_scaled_down() {
    let on = |name: &str, node: &str| pod(name, Some(4000), json!({"spec": {"nodeName": node}}));
    assert_eq!(deleted(vec![on("a", "n1"), on("b", "n2"), on("c", "n2")]), "b");
}

#[test]
fn a_pod_ready_a_moment_longer_is_not_safer() {
    // Both are in the bucket of 2048 to 4096 s: the UID decides.
    assert_eq!(deleted(vec![pod("b", Some(3000), json!({})), pod("a", Some(3500), json!({}))]), "a");
}

#[test]
fn a_pod_is_made_from_the_template_and_belongs_to_its_set() {
    let plan = planned(&set(1, 0), Vec::new());
    let pod: Pod = serde_json::from_value(plan.writes[0].body()).unwrap();
    assert_eq!(pod.metadata.generate_name.as_deref(), Some("web-"));
    assert_eq!(pod.metadata.labels.unwrap().len(), 2);
    let owner = &pod.metadata.owner_references.unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.uid.as_str(), owner.controller), ("ReplicaSet", "rs", Some(true)));
}

/// The status after the plan, and the one if its writes fail.
fn statuses(set: &ReplicaSet, active: Vec<Arc<Pod>>) -> (Value, Value) {
    let status = planned(set, active).status.unwrap();
    (status.changes().cloned().unwrap_or_default(), status.changes_if_failed().cloned().unwrap_or_default())
}

#[test]
fn status_counts_ready_available_and_fully_labeled_apart() {
    let pods = vec![
        pod("a", Some(100), json!({"metadata": {"labels": {"tier": "front"}}})),
        pod("b", Some(10), json!({})),
        pod("c", None, json!({})),
    ];
    let (status, _) = statuses(&set(3, 60), pods.clone());
    let expected = json!({"replicas": 3, "readyReplicas": 2, "availableReplicas": 1, "fullyLabeledReplicas": 1,
                          "terminatingReplicas": 2, "observedGeneration": 3});
    assert_eq!(status, expected);
    assert_eq!(planned(&set(3, 60), pods).again, Some(Duration::from_secs(50)));
}

#[test]
fn a_quota_that_stops_creation_shows_in_the_status_until_it_does_not() {
    let mut set = set(1, 0);
    let (_, failed) = statuses(&set, Vec::new());
    let condition = &failed["conditions"][0];
    assert_eq!((&condition["type"], &condition["reason"]), (&json!("ReplicaFailure"), &json!("FailedCreate")));
    set.status = Some(serde_json::from_value(failed).unwrap());
    let (healed, failed) = statuses(&set, Vec::new());
    assert_eq!(failed, Value::Null, "what is known to fail is not told anew");
    assert_eq!(healed["conditions"], Value::Null);
    assert!(healed.as_object().unwrap().contains_key("conditions"), "{healed}");
}
