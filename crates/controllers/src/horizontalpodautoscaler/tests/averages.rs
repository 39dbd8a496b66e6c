//! Metrics of Pods, of other objects, and from outside the cluster.

use serde_json::{Value, json};

use super::{Reading, autoscaler, look, outcome, pods, target};

fn of_pods(average: &str) -> Value {
    json!([{"type": "Pods", "pods": {"metric": {"name": "qps"}, "target": {"type": "AverageValue", "averageValue": average}}}])
}

fn of_object(target: Value) -> Value {
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "main"});
    json!([{"type": "Object", "object": {"describedObject": ingress, "metric": {"name": "rps"}, "target": target}}])
}

fn from_outside(target: Value) -> Value {
    let metric = json!({"name": "queue", "selector": {"matchLabels": {"of": "mail"}}});
    json!([{"type": "External", "external": {"metric": metric, "target": target}}])
}

#[test]
fn replicas_follow_a_metric_of_each_pod() {
    // The target; what the Pods tell in thousandths; how many there are before and after.
    let cases = [
        ("10", "20000 20000 20000", 3, 6),
        ("10", "5000 5000 5000 5000", 4, 2),
        ("10", "10500 10500", 2, 2),
        ("10", "11500 11500", 2, 3),
        ("500m", "1000 1000", 2, 4),
        // Readiness says nothing about what was served.
        ("10", "20000 20000U 20000n", 3, 6),
        ("10", "20000 20000 -p", 3, 4),
        ("10", "20000 -", 2, 2),
        ("10", "40000 -", 2, 4),
        ("10", "1000 1000 1000 -", 4, 2),
        ("10", "1000 1000 90000f 90000d", 2, 1),
        ("10", "10000 -", 2, 2),
    ];
    for (average, line, before, after) in cases {
        let (pods, samples) = pods(line, &json!({}));
        let readings = vec![Ok(Reading::OfPods(samples))];
        let decision = look(&autoscaler(of_pods(average), json!({})), target(before), pods, readings);
        assert_eq!(outcome(&decision, before), Ok(after), "{average} {line}");
    }
}

#[test]
fn replicas_follow_one_value_for_all_pods() {
    let value = |value: &str| json!({"type": "Value", "value": value});
    let share = |value: &str| json!({"type": "AverageValue", "averageValue": value});
    // The target, the value in thousandths, the Pods; how many there are before and after.
    let cases = [
        (value("100"), 200_000, "1 1 1", 3, 6),
        (value("100"), 50_000, "1 1 1 1", 4, 2),
        (value("100"), 105_000, "1 1 1", 3, 3),
        (value("100"), 112_000, "1 1 1", 3, 4),
        // Only Pods that are ready share it now.
        (value("100"), 200_000, "1 1 1U 1p", 4, 4),
        (value("100"), 300_000, "1 1U 1U", 3, 3),
        (value("100"), 0, "1 1 1", 3, 1),
        (share("50"), 200_000, "1 1", 2, 4),
        (share("50"), 200_000, "1 1 1 1", 4, 4),
        (share("50"), 210_000, "1 1 1 1", 4, 4),
        (share("50"), 230_000, "1 1 1 1", 4, 5),
        (share("50"), 60_000, "1 1 1 1", 4, 2),
        (share("50"), 0, "1 1", 2, 1),
        // More than a number can hold is the most there may be.
        (value("1m"), i64::MAX, "1 1", 2, 1000),
        (share("1m"), i64::MAX, "1 1", 2, 1000),
    ];
    for (of, total, line, before, after) in cases {
        for metrics in [of_object(of.clone()), from_outside(of.clone())] {
            let (pods, _) = pods(line, &json!({}));
            let decision = look(&autoscaler(metrics, json!({})), target(before), pods, vec![Ok(Reading::Total(total))]);
            assert_eq!(outcome(&decision, before), Ok(after), "{of} {total} {line}");
        }
    }
}

#[test]
fn the_status_tells_what_was_measured() {
    let told = |metrics: Value, reading: Reading| {
        let (pods, _) = pods("1 1", &json!({}));
        let decision = look(&autoscaler(metrics, json!({})), target(2), pods, vec![Ok(reading)]);
        decision.plan.status.as_ref().unwrap().wanted()["currentMetrics"][0].clone()
    };
    let (_, samples) = pods("1500 2500", &json!({}));
    let status = told(of_pods("2"), Reading::OfPods(samples));
    assert_eq!((&status["type"], &status["pods"]["current"]), (&json!("Pods"), &json!({"averageValue": "2"})));
    let status = told(of_object(json!({"type": "Value", "value": "7"})), Reading::Total(7500));
    assert_eq!((&status["type"], &status["object"]["current"]), (&json!("Object"), &json!({"value": "7500m"})));
    assert_eq!(status["object"]["describedObject"]["kind"], "Ingress");
    let status = told(from_outside(json!({"type": "AverageValue", "averageValue": "7"})), Reading::Total(15001));
    assert_eq!(status["external"]["current"], json!({"averageValue": "7501m"}), "rounded up");
    assert_eq!(status["external"]["metric"]["selector"], json!({"matchLabels": {"of": "mail"}}));
}

#[test]
fn a_metric_without_pods_is_told_as_such() {
    let value = json!({"type": "Value", "value": "100"});
    let cases = [
        (
            of_pods("1"),
            Ok(Reading::OfPods(super::Samples::new())),
            "no pods returned by selector while calculating replica count",
        ),
        (
            of_object(value.clone()),
            Ok(Reading::Total(500_000)),
            "unable to calculate ready pods: no pods returned by selector while calculating replica count",
        ),
        (
            from_outside(value),
            Err("unable to get external metric queue: it is down".to_owned()),
            "unable to get external metric queue: it is down",
        ),
        (
            from_outside(json!({"type": "Utilization"})),
            Ok(Reading::Total(1)),
            "invalid external metric source: neither a value target nor an average value target was set",
        ),
        (json!([{"type": "Astrology"}]), Err(String::new()), "unknown metric source type \"Astrology\""),
    ];
    for (metrics, reading, why) in cases {
        let decision = look(&autoscaler(metrics, json!({})), target(2), Vec::new(), vec![reading]);
        assert_eq!(outcome(&decision, 2), Err(why.to_owned()));
    }
}
