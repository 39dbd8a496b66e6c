//! What people who drain nodes would lose.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

use super::plan;

fn budget(spec: Value) -> PodDisruptionBudget {
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    serde_json::from_value(json!({"metadata": {"name": "b", "generation": 3}, "spec": spec})).unwrap()
}

fn pod(name: &str, ready: bool) -> Pod {
    let conditions = json!([{"type": "Ready", "status": if ready { "True" } else { "False" }}]);
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"app": "web"}}, "status": {"phase": "Running", "conditions": conditions}})).unwrap()
}

#[test]
fn a_budget_allows_as_many_evictions_as_leave_enough() {
    for (spec, ready, should_be, desired, allowed) in [
        (json!({"minAvailable": 2}), 3, 3, 2, 1),
        (json!({"minAvailable": 2}), 2, 3, 2, 0),
        (json!({"minAvailable": "50%"}), 3, 4, 2, 1),
        (json!({"minAvailable": "51%"}), 4, 4, 3, 1),
        (json!({"maxUnavailable": 1}), 3, 3, 2, 1),
        (json!({"maxUnavailable": 1}), 2, 3, 2, 0),
        (json!({"maxUnavailable": "34%"}), 3, 3, 1, 2),
        (json!({"minAvailable": 1}), 0, 0, 1, 0),
    ] {
        let pods: Vec<Pod> = (0..3.max(ready)).map(|i| pod(&format!("p{i}"), i < ready)).collect();
        let covered: Vec<&Pod> = pods.iter().collect();
        let (status, _) = plan::status(&budget(spec.clone()), &covered, should_be, Timestamp::UNIX_EPOCH);
        assert_eq!(
            (status.desired_healthy, status.disruptions_allowed),
            (Some(desired), Some(allowed)),
            "{spec} with {ready} ready"
        );
        assert_eq!(status.observed_generation, Some(3));
    }
}

#[test]
fn an_eviction_that_was_granted_counts_until_its_pod_is_gone_or_two_minutes_are_over() {
    let now = Timestamp::UNIX_EPOCH;
    let mut budget = budget(json!({"minAvailable": 1}));
    budget.status = serde_json::from_value(
        json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
        "disruptedPods": {"p0": "1970-01-01T00:00:00Z"}}),
    )
    .unwrap();
    let pods = [pod("p0", true), pod("p1", true)];
    let covered: Vec<&Pod> = pods.iter().collect();
    let (status, again) = plan::status(&budget, &covered, 2, now);
    assert_eq!((status.current_healthy, status.disruptions_allowed), (Some(1), Some(0)));
    assert_eq!(again.map(|wait| wait.as_secs()), Some(120));
    let (status, _) = plan::status(&budget, &covered, 2, now + jiff::SignedDuration::from_secs(121));
    assert_eq!(status.disruptions_allowed, Some(1));
}

#[test]
fn a_budget_without_a_selector_covers_nothing() {
    let mut budget = budget(json!({}));
    budget.spec.as_mut().unwrap().selector = None;
    assert!(!plan::covers(&budget, &pod("p", true)));
}
