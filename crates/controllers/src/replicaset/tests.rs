//! What a user of a ReplicaSet would lose.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::plan::{self, Failure, Step};

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

fn deleted(pods: Vec<Arc<Pod>>) -> String {
    let kin = pods.clone();
    let keep = i32::try_from(pods.len() - 1).unwrap();
    match plan::step(&set(keep, 0), pods, || kin, now()) {
        Step::Delete(pods) => pods[0].metadata.name.clone().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_missing_pod_is_made_and_never_more_than_a_burst_at_once() {
    let one = vec![pod("a", None, json!({}))];
    assert!(matches!(plan::step(&set(3, 0), one.clone(), Vec::new, now()), Step::Create(2)));
    assert!(matches!(plan::step(&set(9000, 0), one.clone(), Vec::new, now()), Step::Create(500)));
    assert!(matches!(plan::step(&set(1, 0), one, Vec::new, now()), Step::Nothing));
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
    let pod = plan::pod_from_template(&set(1, 0));
    assert_eq!(pod.metadata.generate_name.as_deref(), Some("web-"));
    assert_eq!(pod.metadata.labels.unwrap().len(), 2);
    let owner = &pod.metadata.owner_references.unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.uid.as_str(), owner.controller), ("ReplicaSet", "rs", Some(true)));
}

#[test]
fn status_counts_ready_available_and_fully_labeled_apart() {
    let pods = [
        pod("a", Some(100), json!({"metadata": {"labels": {"tier": "front"}}})),
        pod("b", Some(10), json!({})),
        pod("c", None, json!({})),
    ];
    let status = plan::status(&set(3, 60), &pods, 2, None, now());
    assert_eq!((status.replicas, status.ready_replicas, status.available_replicas), (3, Some(2), Some(1)));
    assert_eq!((status.fully_labeled_replicas, status.terminating_replicas), (Some(1), Some(2)));
    assert_eq!(status.observed_generation, Some(3));
    assert_eq!(plan::next_check(&set(3, 60), &pods, now()), Some(Duration::from_secs(50)));
}

#[test]
fn a_quota_that_stops_creation_shows_in_the_status_until_it_does_not() {
    let failure = Failure { step: &Step::Create(1), message: "exceeded quota".into() };
    let mut set = set(1, 0);
    let status = plan::status(&set, &[], 0, Some(failure), now());
    let condition = &status.conditions.as_ref().unwrap()[0];
    assert_eq!((condition.type_.as_str(), condition.reason.as_deref()), ("ReplicaFailure", Some("FailedCreate")));
    set.status = Some(status.clone());
    assert!(!plan::differs(set.status.as_ref(), &status));
    let healed = plan::status(&set, &[], 0, None, now());
    assert_eq!(healed.conditions, None);
    assert!(plan::differs(set.status.as_ref(), &healed));
}
