//! The first version of the autoscaler, which knows one measure: it is kept as the second, the rest in annotations.

use super::horizontal_pod_autoscaler::{COLUMNS, DEFAULT_UTILIZATION, HorizontalPodAutoscaler};
use super::metrics::cpu_utilization;
use crate::strategy::{Printed, Strategy};
use jiff::Timestamp;
use pintle_meta::object;
use serde_json::{Value, json};

/// Where the first version shows what it has no fields for: annotation, place in the second version.
const ANNOTATIONS: [(&str, &[&str]); 4] = [
    ("autoscaling.alpha.kubernetes.io/metrics", &["spec", "metrics"]),
    ("autoscaling.alpha.kubernetes.io/behavior", &["spec", "behavior"]),
    ("autoscaling.alpha.kubernetes.io/current-metrics", &["status", "currentMetrics"]),
    ("autoscaling.alpha.kubernetes.io/conditions", &["status", "conditions"]),
];

pub struct HorizontalPodAutoscalerV1;

impl Strategy for HorizontalPodAutoscalerV1 {
    fn to_stored(&self, autoscaler: &mut Value) {
        for (annotation, path) in ANNOTATIONS {
            let Some(text) = object::remove(autoscaler, &["metadata", "annotations", annotation]) else { continue };
            if let Ok(value) = serde_json::from_str::<Value>(text.as_str().unwrap_or_default()) {
                object::set(autoscaler, path, value);
            }
        }
        drop_empty_annotations(autoscaler);
        let percent = object::remove(autoscaler, &["spec", "targetCPUUtilizationPercentage"]).and_then(|v| v.as_i64());
        let mut metrics = object::list(autoscaler, &["spec", "metrics"]).to_vec();
        if let Some(percent) = percent {
            metrics.insert(0, cpu_utilization(percent));
        } else if metrics.is_empty() {
            metrics.push(cpu_utilization(DEFAULT_UTILIZATION));
        }
        object::set(autoscaler, &["spec", "metrics"], metrics);
        if let Some(now) = object::remove(autoscaler, &["status", "currentCPUUtilizationPercentage"]) {
            let mut current = object::list(autoscaler, &["status", "currentMetrics"]).to_vec();
            current.insert(
                0,
                json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": now}}}),
            );
            object::set(autoscaler, &["status", "currentMetrics"], current);
        }
    }

    fn read_stored(&self, autoscaler: &mut Value) {
        take_cpu(autoscaler, &["spec", "metrics"], "target", &["spec", "targetCPUUtilizationPercentage"]);
        take_cpu(autoscaler, &["status", "currentMetrics"], "current", &["status", "currentCPUUtilizationPercentage"]);
        for (annotation, path) in ANNOTATIONS {
            let Some(value) = object::remove(autoscaler, path) else { continue };
            let says_something = match &value {
                Value::Array(list) => !list.is_empty(),
                other => !other.is_null(),
            };
            if says_something {
                object::set(autoscaler, &["metadata", "annotations", annotation], value.to_string());
            }
        }
        if let Some(Value::Object(status)) = autoscaler.get_mut("status") {
            object::fill(status, "currentReplicas", 0);
            object::fill(status, "desiredReplicas", 0);
        }
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }

    fn cells(&self, autoscaler: &Value, now: Timestamp) -> Vec<Value> {
        let mut stored = autoscaler.clone();
        self.to_stored(&mut stored);
        HorizontalPodAutoscaler.cells(&stored, now)
    }
}

/// Moves the first measure of processor use into the field of its own.
fn take_cpu(autoscaler: &mut Value, list: &[&str], side: &str, field: &[&str]) {
    let Some(Value::Array(metrics)) = object::at_mut(autoscaler, list) else { return };
    let is_cpu = |metric: &Value| {
        object::text(metric, &["resource", "name"]) == "cpu"
            && object::integer(metric, &["resource", side, "averageUtilization"]).is_some()
    };
    if let Some(i) = metrics.iter().position(is_cpu) {
        let metric = metrics.remove(i);
        object::set(autoscaler, field, metric["resource"][side]["averageUtilization"].clone());
    }
}

fn drop_empty_annotations(object: &mut Value) {
    let empty = object::at(object, &["metadata", "annotations"])
        .and_then(Value::as_object)
        .is_some_and(serde_json::Map::is_empty);
    if empty {
        object::remove(object, &["metadata", "annotations"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_first_version_cannot_say_is_not_lost_on_the_way() {
        let pods = json!({"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "3"}}});
        let stored = json!({"metadata": {}, "spec": {"maxReplicas": 3, "metrics": [cpu_utilization(50), pods]}});
        let mut shown = stored.clone();
        HorizontalPodAutoscalerV1.read_stored(&mut shown);
        assert_eq!(shown["spec"], json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}));
        HorizontalPodAutoscalerV1.to_stored(&mut shown);
        assert_eq!(shown, stored);
    }
}
