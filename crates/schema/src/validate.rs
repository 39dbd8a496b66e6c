//! Checks a custom object against the value rules of its schema, in the words of the API.
//!
//! An update is not refused for what was wrong before: the errors of a value that is the same as in the stored object are
//! dropped (ratcheting). Items are found again only in lists with `x-kubernetes-list-type: map`.

mod embedded;
mod lists;
mod numbers;

pub(crate) use embedded::{check_below, check_resource};

use crate::format;
use crate::node::{Kind, Node, NodeId, Rules, Schema};
use pintle_meta::field::{Error, Errors, Path, Reason};
use serde_json::{Map, Value};

/// All that is wrong with a new object, or with one that takes the place of `old`. Bounded by the size of the object times
/// that of the schema.
pub fn validate(schema: &Schema, value: &Value, old: Option<&Value>) -> Errors {
    let mut errors = values(schema, &Path::root(), value, old);
    embedded::check(schema, value, &mut errors);
    errors.extend(lists::unique_items(schema, value, old));
    errors
}

/// The same for a write through `/status`: of the rest of the object only lists are looked at.
pub fn validate_status(schema: &Schema, value: &Value, old: &Value) -> Errors {
    let (path, old_status) = (Path::new("status"), old.get("status"));
    let checked = schema.declared("status").zip(value.get("status"));
    let mut errors = checked.map(|(schema, status)| values(&schema, &path, status, old_status)).unwrap_or_default();
    errors.extend(lists::unique_items(schema, value, Some(old)));
    errors
}

/// What is wrong with the values below `base`; neither embedded resources nor lists are looked at.
pub(crate) fn values(schema: &Schema, base: &Path, value: &Value, old: Option<&Value>) -> Errors {
    let mut outcome = Outcome::default();
    check(schema, schema.root, "", (value, None), &mut outcome);
    // Most objects are sound; only one that is not is compared with what was there.
    if !outcome.errors.is_empty() && old.is_some() {
        outcome = Outcome::default();
        check(schema, schema.root, "", (value, old), &mut outcome);
    }
    for error in &mut outcome.errors {
        error.field = match error.field.as_str() {
            "" => base.clone(),
            below => base.child(below),
        };
    }
    outcome.errors
}

/// What one walk found; `matched` tells which of several failing alternatives came closest: it counts the rules that apply.
#[derive(Default)]
struct Outcome {
    errors: Errors,
    matched: usize,
}

/// A value and what stood in its place before.
type Change<'a> = (&'a Value, Option<&'a Value>);

fn check(schema: &Schema, id: NodeId, path: &str, change: Change<'_>, outcome: &mut Outcome) {
    let before = outcome.errors.len();
    check_node(schema, id, path, change, outcome);
    let (value, old) = change;
    if outcome.errors.len() > before && old.is_some_and(|old| crate::typed::equal(old, value)) {
        outcome.errors.truncate(before);
    }
}

fn check_node(schema: &Schema, id: NodeId, path: &str, change: Change<'_>, outcome: &mut Outcome) {
    let node = schema.node(id);
    let (value, _) = change;
    static NONE: std::sync::LazyLock<Rules> = std::sync::LazyLock::new(Rules::default);
    let rules = node.rules.as_deref().unwrap_or(&NONE);
    if value.is_null() {
        check_type(node, rules, path, value, outcome);
        check_enumeration(rules, path, value, outcome);
        return;
    }
    outcome.matched += 2;
    check_type(node, rules, path, value, outcome);
    alternatives(schema, rules, path, change, outcome);
    match value {
        Value::String(text) => check_text(rules, path, text, outcome),
        Value::Number(number) => numbers::check(rules, path, number, outcome),
        Value::Array(list) => check_list(schema, id, rules, path, (list, change.1), outcome),
        _ => {}
    }
    check_enumeration(rules, path, value, outcome);
    if let Value::Object(map) = value {
        check_object(schema, id, rules, path, (map, change.1), outcome);
    }
}

