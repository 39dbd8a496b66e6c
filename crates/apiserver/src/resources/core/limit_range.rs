//! A LimitRange: what containers, Pods and claims of a namespace may ask for, and get if they do not ask.

use crate::resources::rules::items;
use crate::strategy::Strategy;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use pintle_meta::quantity::Quantity;
use serde_json::{Map, Value, json};

pub struct LimitRange;

impl Strategy for LimitRange {
    fn default(&self, range: &mut Value) {
        let limits = object::at_mut(range, &["spec", "limits"]).and_then(Value::as_array_mut);
        for limit in limits.into_iter().flatten().filter(|l| l["type"] == "Container") {
            // What is missing follows from what is there, in this order.
            for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
                copy_missing(object::as_map(limit), from, to);
            }
        }
    }

    fn validate(&self, range: &Value, _old: Option<&Value>, errors: &mut Errors) {
        let mut seen: Vec<&str> = Vec::new();
        let spec = range.get("spec").unwrap_or(&Value::Null);
        for (here, limit) in items(spec, &Path::new("spec"), "limits") {
            let kind = object::text(limit, &["type"]);
            if seen.contains(&kind) {
                errors.push(Error::duplicate(&here.child("type"), kind));
            }
            seen.push(kind);
            if kind == "Pod" {
                for key in ["default", "defaultRequest"] {
                    if limit.get(key).and_then(Value::as_object).is_some_and(|m| !m.is_empty()) {
                        errors.push(Error::forbidden(&here.child(key), "may not be specified when `type` is 'Pod'"));
                    }
                }
            }
            check_order(limit, &here, errors);
        }
    }

    fn creates_on_update(&self) -> bool {
        true
    }
}

fn copy_missing(limit: &mut Map<String, Value>, from: &str, to: &str) {
    let Some(Value::Object(source)) = limit.get(from).cloned() else { return };
    let target = object::as_map(limit.entry(to).or_insert_with(|| json!({})));
    for (name, amount) in source {
        object::fill(target, &name, amount);
    }
}

/// `min ≤ defaultRequest ≤ default ≤ max`
fn check_order(limit: &Value, path: &Path, errors: &mut Errors) {
    let order = [
        ("min", "max", "min value", "max value"),
        ("min", "defaultRequest", "min value", "default request value"),
        ("min", "default", "min value", "default value"),
        ("defaultRequest", "max", "default request value", "max value"),
        ("defaultRequest", "default", "default request value", "default limit value"),
        ("default", "max", "default value", "max value"),
    ];
    for (low, high, low_words, high_words) in order {
        for (name, text) in limit.get(low).and_then(Value::as_object).into_iter().flatten() {
            let (less, more) = (text.as_str().unwrap_or_default(), object::text(limit, &[high, name]));
            let (Ok(a), Ok(b)) = (Quantity::parse(less), Quantity::parse(more)) else { continue };
            if a > b {
                let detail = format!("{low_words} {less} is greater than {high_words} {more}");
                errors.push(Error::invalid(&path.child(low).key(name), less, detail));
            }
        }
    }
}
