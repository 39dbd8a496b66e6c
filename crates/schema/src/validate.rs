//! Checks a custom object against the value rules of its schema, in the words of the API.

use crate::format;
use crate::node::{Kind, ListType, Node, NodeId, Rules, Schema};
use pintle_meta::field::{Error, Errors, Path, Reason};
use serde_json::{Map, Value};

/// All that is wrong with the object. Bounded by the size of the object times that of the schema.
pub fn validate(schema: &Schema, value: &Value) -> Errors {
    let mut outcome = Outcome::default();
    check(schema, schema.root, "", value, &mut outcome);
    unique_items(schema, schema.root, &Path::root(), value, &mut outcome.errors);
    outcome.errors
}

/// What one walk found; `matched` tells which of several failing alternatives came closest.
#[derive(Default)]
struct Outcome {
    errors: Errors,
    matched: usize,
}

fn check(schema: &Schema, id: NodeId, path: &str, value: &Value, outcome: &mut Outcome) {
    let node = schema.node(id);
    outcome.matched += 1;
    if value.is_null() && node.nullable {
        return;
    }
    if let Some(rules) = &node.rules {
        check_type(node, rules, path, value, outcome);
        alternatives(schema, rules, path, value, outcome);
        match value {
            Value::String(text) => check_text(rules, path, text, outcome),
            Value::Number(number) => check_number(rules, path, number, outcome),
            Value::Array(list) => check_list(rules, path, list, outcome),
            Value::Object(map) => check_object(rules, path, map, outcome),
            _ => {}
        }
        check_enumeration(rules, path, value, outcome);
    }
    match (value, &node.kind) {
        (Value::Object(map), Kind::Object { .. }) => {
            for (name, value) in map {
                if let Some(child) = schema.child(id, name) {
                    check(schema, child, &joined(path, name), value, outcome);
                }
            }
        }
        (Value::Array(list), Kind::List { items }) => {
            for (index, item) in list.iter().enumerate() {
                check(schema, *items, &format!("{path}[{index}]"), item, outcome);
            }
        }
        _ => {}
    }
    if node.embedded_resource {
        check_embedded(path, value, outcome);
    }
}

fn check_type(node: &Node, rules: &Rules, path: &str, value: &Value, outcome: &mut Outcome) {
    let given = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let wanted = match (&node.kind, &rules.value_type) {
        (Kind::IntOrString, _) => "integer,string",
        (_, Some(wanted)) => wanted,
        (_, None) => return,
    };
    let whole = |value: &Value| value.as_f64().is_some_and(|number| number.fract() == 0.0);
    let fits = match wanted {
        "integer,string" => matches!(given, "integer" | "string") || whole(value),
        "integer" => given == "integer" || whole(value),
        "number" => matches!(given, "integer" | "number"),
        other => other == given,
    };
    if !fits {
        let detail = format!("{path} in body must be of type {wanted}: {given:?}");
        outcome.errors.push(Error::new(Reason::TypeInvalid, &Path::new(path), given, detail));
    }
}

fn alternatives(schema: &Schema, rules: &Rules, path: &str, value: &Value, outcome: &mut Outcome) {
    let attempt = |id: &NodeId| {
        let mut attempt = Outcome::default();
        check(schema, *id, path, value, &mut attempt);
        attempt
    };
    // These speak of the object as a whole, so the API gives them no field.
    let whole = |detail: String| Error::invalid(&Path::root(), "", detail);
    for id in &rules.all_of {
        let attempt = attempt(id);
        outcome.matched += attempt.matched;
        outcome.errors.extend(attempt.errors);
    }
    if !rules.any_of.is_empty() {
        let attempts: Vec<Outcome> = rules.any_of.iter().map(attempt).collect();
        if !attempts.iter().any(|attempt| attempt.errors.is_empty()) {
            outcome.errors.push(whole(format!("\"{path}\" must validate at least one schema (anyOf)")));
            outcome.errors.extend(closest(attempts));
        }
    }
    if !rules.one_of.is_empty() {
        let attempts: Vec<Outcome> = rules.one_of.iter().map(attempt).collect();
        let valid = attempts.iter().filter(|attempt| attempt.errors.is_empty()).count();
        let told = "must validate one and only one schema (oneOf)";
        if valid == 0 {
            outcome.errors.push(whole(format!("\"{path}\" {told}. Found none valid")));
            outcome.errors.extend(closest(attempts));
        } else if valid > 1 {
            outcome.errors.push(whole(format!("\"{path}\" {told}. Found {valid} valid alternatives")));
        }
    }
    if let Some(id) = &rules.not
        && attempt(id).errors.is_empty()
    {
        outcome.errors.push(whole(format!("\"{path}\" must not validate the schema (not)")));
    }
}

