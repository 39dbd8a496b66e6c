//! What a user of autoscaling would lose.

mod averages;
mod limits;
mod resources;
mod whole;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::plan::{Decision, History, Measured, Reading, Sample, Samples, Seen, Target, plan};

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

/// Pods in a line of words: what each uses in thousandths, `-` if that is not known, and what is special about it.
///
/// ```text
/// 300     runs, is ready, and has been for an hour
/// 300y    started a minute ago and became ready half a minute ago
/// 300Y    the same, and its sample is older than that
/// 300u    started an hour ago and became unready half an hour ago
/// 300n    started an hour ago and has never been ready
/// 300U    started a minute ago and is not ready
/// 300p    is pending    300f   has failed    300d   is on its way out    300x   has no conditions
/// ```
fn pods(line: &str, request: &Value) -> (Vec<Arc<Pod>>, Samples) {
    let (mut pods, mut samples) = (Vec::new(), Samples::new());
    for (index, word) in line.split_whitespace().enumerate() {
        let special = word.chars().last().filter(|last| last.is_alphabetic());
        let name = format!("web-{index}");
        let number = word.trim_end_matches(char::is_alphabetic);
        let (started, ready, turned, measured) = match special {
            Some('y') => (60, "True", 30, 0),
            Some('Y') => (60, "True", 30, 25),
            Some('u') => (3600, "False", 1800, 0),
            Some('n') => (3600, "False", 3595, 0),
            Some('U') => (60, "False", 59, 0),
            _ => (3600, "True", 3590, 0),
        };
        if let Ok(value) = number.parse() {
            samples.insert(name.clone(), Sample { value, at: ago(measured), window: SignedDuration::from_secs(10) });
        }
        let phase = match special {
            Some('p') => "Pending",
            Some('f') => "Failed",
            _ => "Running",
        };
        let ready = json!({"type": "Ready", "status": ready, "lastTransitionTime": ago(turned).to_string()});
        let conditions = if special == Some('x') { json!([]) } else { json!([ready]) };
        let mut metadata = json!({"name": name, "namespace": "shop", "labels": {"app": "web"}});
        if special == Some('d') {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let containers = json!([{"name": "web", "resources": {"requests": request}}]);
        let pod = json!({"metadata": metadata, "spec": {"containers": containers},
            "status": {"phase": phase, "startTime": ago(started).to_string(), "conditions": conditions}});
        pods.push(Arc::new(serde_json::from_value(pod).unwrap()));
    }
    (pods, samples)
}

fn autoscaler(metrics: Value, change: Value) -> HorizontalPodAutoscaler {
    let mut spec = json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 1, "maxReplicas": 1000, "metrics": metrics});
    // Neither rates nor windows, unless a test is about them.
    let free = json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max",
        "policies": [{"type": "Percent", "value": 100_000, "periodSeconds": 15}]});
    let down = json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max",
        "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]});
    spec["behavior"] = json!({"scaleUp": free, "scaleDown": down});
    merge(&mut spec, change);
    serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "shop", "uid": "h"}, "spec": spec})).unwrap()
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                if value.is_null() {
                    drop(into.remove(&key))
                } else {
                    merge(into.entry(key).or_insert(Value::Null), value)
                }
            }
        }
        (into, from) => *into = from,
    }
}

fn target(replicas: i32) -> Target {
    Target {
        collection: "/apis/apps/v1/namespaces/shop/deployments".to_owned(),
        name: "web".to_owned(),
        uid: Some("d".to_owned()),
        wanted: replicas,
        observed: replicas,
        selector: "app=web".to_owned(),
    }
}

/// One look at a target whose metrics are these.
fn look(
    autoscaler: &HorizontalPodAutoscaler,
    target: Target,
    pods: Vec<Arc<Pod>>,
    readings: Vec<Result<Reading, String>>,
) -> Decision {
    let seen = Seen { target: Ok(target), measured: Ok(Measured { pods, readings }) };
    plan(autoscaler, seen, &mut History::default(), now())
}

/// The number of replicas after it, or why that is not known.
fn outcome(decision: &Decision, before: i32) -> Result<i32, String> {
    let status = decision.plan.status.as_ref().unwrap().wanted();
    let conditions = status["conditions"].as_array().unwrap();
    let active = conditions.iter().find(|condition| condition["type"] == "ScalingActive").unwrap();
    if active["status"] == "False" {
        assert!(decision.plan.writes.is_empty());
        let message = active["message"].as_str().unwrap();
        return Err(message.replace("the HPA was unable to compute the replica count: ", ""));
    }
    let write = decision.plan.writes.first();
    let set = write.map(|write| i32::try_from(write.body()["spec"]["replicas"].as_i64().unwrap()).unwrap());
    assert_eq!(set.map(|set| (before, set)), decision.scales);
    Ok(set.unwrap_or(before))
}

fn condition<'a>(decision: &'a Decision, kind: &str) -> (&'a str, &'a str) {
    let status = decision.plan.status.as_ref().unwrap().wanted();
    let conditions = status["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|condition| condition["type"] == kind).unwrap();
    (found["status"].as_str().unwrap(), found["reason"].as_str().unwrap())
}
