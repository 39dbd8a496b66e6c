//! CPU and memory, as a part of what is requested and as amounts.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use std::sync::Arc;

use super::{Reading, autoscaler, look, outcome, pods, target};

const UNREADY: &str =
    "failed to get cpu utilization: did not receive metrics for targeted pods (pods might be unready)";

fn cpu(percent: i32) -> Value {
    json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}}])
}

/// What CPU utilization of Pods that request one CPU each makes of this number of replicas.
fn by_cpu(line: &str, replicas: i32, percent: i32, change: Value) -> Result<i32, String> {
    let (pods, samples) = pods(line, &json!({"cpu": "1"}));
    let decision = look(&autoscaler(cpu(percent), change), target(replicas), pods, vec![Ok(Reading::OfPods(samples))]);
    outcome(&decision, replicas)
}

#[test]
fn replicas_follow_cpu_utilization() {
    // What the Pods use; how many replicas there are; the target in percent; how many there are then.
    let cases: &[(&str, i32, i32, i32)] = &[
        // In proportion, rounded up.
        ("300 500 700", 3, 30, 5),
        ("900 900 900", 3, 50, 6),
        ("900 900 900", 3, 100, 3),
        ("1000 1000", 2, 50, 4),
        ("100 100 100 100", 4, 50, 1),
        ("100 300 500 250 250", 5, 50, 3),
        ("250 250", 2, 25, 2),
        ("600 600 600", 3, 20, 9),
        ("10 10 10 10", 4, 90, 1),
        ("1500 1500", 2, 100, 3),
        ("2000", 1, 10, 20),
        ("999", 1, 50, 2),
        // Within a tenth of the target nothing is done.
        ("550 550", 2, 50, 2),
        ("540 560", 2, 50, 2),
        ("560 560", 2, 50, 3),
        ("450 450 450", 3, 50, 3),
        ("440 440 440 440 440 440 440 440 440 440", 10, 50, 9),
        ("1100 1100 1100 1100", 4, 100, 4),
        ("1110 1110 1110 1110", 4, 100, 5),
        ("900 900 900 900", 4, 100, 4),
        ("890 890 890 890 890 890 890 890 890 890", 10, 100, 9),
        // Whole percents are compared.
        ("559 551", 2, 50, 2),
        // Pods without a sample are idle on the way up.
        ("1000 -", 2, 50, 2),
        ("1500 -", 2, 50, 3),
        ("1000 1000 -", 3, 50, 4),
        ("600 -", 2, 50, 2),
        ("1000 1000 - -", 4, 50, 4),
        ("2000 2000 - -", 4, 50, 8),
        // And use all that they request on the way down.
        ("100 -", 2, 50, 2),
        ("100 100 100 -", 4, 50, 3),
        ("100 100 100 100 100 100 100 -", 8, 50, 4),
        ("10 10 10 10 -", 5, 50, 2),
        ("400 400 -", 3, 50, 3),
        // With a target above all that is requested they are at the target.
        ("100 100 -", 3, 200, 2),
        ("100 100 100 100 -", 5, 200, 2),
        ("500 500 500 -", 4, 110, 3),
        // Exactly at the target they are nothing at all.
        ("500 -", 2, 50, 2),
        // Pods that are not ready yet are idle on the way up,
        ("1000 1000 800U", 3, 50, 4),
        ("1000 800U 800U", 3, 50, 3),
        ("2000 2000 800U", 3, 50, 8),
        ("600 900U", 2, 50, 2),
        // and do not count on the way down.
        ("100 100 800U", 3, 50, 1),
        ("200 200 200 900U", 4, 50, 2),
        ("450 450 900U", 3, 50, 3),
        // A young Pod counts once it was measured for a whole window since it became ready.
        ("1000 1000y", 2, 50, 4),
        ("1000 1000Y", 2, 50, 2),
        ("1500 1500Y", 2, 50, 3),
        // One that became unready later counts; one that has never been ready does not.
        ("1000 1000u", 2, 50, 4),
        ("1000 1000n", 2, 50, 2),
        ("1000 1000x", 2, 50, 2),
        // Pending ones have no usage.
        ("1000 1000 -p", 3, 50, 4),
        ("1000 -p", 2, 50, 2),
        ("100 100 -p", 3, 50, 1),
        // Failed Pods and those being deleted do not count.
        ("1000 1000 900f", 2, 50, 4),
        ("1000 1000 -f", 2, 50, 4),
        ("1000 1000 900d", 2, 50, 4),
        ("100 100 900d 900f", 2, 50, 1),
        // Unready and unknown ones together.
        ("1000 -p -", 3, 50, 3),
        ("3000 -p -", 3, 50, 6),
        ("100 100 -p -", 4, 50, 3),
        // What is assumed never turns the direction, nor adds Pods while it scales down.
        ("510 510 510 -", 4, 50, 4),
        ("100 - - - - -", 4, 90, 4),
        ("1000 1000 1000 900U 900U 900U 900U", 4, 50, 4),
    ];
    for (line, before, percent, after) in cases {
        assert_eq!(by_cpu(line, *before, *percent, json!({})), Ok(*after), "{line} of {before} at {percent} %");
    }
}

#[test]
fn what_cannot_be_measured_changes_nothing_and_is_told() {
    let cases: &[(&str, &str)] = &[
        ("", "failed to get cpu utilization: no pods returned by selector while calculating replica count"),
        ("- -", UNREADY),
        ("900U 900U", UNREADY),
        ("900p", UNREADY),
        ("900f 900d", UNREADY),
    ];
    for (line, why) in cases {
        assert_eq!(by_cpu(line, 3, 50, json!({})), Err((*why).to_owned()), "{line}");
    }
}

