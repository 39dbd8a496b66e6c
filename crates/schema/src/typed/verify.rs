//! Whether an applied object can be tracked: its fields are declared, its lists have keys, and each key once.

use super::item_element;
use crate::element::Element;
use crate::node::{Kind, NodeId, Schema};
use serde_json::Value;
use std::collections::BTreeSet;

/// What is wrong, each as `.path: message`, joined as the API joins them.
pub fn verify(schema: &Schema, value: &Value) -> Result<(), String> {
    let mut errors = Vec::new();
    walk(schema, schema.root_id(), value, &mut String::new(), &mut errors);
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("errors:\n  {}", many.join("\n  "))),
    }
}

fn walk(schema: &Schema, id: NodeId, value: &Value, path: &mut String, errors: &mut Vec<String>) {
    let node = schema.node(id);
    let refused = |path: &str, message: &str| {
        if path.is_empty() { message.to_owned() } else { format!("{path}: {message}") }
    };
    match (&node.kind, value) {
        (_, Value::Null) | (Kind::Any, _) => {}
        (Kind::Object { .. }, Value::Object(map)) => {
            for (name, value) in map {
                let length = path.len();
                path.push_str(&Element::field(name).to_string());
                match schema.child(id, name) {
                    Some(child) => walk(schema, child, value, path, errors),
                    None if node.preserve_unknown => {}
                    None => errors.push(format!("{path}: field not declared in schema")),
                }
                path.truncate(length);
            }
        }
        (Kind::List { items }, Value::Array(list)) => {
            let mut seen = BTreeSet::new();
            for (index, item) in list.iter().enumerate() {
                let element = if node.list_type.is_atomic() {
                    Element::Index(i64::try_from(index).unwrap_or(i64::MAX))
                } else {
                    match item_element(schema, id, item) {
                        Ok(element) => element,
                        // Without a key nothing further can be said of this list.
                        Err(message) => {
                            errors.push(refused(path, &format!("element {index}: {message}")));
                            return;
                        }
                    }
                };
                if seen.contains(&element) {
                    errors.push(format!("{path}: duplicate entries for key {element}"));
                }
                let length = path.len();
                path.push_str(&element.to_string());
                walk(schema, *items, item, path, errors);
                path.truncate(length);
                seen.insert(element);
            }
        }
        (Kind::Object { .. }, other) => errors.push(refused(path, &format!("expected map, got {other}"))),
        (Kind::List { .. }, other) => errors.push(refused(path, &format!("expected list, got {other}"))),
        (Kind::Int32 | Kind::Int64 | Kind::Integer | Kind::Number, other) if !other.is_number() => {
            errors.push(refused(path, &format!("expected numeric (int or float), got {}", go_name(other))));
        }
        (Kind::String | Kind::Time | Kind::MicroTime | Kind::Duration | Kind::Bytes, other) if !other.is_string() => {
            errors.push(refused(path, &format!("expected string, got &value.valueUnstructured{{Value:{other}}}")));
        }
        (Kind::Bool, other) if !other.is_boolean() => {
            errors.push(refused(path, &format!("expected boolean, got &{{{other}}}")));
        }
        _ => {}
    }
}

fn go_name(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Array(_) => "[]interface {}",
        _ => "map[string]interface {}",
    }
}
