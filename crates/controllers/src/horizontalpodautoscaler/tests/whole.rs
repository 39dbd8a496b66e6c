//! One look at a target as a whole: conditions, Events, several metrics, and what holds without any.

use serde_json::{Value, json};

use super::{Reading, Samples, autoscaler, condition, look, now, outcome, pods, target};
use crate::horizontalpodautoscaler::plan::{BadSelector, Decision, History, Seen, Step, Target, plan, step};

fn custom(names: &[&str]) -> Value {
    let metric = |name: &&str| json!({"type": "Pods", "pods": {"metric": {"name": name}, "target": {"type": "AverageValue", "averageValue": "10"}}});
    names.iter().map(metric).collect()
}

fn reading(line: &str) -> Result<Reading, String> {
    let (_, samples): (_, Samples) = pods(line, &json!({}));
    Ok(Reading::OfPods(samples))
}

fn failing() -> Result<Reading, String> {
    Err("unable to get metric b: it is down".to_owned())
}

fn events(decision: &Decision) -> Vec<(&'static str, String)> {
    decision.plan.events.iter().map(|note| (note.reason, note.message.clone())).collect()
}

/// A look at a target that is not measured.
fn unmeasured(change: Value, target: Result<Target, String>, why: BadSelector) -> Decision {
    let seen = Seen { target, measured: Err(why) };
    plan(&autoscaler(custom(&["a"]), change), seen, &mut History::default(), now())
}

#[test]
fn the_metric_that_wants_most_decides() {
    let look = |names: &[&str], readings| {
        let (pods, _) = pods("1 1 1", &json!({}));
        look(&autoscaler(custom(names), json!({})), target(3), pods, readings)
    };
    let up = look(&["a", "b", "c"], vec![reading("1 1 1"), reading("20000 20000 20000"), reading("15000 15000 15000")]);
    assert_eq!(outcome(&up, 3), Ok(6));
    let write = &up.plan.writes[0];
    assert_eq!(write.to_string(), "patch deployments/web/scale");
    assert_eq!(write.body(), json!({"metadata": {"uid": "d"}, "spec": {"replicas": 6}}));
    let said = "New size: 6; reason: pods metric b above target".to_owned();
    assert_eq!(write.said.if_done, Some(("SuccessfulRescale", said.clone())));
    assert_eq!(write.said.if_failed, Some(("FailedRescale", format!("{said}; error: {{error}}"))));
    let down = look(&["a", "b"], vec![reading("1 1 1"), reading("4000 4000 4000")]);
    assert_eq!(outcome(&down, 3), Ok(2));
    let said = "New size: 2; reason: All metrics below target".to_owned();
    assert_eq!(down.plan.writes[0].said.if_done, Some(("SuccessfulRescale", said)));
}

/// Kubernetes issue 99394: a metric that could not be read was left out, and the others scaled the target down.
#[test]
fn a_metric_that_cannot_be_read_keeps_what_it_might_need() {
    let look = |readings| {
        let (pods, _) = pods("1 1 1", &json!({}));
        look(&autoscaler(custom(&["a", "b"]), json!({})), target(3), pods, readings)
    };
    let up = look(vec![reading("20000 20000 20000"), failing()]);
    assert_eq!(outcome(&up, 3), Ok(6), "one that asks for more is enough");
    let failed = ("FailedGetPodsMetric", "unable to get metric b: it is down".to_owned());
    assert_eq!(events(&up), std::slice::from_ref(&failed));
    let status = up.plan.status.as_ref().unwrap().wanted().clone();
    assert_eq!(status["currentMetrics"][1], json!({"type": ""}), "clients find a metric by its place");

    let down = look(vec![reading("1000 1000 1000"), failing()]);
    assert_eq!(outcome(&down, 3), Err(failed.1.clone()));
    assert_eq!(condition(&down, "ScalingActive"), ("False", "FailedGetPodsMetric"));
    let all = "invalid metrics (1 invalid out of 2), first error is: failed to get pods metric value: \
               unable to get metric b: it is down";
    assert_eq!(events(&down), [failed.clone(), ("FailedComputeMetricsReplicas", all.to_owned())]);

    let none = look(vec![failing(), failing()]);
    assert_eq!(outcome(&none, 3), Err(failed.1));
    assert_eq!(events(&none).len(), 3);
}