fn closest(attempts: Vec<Outcome>) -> Errors {
    let mut best: Option<Outcome> = None;
    for attempt in attempts {
        if best.as_ref().is_none_or(|best| attempt.matched > best.matched) {
            best = Some(attempt);
        }
    }
    best.map(|best| best.errors).unwrap_or_default()
}

fn check_text(rules: &Rules, path: &str, text: &str, outcome: &mut Outcome) {
    let field = Path::new(path);
    let length = text.chars().count() as u64;
    if let Some(most) = rules.max_length.filter(|most| length > *most) {
        outcome.errors.push(Error::too_long(&field, usize::try_from(most).unwrap_or(usize::MAX)));
    }
    if let Some(least) = rules.min_length.filter(|least| length < *least) {
        let detail = format!("{path} in body should be at least {least} chars long");
        outcome.errors.push(Error::invalid(&field, text, detail));
    }
    if let Some((pattern, regex)) = &rules.pattern
        && !regex.is_match(text)
    {
        outcome.errors.push(Error::invalid(&field, text, format!("{path} in body should match '{pattern}'")));
    }
    if let Some(name) = &rules.format
        && !format::fits(name, text)
    {
        let detail = format!("{path} in body must be of type {name}: {text:?}");
        outcome.errors.push(Error::new(Reason::TypeInvalid, &field, text, detail));
    }
}

fn check_number(rules: &Rules, path: &str, number: &serde_json::Number, outcome: &mut Outcome) {
    let Some(value) = number.as_f64() else { return };
    let mut refuse = |detail: String| {
        let detail = format!("{path} in body should be {detail}");
        outcome.errors.push(Error::invalid(&Path::new(path), Value::Number(number.clone()), detail));
    };
    if let Some(step) = rules.multiple_of.filter(|step| *step > 0.0) {
        let ratio = value / step;
        if (ratio - ratio.round()).abs() > 1e-9 {
            refuse(format!("a multiple of {step}"));
        }
    }
    if let Some(most) = rules.maximum {
        if rules.exclusive_maximum && value >= most {
            refuse(format!("less than {most}"));
        } else if value > most {
            refuse(format!("less than or equal to {most}"));
        }
    }
    if let Some(least) = rules.minimum {
        if rules.exclusive_minimum && value <= least {
            refuse(format!("greater than {least}"));
        } else if value < least {
            refuse(format!("greater than or equal to {least}"));
        }
    }
}

fn check_list(rules: &Rules, path: &str, list: &[Value], outcome: &mut Outcome) {
    let (field, count) = (Path::new(path), list.len());
    if let Some(least) = rules.min_items.filter(|least| (count as u64) < *least) {
        let detail = format!("{path} in body should have at least {least} items");
        outcome.errors.push(Error::invalid(&field, count, detail));
    }
    if let Some(most) = rules.max_items.filter(|most| count as u64 > *most) {
        outcome.errors.push(Error::too_many(&field, count, usize::try_from(most).unwrap_or(usize::MAX)));
    }
    if rules.unique_items && !duplicates(list.iter()).is_empty() {
        let detail = format!("{path} in body shouldn't contain duplicates");
        outcome.errors.push(Error::invalid(&field, Value::Array(list.to_vec()), detail));
    }
}

