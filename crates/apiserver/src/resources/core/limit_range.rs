//! A LimitRange: what containers, Pods and claims of a namespace may ask for, and get if they do not ask.

use crate::resources::check;
use crate::resources::rules::items;
use crate::strategy::Strategy;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::quantity::Quantity;
use pintle_meta::{object, rules};
use pintle_rules::{Amounts, resources};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const TYPES: [&str; 3] = ["Container", "PersistentVolumeClaim", "Pod"];

/// Amounts below this are compared in thousandths.
const MOST_IN_MILLI: i64 = i64::MAX / 1000;

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
            check_type(kind, &here.child("type"), errors);
            if seen.contains(&kind) {
                errors.push(Error::duplicate(&here.child("type"), kind));
            }
            seen.push(kind);
            check_limit(kind, limit, &here, errors);
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

fn check_type(kind: &str, path: &Path, errors: &mut Errors) {
    let before = errors.len();
    check::text(kind, path, rules::qualified_name, errors);
    if errors.len() == before && !kind.contains('/') && !TYPES.contains(&kind) {
        errors.push(Error::invalid(path, kind, "must be a standard limit type or fully qualified"));
    }
}

fn check_limit(kind: &str, limit: &Value, path: &Path, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for side in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        let amounts = limit.get(side).and_then(Value::as_object).filter(|amounts| !amounts.is_empty());
        let Some(amounts) = amounts else { continue };
        let here = path.child(side);
        if kind == "Pod" && side.starts_with("default") {
            errors.push(Error::forbidden(&here, "may not be specified when `type` is 'Pod'"));
            continue;
        }
        for name in amounts.keys() {
            check_name(kind, name, &here.key(name), errors);
            names.insert(name.as_str());
        }
    }
    let bound = |side: &str| limit.get(side).is_some_and(|amounts| amounts.get(resources::STORAGE).is_some());
    if kind == "PersistentVolumeClaim" && !bound("min") && !bound("max") {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        errors.push(Error::required(&path.child("limits"), why));
    }
    names.into_iter().for_each(|name| check_order(kind, limit, name, path, errors));
}

/// Claims and kinds of others may have limits for anything, Pods and containers only for what they can ask for.
fn check_name(kind: &str, name: &str, path: &Path, errors: &mut Errors) {
    let before = errors.len();
    check::text(name, path, rules::qualified_name, errors);
    let fully_qualified = name.contains('/');
    let standard = resources::is_standard_for_quotas(name) || name == resources::STORAGE;
    if errors.len() == before && !fully_qualified && !standard {
        errors.push(Error::invalid(path, name, "must be a standard resource type or fully qualified"));
    }
    if !["Pod", "Container"].contains(&kind) {
        return;
    }
    if !fully_qualified && !resources::is_standard_for_containers(name) {
        errors.push(Error::invalid(path, name, "must be a standard resource for containers"));
    } else if fully_qualified && !resources::is_native(name) && !resources::is_extended(name) {
        errors.push(Error::invalid(path, name, "doesn't follow extended resource name standard"));
    }
}

/// `min ≤ defaultRequest ≤ default ≤ max`, and a ratio that both bounds together allow.
fn check_order(kind: &str, limit: &Value, name: &str, path: &Path, errors: &mut Errors) {
    let amount = |side: &str| {
        let meant = kind != "Pod" || !side.starts_with("default");
        Amounts::of(limit.get(side).filter(|_| meant)).get(name)
    };
    let mut complain = |side: &str, value: Quantity, detail: String| {
        errors.push(Error::invalid(&path.child(side).key(name), value.to_string(), detail));
    };
    // What is too great, what it is compared with, and whose value the error shows where.
    let order = [
        ("min", "max", "min value", "max value", "min", "min"),
        ("min", "defaultRequest", "min value", "default request value", "defaultRequest", "defaultRequest"),
        ("defaultRequest", "max", "default request value", "max value", "defaultRequest", "defaultRequest"),
        (
            "defaultRequest",
            "default",
            "default request value",
            "default limit value",
            "defaultRequest",
            "defaultRequest",
        ),
        ("min", "default", "min value", "default value", "default", "min"),
        ("default", "max", "default value", "max value", "default", "max"),
    ];
    for (low, high, low_words, high_words, at, shown) in order {
        let (Some(less), Some(more)) = (amount(low), amount(high)) else { continue };
        if less > more {
            let value = if shown == high { more } else { less };
            complain(at, value, format!("{low_words} {less} is greater than {high_words} {more}"));
        }
    }
    if let Some(ratio) = amount("maxLimitRequestRatio") {
        if ratio < Quantity::from_units(1) {
            complain("maxLimitRequestRatio", ratio, format!("ratio {ratio} is less than 1"));
        }
        if let Some(most) = amount("min").zip(amount("max")).and_then(|(min, max)| most_ratio(ratio, min, max)) {
            let detail = format!("ratio {ratio} is greater than max/min = {most:.6}");
            complain("maxLimitRequestRatio", ratio, detail);
        }
    }
    if let Some((limit, request)) = amount("default").zip(amount("defaultRequest"))
        && limit != request
        && !resources::allows_overcommit(name)
    {
        let detail = format!("default value {limit} must equal to defaultRequest value {request} in {name}");
        complain("defaultRequest", request, detail);
    }
}

/// How far apart a request and a limit can be within the bounds, if the ratio allows more.
fn most_ratio(ratio: Quantity, min: Quantity, max: Quantity) -> Option<f64> {
    let precise = [ratio, min, max].iter().all(|amount| amount.units() < MOST_IN_MILLI);
    let number = |amount: Quantity| if precise { amount.milli() } else { amount.units() } as f64;
    let asked = if precise { ratio.milli() as f64 / 1000.0 } else { ratio.units() as f64 };
    let most = number(max) / number(min);
    (asked > most).then_some(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(limit: Value) -> Vec<String> {
        let mut errors = Errors::new();
        LimitRange.validate(&json!({"spec": {"limits": [limit]}}), None, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn bounds_that_contradict_each_other_are_refused() {
        for (limit, said) in [
            (json!({"type": "Pod", "max": {"cpu": "1"}}), vec![]),
            (
                json!({"type": "Pod", "default": {"cpu": "1"}}),
                vec!["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"],
            ),
            (
                json!({"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}),
                vec!["spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1"],
            ),
            (
                json!({"type": "Container", "default": {"cpu": "2"}, "max": {"cpu": "1"}}),
                vec!["spec.limits[0].default[cpu]: Invalid value: \"1\": default value 2 is greater than max value 1"],
            ),
            (
                json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "4"}, "min": {"cpu": "1"}, "max": {"cpu": "2"}}),
                vec![
                    "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"4\": ratio 4 is greater than max/min = 2.000000",
                ],
            ),
            (
                json!({"type": "PersistentVolumeClaim", "max": {"cpu": "2"}}),
                vec![
                    "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided",
                ],
            ),
            (
                json!({"type": "Container", "max": {"storage": "2"}}),
                vec![
                    "spec.limits[0].max[storage]: Invalid value: \"storage\": must be a standard resource for containers",
                ],
            ),
            (
                json!({"type": "Zebra"}),
                vec!["spec.limits[0].type: Invalid value: \"Zebra\": must be a standard limit type or fully qualified"],
            ),
        ] {
            assert_eq!(problems(limit.clone()), said, "{limit}");
        }
    }
}