#[test]
fn the_tolerance_of_each_direction_can_be_chosen() {
    // Up, down; what two Pods of four use of their target of 50 %; how many there are then.
    let cases = [
        ("0.05", "0.2", "530 530 530 530", 5),
        ("0.05", "0.2", "525 525 525 525", 4),
        ("0.05", "0.2", "410 410 410 410", 4),
        ("0.05", "0.2", "300 300 300 300", 3),
        ("0", "0", "510 510 510 510", 5),
        ("0", "0", "500 500 500 500", 4),
        ("500m", "0", "750 750 750 750", 4),
        ("500m", "0", "760 760 760 760", 7),
    ];
    for (up, down, line, after) in cases {
        let change = json!({"behavior": {"scaleUp": {"tolerance": up}, "scaleDown": {"tolerance": down}}});
        assert_eq!(by_cpu(line, 4, 50, change), Ok(after), "{up} {down} {line}");
    }
}

#[test]
fn amounts_are_compared_with_amounts() {
    // The resource, its target, what the Pods use in thousandths; how many there are of three, and the average told.
    let cases = [
        ("cpu", "500m", "1000 1000 1000", 6, "1"),
        ("cpu", "500m", "300 300 300", 2, "300m"),
        ("cpu", "500m", "520 520 520", 3, "520m"),
        ("cpu", "500m", "1000 1000 900U", 4, "1"),
        ("cpu", "500m", "100 100 -", 2, "100m"),
        ("memory", "1Ki", "2048000 2048000 2048000", 6, "2Ki"),
        ("memory", "1Ki", "512000 512000 512000", 2, "512"),
        // Being ready says nothing about memory.
        ("memory", "1Ki", "2048000 2048000 2048000U", 6, "2Ki"),
        ("memory", "1Ki", "2048000 2048000 -", 4, "2Ki"),
    ];
    for (resource, target_value, line, after, told) in cases {
        let metrics = json!([{"type": "Resource", "resource": {"name": resource,
            "target": {"type": "AverageValue", "averageValue": target_value}}}]);
        let (pods, samples) = pods(line, &json!({}));
        let decision = look(&autoscaler(metrics, json!({})), target(3), pods, vec![Ok(Reading::OfPods(samples))]);
        assert_eq!(outcome(&decision, 3), Ok(after), "{resource} {line}");
        let status = decision.plan.status.as_ref().unwrap().wanted();
        assert_eq!(status["currentMetrics"][0]["resource"]["current"], json!({"averageValue": told}), "{line}");
    }
}

#[test]
fn a_percentage_is_of_what_running_containers_request() {
    let container = |name: &str, cpu: Option<&str>| {
        let requests = cpu.map_or(json!({}), |cpu| json!({"cpu": cpu}));
        json!({"name": name, "resources": {"requests": requests}})
    };
    let sidecar = |cpu| {
        let mut sidecar = container("proxy", cpu);
        sidecar["restartPolicy"] = json!("Always");
        sidecar
    };
    let (web, log) = (container("web", Some("1")), container("log", Some("1")));
    let percent = |container: Option<&str>| {
        let target = json!({"type": "Utilization", "averageUtilization": 50});
        match container {
            None => cpu(50),
            Some(name) => json!([{"type": "ContainerResource",
                "containerResource": {"name": "cpu", "container": name, "target": target}}]),
        }
    };
    // The Pod's spec, the container that is measured; utilization of 1000 thousandths, or why there is none.
    let cases = [
        (json!({"containers": [web]}), None, Ok(100)),
        (json!({"containers": [web, log]}), None, Ok(50)),
        (json!({"containers": [web], "initContainers": [sidecar(Some("1"))]}), None, Ok(50)),
        (json!({"containers": [web], "initContainers": [container("setup", None)]}), None, Ok(100)),
        (json!({"containers": [web, log]}), Some("log"), Ok(100)),
        (json!({"containers": [web, container("idle", None)]}), Some("web"), Ok(100)),
        (json!({"containers": [web], "initContainers": [sidecar(Some("4"))]}), Some("proxy"), Ok(25)),
        (json!({"containers": [web], "resources": {"requests": {"cpu": "4"}}}), None, Ok(25)),
        (json!({"containers": [web], "resources": {"requests": {"cpu": "4"}}}), Some("web"), Ok(100)),
        (
            json!({"containers": [web, container("idle", None)]}),
            None,
            Err("failed to get cpu utilization: missing request for cpu in container idle of Pod web-0"),
        ),
        (
            json!({"containers": [web]}),
            Some("gone"),
            Err("failed to get cpu utilization: container gone not found in Pod web-0"),
        ),
        (
            json!({"containers": [container("web", None)], "resources": {"requests": {"memory": "4"}}}),
            None,
            Err("failed to get cpu utilization: missing pod-level request for cpu in Pod web-0"),
        ),
    ];
    for (spec, measured, expected) in cases {
        let (mut pods, samples) = pods("1000", &json!({}));
        let mut pod: Value = serde_json::to_value(pods[0].as_ref()).unwrap();
        pod["spec"] = spec.clone();
        pods[0] = Arc::new(serde_json::from_value::<Pod>(pod).unwrap());
        let decision =
            look(&autoscaler(percent(measured), json!({})), target(1), pods, vec![Ok(Reading::OfPods(samples))]);
        let status = decision.plan.status.as_ref().unwrap().wanted()["currentMetrics"][0].clone();
        let field = if measured.is_some() { "containerResource" } else { "resource" };
        let told = outcome(&decision, 1).map(|_| status[field]["current"]["averageUtilization"].as_i64().unwrap());
        assert_eq!(told, expected.map_err(str::to_owned), "{spec} {measured:?}");
    }
}