fn check_type(node: &Node, rules: &Rules, path: &str, value: &Value, outcome: &mut Outcome) {
    let given = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let wanted = match (&node.kind, &rules.value_type) {
        (Kind::IntOrString, _) => "integer,string",
        (_, Some(wanted)) => wanted,
        (_, None) => return,
    };
    outcome.matched += 1;
    let whole = || value.as_f64().is_some_and(numbers::is_whole);
    let fits = match (wanted, given) {
        (_, "null") => node.nullable,
        ("integer,string", "integer" | "string") => true,
        ("integer,string" | "integer", "number") => whole(),
        ("number", "integer") => true,
        // As the API has it: where a string has a format, a list is not told from it.
        ("string", "array") => rules.format.is_some(),
        _ => wanted == given,
    };
    if fits {
        outcome.matched += 1;
        return;
    }
    let detail = format!("{path} in body must be of type {wanted}: {given:?}");
    outcome.errors.push(Error::new(Reason::TypeInvalid, &Path::new(path), given, detail));
}

fn alternatives(schema: &Schema, rules: &Rules, path: &str, change: Change<'_>, outcome: &mut Outcome) {
    let attempt = |id: &NodeId| {
        let mut attempt = Outcome::default();
        check_node(schema, *id, path, change, &mut attempt);
        attempt
    };
    // These speak of the value as a whole, so the API gives them no field.
    let whole = |detail: String| Error::invalid(&Path::root(), "", detail);
    let shown = format!("{path:?}");
    outcome.matched += 2;
    if !rules.any_of.is_empty() {
        let (valid, best) = closest(rules.any_of.iter().map(attempt));
        if valid == 0 {
            outcome.errors.push(whole(format!("{shown} must validate at least one schema (anyOf)")));
        }
        outcome.take(best);
    }
    if !rules.one_of.is_empty() {
        let (valid, best) = closest(rules.one_of.iter().map(attempt));
        let told = "must validate one and only one schema (oneOf)";
        match valid {
            0 => outcome.errors.push(whole(format!("{shown} {told}. Found none valid"))),
            1 => {}
            _ => outcome.errors.push(whole(format!("{shown} {told}. Found {valid} valid alternatives"))),
        }
        outcome.take(best);
    }
    if !rules.all_of.is_empty() {
        let attempts: Vec<Outcome> = rules.all_of.iter().map(attempt).collect();
        let failed = attempts.iter().filter(|attempt| !attempt.errors.is_empty()).count();
        let none = if failed == attempts.len() { ". None validated" } else { "" };
        attempts.into_iter().for_each(|attempt| outcome.take(Some(attempt)));
        if failed > 0 {
            outcome.errors.push(whole(format!("{shown} must validate all the schemas (allOf){none}")));
        }
    }
    if let Some(id) = &rules.not
        && attempt(id).errors.is_empty()
    {
        outcome.errors.push(whole(format!("{shown} must not validate the schema (not)")));
    }
}

impl Outcome {
    fn take(&mut self, other: Option<Outcome>) {
        let Some(other) = other else { return };
        self.errors.extend(other.errors);
        self.matched += other.matched;
    }
}

/// How many succeeded, and the first of those; if none did, the one that came closest.
fn closest(attempts: impl Iterator<Item = Outcome>) -> (usize, Option<Outcome>) {
    let mut valid = 0;
    let mut best: Option<Outcome> = None;
    for attempt in attempts {
        let better = match attempt.errors.is_empty() {
            true => {
                valid += 1;
                valid == 1
            }
            false => valid == 0 && best.as_ref().is_none_or(|best| attempt.matched > best.matched),
        };
        if better {
            best = Some(attempt);
        }
    }
    (valid, best)
}

