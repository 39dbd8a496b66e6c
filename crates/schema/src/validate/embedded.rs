//! Resources inside of a custom object (`x-kubernetes-embedded-resource`): what they are and their metadata.

use crate::decode;
use crate::node::{Kind, NodeId, Schema};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::rules;
use serde_json::{Map, Value};

pub(super) fn check(schema: &Schema, value: &Value, errors: &mut Errors) {
    // Most schemas embed nothing.
    if schema.arena.iter().any(|node| node.embedded_resource) {
        walk(schema, schema.root, &Path::root(), value, errors);
    }
}

/// Everything embedded in a value, the value itself too. Errors stand under `path`.
pub(crate) fn check_below(schema: &Schema, path: &Path, value: &Value) -> Errors {
    let mut errors = Errors::new();
    walk(schema, schema.root, path, value, &mut errors);
    errors
}

fn walk(schema: &Schema, id: NodeId, path: &Path, value: &Value, errors: &mut Errors) {
    let node = schema.node(id);
    match (value, &node.kind) {
        (Value::Object(map), kind) => {
            if node.embedded_resource {
                check_resource(map, path, errors);
            }
            let Kind::Object { fields, .. } = kind else { return };
            for (name, value) in map {
                let Some(child) = schema.child(id, name) else { continue };
                let path = if fields.contains_key(name.as_str()) { path.child(name) } else { path.key(name) };
                walk(schema, child, &path, value, errors);
            }
        }
        (Value::Array(list), Kind::List { items }) => {
            for (index, item) in list.iter().enumerate() {
                walk(schema, *items, &path.index(index), item, errors);
            }
        }
        _ => {}
    }
}

/// One resource: apiVersion and kind must be there, metadata may.
pub(crate) fn check_resource(map: &Map<String, Value>, path: &Path, errors: &mut Errors) {
    for name in ["apiVersion", "kind"] {
        if !map.contains_key(name) {
            errors.push(Error::required(&path.child(name), ""));
        }
    }
    for (name, value) in map {
        let here = path.child(name);
        match (name.as_str(), value) {
            ("apiVersion" | "kind", Value::String(text)) if text.is_empty() => {
                errors.push(Error::invalid(&here, "", "must not be empty"));
            }
            ("apiVersion", Value::String(text)) if text.matches('/').count() > 1 => {
                let detail = format!("unexpected GroupVersion string: {text}");
                errors.push(Error::invalid(&here, text.as_str(), detail));
            }
            ("kind", Value::String(text)) => {
                let problems = rules::dns_1035_label(&text.to_lowercase());
                if !problems.is_empty() {
                    let detail = format!("may have mixed case, but should otherwise match: {}", problems.join(","));
                    errors.push(Error::invalid(&here, text.as_str(), detail));
                }
            }
            ("apiVersion", Value::String(_)) => {}
            ("apiVersion" | "kind", other) => errors.push(Error::invalid(&here, other.clone(), "must be a string")),
            ("metadata", metadata) => check_metadata(metadata, &here, errors),
            _ => {}
        }
    }
}

fn check_metadata(metadata: &Value, path: &Path, errors: &mut Errors) {
    let Some(schema) = Schema::builtin("meta.v1.ObjectMeta") else { return };
    if let Err(error) = decode::decode(&schema, metadata.clone()) {
        errors.push(Error::invalid(path, metadata.clone(), error.to_string()));
        return;
    }
    let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default();
    for name in ["generateName", "name"] {
        let problems = rules::path_segment(text(name)).into_iter();
        errors.extend(problems.map(|problem| Error::invalid(&path.child(name), text(name), problem)));
    }
    if !text("namespace").is_empty() {
        let problems = rules::dns_label(text("namespace")).into_iter();
        errors.extend(problems.map(|problem| Error::invalid(&path.child("namespace"), text("namespace"), problem)));
    }
    let pairs = |name: &str| metadata.get(name).and_then(Value::as_object).into_iter().flatten();
    for (key, value) in pairs("labels") {
        let (labels, value) = (path.child("labels"), value.as_str().unwrap_or_default());
        let problems = rules::qualified_name(key).into_iter();
        errors.extend(problems.map(|problem| Error::invalid(&labels, key.as_str(), problem)));
        let problems = rules::label_value(value).into_iter();
        errors.extend(problems.map(|problem| Error::invalid(&labels.key(key), value, problem)));
    }
    for (key, _) in pairs("annotations") {
        let problems = rules::qualified_name(&key.to_lowercase()).into_iter();
        errors.extend(problems.map(|problem| Error::invalid(&path.child("annotations"), key.as_str(), problem)));
    }
}
