//! What people who drain nodes would lose.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use pintle_runtime::{Plan, conditions};
use serde_json::{Value, json};

use super::plan;
use super::scale::Wanted;

fn budget(spec: Value) -> PodDisruptionBudget {
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    serde_json::from_value(json!({"metadata": {"name": "b", "generation": 3}, "spec": spec})).unwrap()
}

fn pod(name: &str, ready: bool) -> Pod {
    let conditions = json!([{"type": "Ready", "status": if ready { "True" } else { "False" }}]);
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"app": "web"}}, "status": {"phase": "Running", "conditions": conditions}})).unwrap()
}

fn planned(
    budget: &PodDisruptionBudget,
    pods: &[Pod],
    replicas: i32,
    now: Timestamp,
) -> (Plan, PodDisruptionBudgetStatus) {
    let covered: Vec<&Pod> = pods.iter().collect();
    let plan = plan::plan(budget, &covered, Ok(Wanted { replicas, unmanaged: Vec::new() }), now);
    let status = serde_json::from_value(plan.status.as_ref().unwrap().wanted().clone()).unwrap();
    (plan, status)
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
        let (_, status) = planned(&budget(spec.clone()), &pods, should_be, Timestamp::UNIX_EPOCH);
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
    let (plan, status) = planned(&budget, &pods, 2, now);
    assert_eq!((status.current_healthy, status.disruptions_allowed), (Some(1), Some(0)));
    assert_eq!(plan.again.map(|wait| wait.as_secs()), Some(120));
    let (_, status) = planned(&budget, &pods, 2, now + jiff::SignedDuration::from_secs(121));
    assert_eq!(status.disruptions_allowed, Some(1));
}

#[test]
fn a_budget_without_a_selector_covers_nothing() {
    let mut budget = budget(json!({}));
    budget.spec.as_mut().unwrap().selector = None;
    assert!(!plan::covers(&budget, &pod("p", true)));
}

#[test]
fn nothing_may_be_evicted_while_it_is_not_known_what_the_owners_want() {
    let mut budget = budget(json!({"maxUnavailable": 1}));
    budget.status = serde_json::from_value(
        json!({"currentHealthy": 3, "desiredHealthy": 2, "disruptionsAllowed": 1, "expectedPods": 3}),
    )
    .unwrap();
    let plan = plan::plan(&budget, &[&pod("p0", true)], Err("no scale".into()), Timestamp::UNIX_EPOCH);
    let status: PodDisruptionBudgetStatus = serde_json::from_value(plan.status.unwrap().wanted().clone()).unwrap();
    let condition = conditions::find(status.conditions.as_deref().unwrap(), "DisruptionAllowed").unwrap();
    assert_eq!((status.disruptions_allowed, condition.reason.as_str()), (Some(0), "SyncFailed"));
    assert_eq!(plan.events[0].reason, "CalculateExpectedPodCountFailed");
}

#[test]
fn a_pod_without_an_owner_is_reported_and_counts_for_nothing() {
    let wanted = Wanted { replicas: 0, unmanaged: vec!["p0".into()] };
    let plan =
        plan::plan(&budget(json!({"maxUnavailable": 1})), &[&pod("p0", true)], Ok(wanted), Timestamp::UNIX_EPOCH);
    assert_eq!(plan.events[0].reason, "UnmanagedPods");
    assert_eq!(plan.status.unwrap().wanted()["disruptionsAllowed"], 0);
}
