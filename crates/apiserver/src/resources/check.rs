//! Checks that many kinds share, with the sentences that clients know.

use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::quantity::Quantity;
use pintle_meta::{labels::Selector, object, rules};
use serde_json::Value;

pub const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
pub const POSITIVE: &str = "must be greater than 0";
/// The same, as other kinds say it.
pub const ABOVE_ZERO: &str = "must be greater than zero";
pub const IMMUTABLE: &str = "field is immutable";

/// Says each problem of a text that is there.
pub fn text(value: &str, path: &Path, rule: fn(&str) -> rules::Problems, errors: &mut Errors) {
    errors.extend(rule(value).into_iter().map(|problem| Error::invalid(path, value, problem)));
}

/// A field that stays as it was made. Absent and `null` are the same.
pub fn immutable(new: &Value, old: &Value, path: &[&str], errors: &mut Errors) {
    let (now, was) = (object::at(new, path), object::at(old, path));
    if !same(now.unwrap_or(&Value::Null), was.unwrap_or(&Value::Null)) {
        errors.push(Error::invalid(&Path::new(&path.join(".")), now.cloned().unwrap_or_default(), IMMUTABLE));
    }
}

/// Do two values say the same? `null` is absence, as everywhere in the API.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.iter().all(|(key, value)| same(value, b.get(key).unwrap_or(&Value::Null)))
                && b.iter().all(|(key, value)| value.is_null() || a.contains_key(key))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        _ => a == b,
    }
}

pub fn label_selector(selector: &Value, path: &Path, errors: &mut Errors) {
    crate::registry::validate_labels(selector.get("matchLabels"), &path.child("matchLabels"), errors);
    for (here, expression) in super::rules::items(selector, path, "matchExpressions") {
        let operator = object::text(expression, &["operator"]);
        let values = object::list(expression, &["values"]);
        match operator {
            "In" | "NotIn" if values.is_empty() => errors
                .push(Error::required(&here.child("values"), "must be specified when `operator` is 'In' or 'NotIn'")),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(Error::forbidden(
                &here.child("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(Error::invalid(&here.child("operator"), other, "not a valid selector operator")),
        }
        text(object::text(expression, &["key"]), &here.child("key"), rules::qualified_name, errors);
        for (i, value) in values.iter().filter_map(Value::as_str).enumerate() {
            text(value, &here.child("values").index(i), rules::label_value, errors);
        }
    }
}

/// The selector of a workload: it must select something, and the Pods of its own template.
pub fn selects_template(object: &Value, what: &str, errors: &mut Errors) {
    let spec = Path::new("spec");
    let selector = object::at(object, &["spec", "selector"]).filter(|s| !s.is_null());
    let Some(found) = selector else {
        errors.push(Error::required(&spec.child("selector"), ""));
        return;
    };
    let parsed = Selector::from_label_selector(Some(found));
    if parsed.as_ref().is_none_or(Selector::is_everything) {
        let detail = format!("empty selector is invalid for {what}");
        errors.push(Error::invalid(&spec.child("selector"), found.clone(), detail));
        return;
    }
    let labels = object::at(object, &["spec", "template", "metadata", "labels"]);
    if let Some(selector) = parsed
        && !selector.matches_labels(labels)
    {
        errors.push(Error::invalid(
            &spec.child("template").child("metadata").child("labels"),
            labels.cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new())),
            "`selector` does not match template `labels`",
        ));
    }
}

/// The Pods of a workload are made again for ever: nothing else will do.
pub fn always_restarts(object: &Value, kind: &str, errors: &mut Errors) {
    let path = Path::new("spec").child("template").child("spec");
    let policy = object::text(object, &["spec", "template", "spec", "restartPolicy"]);
    if !matches!(policy, "" | "Always") {
        errors.push(Error::not_supported(&path.child("restartPolicy"), policy, &["Always"]));
    }
    if object::integer(object, &["spec", "template", "spec", "activeDeadlineSeconds"]).is_some() {
        errors.push(Error::forbidden(
            &path.child("activeDeadlineSeconds"),
            format!("activeDeadlineSeconds in {kind} is not Supported"),
        ));
    }
}

/// The numbers in a status: none is negative, and the count of collisions never falls.
pub fn counts(object: &Value, old: &Value, names: &[&str], errors: &mut Errors) {
    let path = Path::new("status");
    for name in names.iter().chain(&["observedGeneration", "collisionCount"]) {
        if let Some(number) = object::integer(object, &["status", name]).filter(|number| *number < 0) {
            errors.push(Error::invalid(&path.child(name), number, NOT_NEGATIVE));
        }
    }
    let collisions = |object: &Value| object::integer(object, &["status", "collisionCount"]).unwrap_or(0);
    if collisions(object) < collisions(old) {
        errors.push(Error::invalid(&path.child("collisionCount"), collisions(object), "cannot be decremented"));
    }
}

/// Of the Pods of a status no more can be in some state than there are, nor more available than ready.
pub fn parts_of_replicas(object: &Value, names: &[&str], errors: &mut Errors) {
    let path = Path::new("status");
    let number = |name: &str| object::integer(object, &["status", name]).unwrap_or(0);
    for name in names.iter().filter(|name| number(name) > number("replicas")) {
        errors.push(Error::invalid(&path.child(name), number(name), "cannot be greater than status.replicas"));
    }
    if number("availableReplicas") > number("readyReplicas") {
        let detail = "cannot be greater than readyReplicas";
        errors.push(Error::invalid(&path.child("availableReplicas"), number("availableReplicas"), detail));
    }
}

/// A number, or a share such as `25%`.
pub fn number_or_percent(value: Option<&Value>, path: &Path, errors: &mut Errors) {
    match value {
        Some(Value::String(text)) if percent(text).is_none() => errors.push(Error::invalid(
            path,
            text.as_str(),
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
        )),
        Some(Value::Number(number)) if number.as_i64().is_some_and(|n| n < 0) => {
            errors.push(Error::invalid(path, number.clone(), NOT_NEGATIVE));
        }
        _ => {}
    }
}

/// A share of all cannot be more than all.
pub fn not_more_than_all(value: Option<&Value>, path: &Path, errors: &mut Errors) {
    if let Some(Value::String(text)) = value
        && percent(text).is_some_and(|n| n > 100)
    {
        errors.push(Error::invalid(path, text.as_str(), "must not be greater than 100%"));
    }
}

pub fn percent(text: &str) -> Option<i64> {
    text.strip_suffix('%').filter(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
}

/// Whether a number or a percentage is zero.
pub fn is_zero(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => percent(text) == Some(0),
        Some(other) => other.as_i64() == Some(0),
    }
}

/// An amount under a resource's name, not negative.
pub fn amount(value: &Value, path: &Path, errors: &mut Errors) -> Option<Quantity> {
    let text = value.as_str()?;
    let quantity = Quantity::parse(text).ok()?;
    if quantity.is_negative() {
        errors.push(Error::invalid(path, text, NOT_NEGATIVE));
    }
    Some(quantity)
}
