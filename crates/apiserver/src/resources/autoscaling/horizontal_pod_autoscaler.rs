//! A HorizontalPodAutoscaler: keeps a measure near its target by the number of replicas.

use super::metrics;
use crate::resources::print::{AGE, NAME, UNSET, count, text};
use crate::strategy::{Printed, Strategy};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::{Map, Value, json};

pub const COLUMNS: &[Printed] = &[
    NAME,
    text("Reference", "autoscaling.v2.HorizontalPodAutoscalerSpec.scaleTargetRef", |autoscaler, _| {
        let reference = |key: &str| object::text(autoscaler, &["spec", "scaleTargetRef", key]).to_owned();
        format!("{}/{}", reference("kind"), reference("name")).into()
    }),
    text("Targets", "autoscaling.v2.HorizontalPodAutoscalerSpec.metrics", |autoscaler, _| {
        metrics::print(autoscaler).into()
    }),
    text("MinPods", "autoscaling.v2.HorizontalPodAutoscalerSpec.minReplicas", |autoscaler, _| {
        let least = object::integer(autoscaler, &["spec", "minReplicas"]);
        least.map_or_else(|| UNSET.to_owned(), |n| n.to_string()).into()
    }),
    text("MaxPods", "autoscaling.v2.HorizontalPodAutoscalerSpec.maxReplicas", |autoscaler, _| {
        count(autoscaler, &["spec", "maxReplicas"])
    }),
    text("Replicas", "autoscaling.v2.HorizontalPodAutoscalerStatus.currentReplicas", |autoscaler, _| {
        count(autoscaler, &["status", "currentReplicas"])
    }),
    AGE,
];

/// Used where nothing is said of what to measure.
pub const DEFAULT_UTILIZATION: i64 = 80;

pub struct HorizontalPodAutoscaler;

impl Strategy for HorizontalPodAutoscaler {
    fn default(&self, autoscaler: &mut Value) {
        let spec = object::map_at(autoscaler, "spec");
        if spec.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            spec.insert("metrics".into(), json!([metrics::cpu_utilization(DEFAULT_UTILIZATION)]));
        }
        if let Some(Value::Object(behavior)) = spec.get_mut("behavior") {
            default_rules(
                behavior,
                "scaleUp",
                json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [
                {"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]}),
            );
            default_rules(
                behavior,
                "scaleDown",
                json!({"selectPolicy": "Max", "policies": [
                {"type": "Percent", "value": 100, "periodSeconds": 15}]}),
            );
        }
    }

    fn validate(&self, autoscaler: &Value, _old: Option<&Value>, errors: &mut Errors) {
        let spec = Path::new("spec");
        let most = object::integer(autoscaler, &["spec", "maxReplicas"]).unwrap_or(0);
        let here = spec.child("maxReplicas");
        match most {
            0 => errors.push(Error::required(&here, "must be set and greater than 0")),
            n if n < 0 => errors.push(Error::invalid(&here, n, "must be greater than or equal to 1")),
            _ => {}
        }
        if let Some(least) = object::integer(autoscaler, &["spec", "minReplicas"]) {
            if least < 1 {
                errors.push(Error::invalid(&spec.child("minReplicas"), least, "must be greater than or equal to 1"));
            }
            if most < least {
                errors.push(Error::invalid(&here, most, "must be greater than or equal to `minReplicas`"));
            }
        }
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}

fn default_rules(behavior: &mut Map<String, Value>, direction: &str, rules: Value) {
    let given = object::as_map(behavior.entry(direction).or_insert_with(|| json!({})));
    if let Value::Object(rules) = rules {
        for (key, value) in rules {
            object::fill(given, &key, value);
        }
    }
}
