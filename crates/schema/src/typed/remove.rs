//! An object without the fields of a set.

use super::{Atom, atom, item_element};
use crate::element::Element;
use crate::fieldset::FieldSet;
use crate::node::{NodeId, Schema};
use serde_json::{Map, Value};

/// Removes every field and item of the set. An object or list that becomes empty goes as well.
pub fn remove(schema: &Schema, value: &Value, fields: &FieldSet) -> Value {
    removed(schema, schema.root_id(), value, fields).unwrap_or_else(|| Value::Object(Map::new()))
}

fn removed(schema: &Schema, id: NodeId, value: &Value, fields: &FieldSet) -> Option<Value> {
    match (atom(schema.node(id), Some(value)), value) {
        (Atom::List, Value::Array(list)) => {
            let mut kept = Vec::with_capacity(list.len());
            for item in list {
                let Ok(element) = item_element(schema, id, item) else {
                    kept.push(item.clone());
                    continue;
                };
                if fields.has_member(&element) {
                    continue;
                }
                match (fields.child(&element), schema.items(id)) {
                    (Some(below), Some(items)) => kept.extend(removed(schema, items, item, below)),
                    _ => kept.push(item.clone()),
                }
            }
            (!kept.is_empty()).then_some(Value::Array(kept))
        }
        (Atom::Map, Value::Object(map)) => {
            let mut kept = Map::new();
            for (name, value) in map {
                let element = Element::field(name);
                if fields.has_member(&element) {
                    continue;
                }
                let value = match (fields.child(&element), schema.child(id, name)) {
                    (Some(below), Some(child)) => removed(schema, child, value, below),
                    _ => Some(value.clone()),
                };
                if let Some(value) = value {
                    kept.insert(name.clone(), value);
                }
            }
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        (Atom::Leaf, Value::Array(_) | Value::Object(_)) => None,
        (_, value) => Some(value.clone()),
    }
}