fn check_object(rules: &Rules, path: &str, map: &Map<String, Value>, outcome: &mut Outcome) {
    let (field, count) = (Path::new(path), map.len());
    if let Some(least) = rules.min_properties.filter(|least| (count as u64) < *least) {
        let detail = format!("{path} in body should have at least {least} properties");
        outcome.errors.push(Error::invalid(&field, count, detail));
    }
    if let Some(most) = rules.max_properties.filter(|most| count as u64 > *most) {
        outcome.errors.push(Error::too_many(&field, count, usize::try_from(most).unwrap_or(usize::MAX)));
    }
    for name in &rules.required {
        if !map.contains_key(&**name) {
            outcome.errors.push(Error::required(&Path::new(&joined(path, name)), ""));
        }
    }
}

fn check_enumeration(rules: &Rules, path: &str, value: &Value, outcome: &mut Outcome) {
    let Some(allowed) = &rules.enumeration else { return };
    if allowed.iter().any(|allowed| crate::typed::equal(allowed, value)) {
        return;
    }
    let shown: Vec<String> = allowed
        .iter()
        .map(|allowed| match allowed {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
        .collect();
    let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
    outcome.errors.push(Error::not_supported(&Path::new(path), value.clone(), &shown));
}

fn check_embedded(path: &str, value: &Value, outcome: &mut Outcome) {
    let Value::Object(map) = value else { return };
    for name in ["apiVersion", "kind"] {
        let field = Path::new(&joined(path, name));
        match map.get(name) {
            None => outcome.errors.push(Error::required(&field, "")),
            Some(Value::String(text)) if text.is_empty() => {
                outcome.errors.push(Error::invalid(&field, "", "must not be empty"));
            }
            _ => {}
        }
    }
}

/// Sets hold each value once and map lists each key once.
fn unique_items(schema: &Schema, id: NodeId, path: &Path, value: &Value, errors: &mut Errors) {
    match (value, &schema.node(id).kind) {
        (Value::Object(map), Kind::Object { fields, .. }) => {
            for (name, value) in map {
                let Some(child) = schema.child(id, name) else { continue };
                let path = if fields.contains_key(name.as_str()) { path.child(name) } else { path.key(name) };
                unique_items(schema, child, &path, value, errors);
            }
        }
        (Value::Array(list), Kind::List { items }) => {
            match &schema.node(id).list_type {
                ListType::Unspecified | ListType::Atomic => {}
                ListType::Set => {
                    for index in duplicates(list.iter()) {
                        errors.push(Error::duplicate(&path.index(index), list[index].clone()));
                    }
                }
                ListType::Map(keys) => {
                    let keys: Vec<Value> = list.iter().map(|item| key_of(item, keys)).collect();
                    for index in duplicates(keys.iter()) {
                        errors.push(Error::duplicate(&path.index(index), keys[index].clone()));
                    }
                }
            }
            for (index, item) in list.iter().enumerate() {
                unique_items(schema, *items, &path.index(index), item, errors);
            }
        }
        _ => {}
    }
}

fn key_of(item: &Value, keys: &[Box<str>]) -> Value {
    let pairs = keys.iter().filter_map(|key| Some((key.to_string(), item.get(&**key)?.clone())));
    Value::Object(pairs.collect())
}

/// The places of second appearances; a third is not told again.
fn duplicates<'a>(values: impl Iterator<Item = &'a Value>) -> Vec<usize> {
    let mut seen = std::collections::BTreeMap::new();
    let mut repeated = Vec::new();
    for (index, value) in values.enumerate() {
        let times = seen.entry(value.to_string()).or_insert(0usize);
        *times += 1;
        if *times == 2 {
            repeated.push(index);
        }
    }
    repeated
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests;
