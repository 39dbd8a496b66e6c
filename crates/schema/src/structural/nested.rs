//! `allOf`, `anyOf`, `oneOf` and `not` of a structural schema: they narrow values that are declared outside of them, and
//! declare nothing themselves.

use super::{EMBEDDED, INT_OR_STRING, LIST_MAP_KEYS, LIST_TYPE, MAP_TYPE, PRESERVE, Props, VALIDATIONS, is_zero};
use pintle_meta::field::{Error, Errors, Path};
use serde_json::Value;

const JUNCTORS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// What a nested schema must not say, and how that is told.
const FORBIDDEN: [(&str, &str); 12] = [
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (PRESERVE, "must be false to be structural"),
    (EMBEDDED, "must be false to be structural"),
    (INT_OR_STRING, "must be false to be structural"),
    (LIST_MAP_KEYS, "must be empty to be structural"),
    (LIST_TYPE, "must be undefined to be structural"),
    (MAP_TYPE, "must be undefined to be structural"),
];

/// What the junctors of a schema say that only the schema itself may say.
pub(super) fn check(schema: Props<'_>, path: &Path, errors: &mut Errors) {
    let first_of_all = schema.branches("allOf").next().is_some_and(|(_, first)| is_integer_or_string(first));
    junctors(schema, is_integer_or_string(schema), first_of_all, path, errors);
}

/// `either` skips `anyOf`, and `first` skips that of the first schema in `allOf`: they say integer or string, the one type
/// that may be said here.
fn junctors(schema: Props<'_>, either: bool, first: bool, path: &Path, errors: &mut Errors) {
    for name in JUNCTORS {
        for (index, branch) in schema.branches(name).filter(|_| name != "anyOf" || !either) {
            let either = name == "allOf" && index == 0 && first;
            nested(branch, either, &path.child(name).index(index), errors);
        }
    }
    if let Some(not) = schema.schema("not") {
        nested(not, false, &path.child("not"), errors);
    }
}

fn nested(schema: Props<'_>, either: bool, path: &Path, errors: &mut Errors) {
    junctors(schema, either, false, path, errors);
    if let Some(items) = schema.schema("items") {
        nested(items, false, &path.child("items"), errors);
    }
    for (name, property) in schema.properties() {
        nested(property, false, &path.child("properties").key(name), errors);
    }
    for (name, detail) in FORBIDDEN {
        // `additionalProperties: {}` says something, `nullable: false` does not.
        let said = match schema.0.get(name) {
            Some(Value::Object(_)) if name == "additionalProperties" => true,
            Some(_) if name == "default" => schema.default().is_some(),
            Some(value) => !is_zero(value),
            None => false,
        };
        if said {
            errors.push(Error::forbidden(&path.child(name), detail));
        }
    }
    if !schema.list(VALIDATIONS).is_empty() {
        errors.push(Error::forbidden(&path.child(VALIDATIONS), "must be empty to be structural"));
    }
    if schema.property("metadata").is_some() {
        let here = path.child("properties").key("metadata");
        errors.push(Error::forbidden(&here, "must not be specified in a nested context"));
    }
}

/// Two alternatives in `anyOf` that say nothing but `integer` and `string`, in this order.
fn is_integer_or_string(schema: Props<'_>) -> bool {
    let says_only = |schema: &Value, wanted: &str| {
        schema.get("type").and_then(Value::as_str) == Some(wanted)
            && schema.as_object().is_some_and(|map| map.iter().all(|(key, value)| key == "type" || is_zero(value)))
    };
    matches!(schema.list("anyOf"), [first, second] if says_only(first, "integer") && says_only(second, "string"))
}

/// Every field that a junctor speaks of is declared outside of junctors.
pub(super) fn check_completeness(schema: Props<'_>, path: &Path, errors: &mut Errors) {
    complete(schema, schema, path, path, errors);
}

/// `rules` stands at `said`, and narrows what `declared` declares at `path`.
fn complete(rules: Props<'_>, declared: Props<'_>, path: &Path, said: &Path, errors: &mut Errors) {
    if let Some(not) = rules.schema("not") {
        complete_nested(not, declared, path, &said.child("not"), errors);
    }
    for name in JUNCTORS {
        for (index, branch) in rules.branches(name) {
            complete_nested(branch, declared, path, &said.child(name).index(index), errors);
        }
    }
}

fn complete_nested(rules: Props<'_>, declared: Props<'_>, path: &Path, said: &Path, errors: &mut Errors) {
    complete(rules, declared, path, said, errors);
    let mut go_on = |rules: Props<'_>, declared: Option<Props<'_>>, path: &Path, said: &Path| match declared {
        Some(declared) => complete_nested(rules, declared, path, said, errors),
        None => errors.push(Error::required(path, format!("because it is defined in {said}"))),
    };
    if let Some(items) = rules.schema("items") {
        go_on(items, declared.schema("items"), &path.child("items"), &said.child("items"));
    }
    for (name, property) in rules.properties() {
        let at = |path: &Path| path.child("properties").key(name);
        go_on(property, declared.property(name), &at(path), &at(said));
    }
}
