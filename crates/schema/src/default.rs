//! Fills in the defaults that a schema declares.

use crate::node::{Kind, NodeId, Schema};
use serde_json::Value;

/// All defaults that one object gets together may be so large: an object of many small items must not become one of many
/// large ones.
const MAX_FILLED_BYTES: usize = 3 * 1024 * 1024;

/// The defaults of an object are too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the defaults of its schema make the object larger by more than {MAX_FILLED_BYTES} bytes")]
pub struct TooLarge;

/// Fills in defaults in place.
///
/// - A declared default stands in for an absent field, and for a `null` where `null` is not a value.
/// - Such a `null` without a default is dropped from an object; in a list it stays, for validation to refuse.
/// - A default inside an object applies only where that object is there.
pub fn default(schema: &Schema, value: &mut Value) -> Result<(), TooLarge> {
    drop_nulls(schema, schema.root, value);
    let mut room = MAX_FILLED_BYTES;
    fill(schema, schema.root, value, &mut room)
}

/// A default to be put in, if there is room for it.
fn taken(default: &Value, room: &mut usize) -> Result<Value, TooLarge> {
    *room = room.checked_sub(weight(default)).ok_or(TooLarge)?;
    Ok(default.clone())
}

/// About how many bytes a value takes.
fn weight(value: &Value) -> usize {
    const VALUE: usize = 8;
    VALUE
        + match value {
            Value::String(text) => text.len(),
            Value::Array(list) => list.iter().map(weight).sum(),
            Value::Object(map) => map.iter().map(|(key, item)| key.len() + weight(item)).sum(),
            _ => 0,
        }
}

fn drop_nulls(schema: &Schema, id: NodeId, value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|name, value| {
            let Some(child) = known_child(schema, id, name) else { return true };
            let node = schema.node(child);
            // Fields that no schema declares keep their nulls.
            let declared = node.rules.is_some() || !matches!(node.kind, Kind::Any);
            let dropped = value.is_null() && !node.nullable && node.default.is_none() && declared;
            if !dropped {
                drop_nulls(schema, child, value);
            }
            !dropped
        }),
        Value::Array(list) => {
            if let Kind::List { items } = schema.node(id).kind {
                list.iter_mut().for_each(|item| drop_nulls(schema, items, item));
            }
        }
        _ => {}
    }
}

fn fill(schema: &Schema, id: NodeId, value: &mut Value, room: &mut usize) -> Result<(), TooLarge> {
    match (value, &schema.node(id).kind) {
        (Value::Object(map), Kind::Object { fields, additional }) => {
            for (name, field) in fields.iter() {
                let node = schema.node(field.node);
                let Some(default) = &node.default else { continue };
                let absent = map.get(&**name).is_none_or(|value| value.is_null() && !node.nullable);
                if absent {
                    map.insert(name.to_string(), taken(default, room)?);
                }
            }
            for (name, value) in map.iter_mut() {
                let Some(child) = fields.get(name.as_str()).map(|field| field.node).or(*additional) else { continue };
                replace_null(schema, child, value, room)?;
                fill(schema, child, value, room)?;
            }
        }
        (Value::Array(list), Kind::List { items }) => {
            for item in list {
                replace_null(schema, *items, item, room)?;
                fill(schema, *items, item, room)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn replace_null(schema: &Schema, id: NodeId, value: &mut Value, room: &mut usize) -> Result<(), TooLarge> {
    let node = schema.node(id);
    if value.is_null()
        && !node.nullable
        && let Some(default) = &node.default
    {
        *value = taken(default, room)?;
    }
    Ok(())
}

fn known_child(schema: &Schema, id: NodeId, name: &str) -> Option<NodeId> {
    match &schema.node(id).kind {
        Kind::Object { .. } => schema.child(id, name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_meta::field::Path;
    use serde_json::json;

    #[test]
    fn a_custom_object_gets_the_defaults_its_definition_promises() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "default": {}, "properties": {
            "replicas": {"type": "integer", "default": 1},
            "note": {"type": "string", "nullable": true, "default": "x"},
            "plain": {"type": "string"},
            "nested": {"type": "object", "properties": {"a": {"type": "string", "default": "b"}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"port": {"type": "integer", "default": 80}}}},
        }}}});
        let schema = Schema::from_crd(&schema, false, &Path::root()).expect("a sound schema");
        let cases = [
            (json!({}), json!({"spec": {"replicas": 1, "note": "x"}})),
            (
                json!({"spec": {"replicas": null, "note": null, "plain": null, "nested": {}, "list": [{}, {"port": 1}]}}),
                json!({"spec": {"replicas": 1, "note": null, "nested": {"a": "b"}, "list": [{"port": 80}, {"port": 1}]}}),
            ),
        ];
        for (mut given, wanted) in cases {
            default(&schema, &mut given).expect("small defaults");
            assert_eq!(given, wanted);
        }
    }

    #[test]
    fn many_small_items_with_large_defaults_are_refused() {
        let schema = json!({"type": "object", "properties": {"list": {"type": "array", "items": {
            "type": "object", "properties": {"a": {"type": "string", "default": "x".repeat(60_000)}},
        }}}});
        let schema = Schema::from_crd(&schema, false, &Path::root()).expect("a sound schema");
        let list = |length: usize| json!({"list": vec![json!({}); length]});
        assert_eq!(default(&schema, &mut list(10)), Ok(()));
        assert_eq!(default(&schema, &mut list(1_000_000)), Err(TooLarge));
    }

    #[test]
    fn ports_are_tcp_unless_said_otherwise() {
        let schema = Schema::builtin("core.v1.Service").expect("the table has services");
        let mut service = json!({"spec": {"ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]}});
        default(&schema, &mut service).expect("small defaults");
        assert_eq!(
            service,
            json!({"spec": {"ports": [{"port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}})
        );
    }
}