#[test]
fn a_target_without_replicas_is_left_alone_and_one_out_of_range_is_brought_back() {
    // Minimum, maximum, replicas; what is done without looking at any metric.
    let cases = [
        (1, 10, 0, Step::Disabled),
        (3, 10, 0, Step::Disabled),
        (1, 10, 11, Step::Bring { replicas: 10, why: "Current number of replicas above Spec.MaxReplicas" }),
        (3, 10, 2, Step::Bring { replicas: 3, why: "Current number of replicas below Spec.MinReplicas" }),
        (3, 3, 2, Step::Bring { replicas: 3, why: "Current number of replicas below Spec.MinReplicas" }),
        (3, 10, 3, Step::Measure),
        (3, 10, 10, Step::Measure),
    ];
    for (minimum, maximum, replicas, expected) in cases {
        let change = json!({"minReplicas": minimum, "maxReplicas": maximum});
        let autoscaler = autoscaler(custom(&["a"]), change.clone());
        assert_eq!(step(&autoscaler, &target(replicas)), expected, "{minimum} {maximum} {replicas}");
        let decision = unmeasured(change, Ok(target(replicas)), BadSelector::Missing);
        let status = decision.plan.status.as_ref().unwrap().wanted().clone();
        match expected {
            Step::Disabled => {
                assert_eq!(condition(&decision, "ScalingActive"), ("False", "ScalingDisabled"));
                assert!(decision.plan.writes.is_empty() && decision.plan.events.is_empty());
            }
            Step::Bring { replicas: to, .. } => {
                assert_eq!(decision.scales, Some((replicas, to)));
                assert_eq!(condition(&decision, "AbleToScale"), ("True", "SucceededRescale"));
                assert_eq!((&status["currentReplicas"], &status["desiredReplicas"]), (&json!(replicas), &json!(to)));
                assert!(status["lastScaleTime"].is_string());
            }
            Step::Measure => assert_eq!(decision.scales, None),
        }
    }
}

#[test]
fn what_stands_in_the_way_is_told() {
    let decision = unmeasured(json!({}), Err("deployments.apps \"web\" not found".to_owned()), BadSelector::Missing);
    assert_eq!(condition(&decision, "AbleToScale"), ("False", "FailedGetScale"));
    assert_eq!(events(&decision), [("FailedGetScale", "deployments.apps \"web\" not found".to_owned())]);
    let ambiguous = "pods by selector app=web are controlled by more than one HPA (e.g. [shop/a shop/web])";
    let cases = [
        (BadSelector::Missing, "InvalidSelector", "SelectorRequired"),
        (BadSelector::Unreadable("bad".to_owned()), "InvalidSelector", "InvalidSelector"),
        (BadSelector::Ambiguous(ambiguous.to_owned()), "AmbiguousSelector", "AmbiguousSelector"),
    ];
    for (why, reason, event) in cases {
        let decision = unmeasured(json!({}), Ok(target(3)), why);
        assert_eq!(condition(&decision, "ScalingActive"), ("False", reason));
        let told: Vec<&str> = decision.plan.events.iter().map(|note| note.reason).collect();
        assert_eq!(told, [event, "FailedComputeMetricsReplicas"]);
        assert!(decision.plan.writes.is_empty());
    }
}

#[test]
fn a_scale_that_cannot_be_written_is_not_told_as_done() {
    let decision = unmeasured(json!({"maxReplicas": 2}), Ok(target(3)), BadSelector::Missing);
    let status = decision.plan.status.as_ref().unwrap();
    let failed = status.changes_if_failed().unwrap();
    let able = failed["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "AbleToScale").unwrap();
    assert_eq!((&able["status"], &able["reason"]), (&json!("False"), &json!("FailedUpdateScale")));
    assert_eq!(able["message"], "the HPA controller was unable to update the target scale: {error}");
    assert_eq!((failed.get("lastScaleTime"), &failed["desiredReplicas"]), (None, &json!(0)));
}

#[test]
fn every_target_is_looked_at_again() {
    let (some, _) = pods("1 1", &json!({}));
    let measured = look(&autoscaler(custom(&["a"]), json!({})), target(2), some, vec![reading("10000 10000")]);
    let lost = unmeasured(json!({}), Err("gone".to_owned()), BadSelector::Missing);
    let idle = unmeasured(json!({}), Ok(target(0)), BadSelector::Missing);
    for decision in [measured, lost, idle] {
        assert_eq!(decision.plan.again, Some(std::time::Duration::from_secs(15)));
    }
}