/// Of length and pattern the first that fails is told; the format is another rule.
fn check_text(rules: &Rules, path: &str, text: &str, outcome: &mut Outcome) {
    let field = Path::new(path);
    let length = text.chars().count() as u64;
    outcome.matched += 1;
    if let Some(most) = rules.max_length.filter(|most| length > *most) {
        outcome.errors.push(Error::too_long(&field, usize::try_from(most).unwrap_or(usize::MAX)));
    } else if let Some(least) = rules.min_length.filter(|least| length < *least) {
        let detail = format!("{path} in body should be at least {least} chars long");
        outcome.errors.push(Error::invalid(&field, text, detail));
    } else if let Some((pattern, regex)) = &rules.pattern
        && !regex.is_match(text)
    {
        outcome.errors.push(Error::invalid(&field, text, format!("{path} in body should match '{pattern}'")));
    }
    let of_text = matches!(rules.value_type.as_deref(), None | Some("string"));
    if let Some(name) = rules.format.as_deref().filter(|_| of_text) {
        outcome.matched += 1;
        if !format::fits(name, text) {
            let detail = format!("{path} in body must be of type {name}: {text:?}");
            outcome.errors.push(Error::new(Reason::TypeInvalid, &field, text, detail));
        }
    }
}

fn check_list(
    schema: &Schema,
    id: NodeId,
    rules: &Rules,
    path: &str,
    (list, old): (&[Value], Option<&Value>),
    outcome: &mut Outcome,
) {
    let (field, count) = (Path::new(path), list.len());
    let node = schema.node(id);
    outcome.matched += 2;
    if let Kind::List { items } = node.kind {
        let old = lists::by_key(&node.list_type, old);
        for (index, item) in list.iter().enumerate() {
            let old = old.as_ref().and_then(|old| old.get(item));
            check(schema, items, &format!("{path}[{index}]"), (item, old), outcome);
        }
    }
    if let Some(least) = rules.min_items.filter(|least| (count as u64) < *least) {
        let detail = format!("{path} in body should have at least {least} items");
        outcome.errors.push(Error::invalid(&field, count, detail));
    }
    if let Some(most) = rules.max_items.filter(|most| count as u64 > *most) {
        outcome.errors.push(Error::too_many(&field, count, usize::try_from(most).unwrap_or(usize::MAX)));
    }
    if rules.unique_items && !lists::duplicates(list.iter()).is_empty() {
        let detail = format!("{path} in body shouldn't contain duplicates");
        outcome.errors.push(Error::invalid(&field, "", detail));
    }
}

fn check_object(
    schema: &Schema,
    id: NodeId,
    rules: &Rules,
    path: &str,
    (map, old): (&Map<String, Value>, Option<&Value>),
    outcome: &mut Outcome,
) {
    let (field, count) = (Path::new(path), map.len());
    outcome.matched += 1;
    if let Some(least) = rules.min_properties.filter(|least| (count as u64) < *least) {
        let detail = format!("{path} in body should have at least {least} properties");
        outcome.errors.push(Error::invalid(&field, count, detail));
    }
    if let Some(most) = rules.max_properties.filter(|most| count as u64 > *most) {
        outcome.errors.push(Error::too_many(&field, count, usize::try_from(most).unwrap_or(usize::MAX)));
    }
    for (name, value) in map {
        if rules.closed && schema.field(id, name).is_none() {
            let detail = format!("{path}.{name} in body is a forbidden property");
            outcome.errors.push(Error::invalid(&field, name.as_str(), detail));
        }
        let Kind::Object { .. } = &schema.node(id).kind else { continue };
        let Some(child) = schema.child(id, name) else { continue };
        // What an object is cannot have changed, but it may be read in another version than it was written.
        let is_type = path.is_empty() && matches!(name.as_str(), "kind" | "apiVersion");
        let old = old.and_then(|old| old.get(name)).filter(|_| !is_type);
        check(schema, child, &joined(path, name), (value, old), outcome);
    }
    for name in &rules.required {
        if !map.contains_key(&**name) {
            outcome.errors.push(Error::required(&Path::new(&joined(path, name)), ""));
        }
    }
}

fn check_enumeration(rules: &Rules, path: &str, value: &Value, outcome: &mut Outcome) {
    let Some(allowed) = rules.enumeration.as_ref().filter(|allowed| !allowed.is_empty()) else { return };
    // As the API has it: null is in no enumeration, not even in one that names it.
    if !value.is_null() && allowed.iter().any(|allowed| crate::typed::equal(allowed, value)) {
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

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests;
