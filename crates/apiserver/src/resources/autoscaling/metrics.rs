//! What an autoscaler looks at.

use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::{Value, json};

/// More than so many are not printed.
const SHOWN: usize = 2;
const UNKNOWN: &str = "<unknown>";
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
    ("External", "external"),
];

pub fn cpu_utilization(percent: i64) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}})
}

/// A metric says what it measures in the field that its type names, and only there.
pub fn check_metric(metric: &Value, path: &Path, errors: &mut Errors) {
    let kind = object::text(metric, &["type"]);
    for (name, field) in SOURCES {
        let given = metric.get(field).is_some_and(|v| !v.is_null());
        if name == kind && !given {
            let detail = "must populate information for the given metric source";
            errors.push(Error::required(&path.child(field), detail));
        } else if name != kind && given {
            let detail = "must populate the given metric source only";
            errors.push(Error::forbidden(&path.child(field), detail));
        }
        if let Some(target) = object::at(metric, &[field, "target"]).filter(|_| name == kind) {
            check_target(target, &path.child(field).child("target"), errors);
        }
    }
}

fn check_target(target: &Value, path: &Path, errors: &mut Errors) {
    let kind = object::text(target, &["type"]);
    if !matches!(kind, "" | "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.push(Error::invalid(&path.child("type"), kind, detail));
    }
    if let Some(percent) = object::integer(target, &["averageUtilization"]).filter(|n| *n < 1) {
        errors.push(Error::invalid(&path.child("averageUtilization"), percent, "must be greater than 0"));
    }
}

/// `cpu: 12%/80%, 3/10 + 1 more...`
pub fn print(autoscaler: &Value) -> String {
    let metrics = object::list(autoscaler, &["spec", "metrics"]);
    if metrics.is_empty() {
        return "<none>".to_owned();
    }
    let current = object::list(autoscaler, &["status", "currentMetrics"]);
    let all: Vec<String> = metrics.iter().enumerate().map(|(i, metric)| one(metric, current.get(i))).collect();
    let shown = all[..all.len().min(SHOWN)].join(", ");
    if all.len() > SHOWN { format!("{shown} + {} more...", all.len() - SHOWN) } else { shown }
}

fn one(metric: &Value, current: Option<&Value>) -> String {
    let kind = object::text(metric, &["type"]);
    let Some((_, field)) = SOURCES.iter().find(|(name, _)| *name == kind) else { return "<unknown type>".to_owned() };
    let target = |key: &str| object::at(metric, &[field, "target", key]).and_then(shown);
    let now = |key: &str| current.and_then(|c| object::at(c, &[field, "current", key])).and_then(shown);
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.to_owned());
    let name = object::text(metric, &[field, "name"]);
    match kind {
        "Resource" | "ContainerResource" => match target("averageValue") {
            Some(wanted) => format!("{name}: {}/{wanted}", or_unknown(now("averageValue"))),
            None => {
                let percent =
                    |text: Option<String>, none: &str| text.map_or_else(|| none.to_owned(), |n| format!("{n}%"));
                let (have, want) = (now("averageUtilization"), target("averageUtilization"));
                format!("{name}: {}/{}", percent(have, UNKNOWN), percent(want, "<auto>"))
            }
        },
        "Pods" => format!("{}/{}", or_unknown(now("averageValue")), target("averageValue").unwrap_or_default()),
        _ => match target("averageValue") {
            Some(wanted) => format!("{}/{wanted} (avg)", or_unknown(now("averageValue"))),
            None => format!("{}/{}", or_unknown(now("value")), target("value").unwrap_or_default()),
        },
    }
}

fn shown(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_autoscaler_says_how_far_it_is_from_its_target() {
        let mut autoscaler = json!({"spec": {"metrics": [cpu_utilization(80)]}});
        assert_eq!(print(&autoscaler), "cpu: <unknown>/80%");
        autoscaler["status"] =
            json!({"currentMetrics": [{"type": "Resource", "resource": {"current": {"averageUtilization": 12}}}]});
        assert_eq!(print(&autoscaler), "cpu: 12%/80%");
    }
}
