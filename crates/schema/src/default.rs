//! Fills in the defaults that a schema declares.

use crate::node::{Kind, NodeId, Schema};
use serde_json::Value;

/// Fills in defaults in place.
///
/// - A declared default stands in for an absent field, and for a `null` where `null` is not a value.
/// - Such a `null` without a default is dropped from an object; in a list it stays, for validation to refuse.
/// - A default inside an object applies only where that object is there.
pub fn default(schema: &Schema, value: &mut Value) {
    drop_nulls(schema, schema.root, value);
    fill(schema, schema.root, value);
}

fn drop_nulls(schema: &Schema, id: NodeId, value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|name, value| {
            let Some(child) = known_child(schema, id, name) else { return true };
            let node = schema.node(child);
            let dropped =
                value.is_null() && !node.nullable && node.default.is_none() && !matches!(node.kind, Kind::Any);
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

fn fill(schema: &Schema, id: NodeId, value: &mut Value) {
    match (value, &schema.node(id).kind) {
        (Value::Object(map), Kind::Object { fields, additional }) => {
            for (name, field) in fields.iter() {
                let node = schema.node(field.node);
                let Some(default) = &node.default else { continue };
                let absent = map.get(&**name).is_none_or(|value| value.is_null() && !node.nullable);
                if absent {
                    map.insert(name.to_string(), default.clone());
                }
            }
            for (name, value) in map.iter_mut() {
                let Some(child) = fields.get(name.as_str()).map(|field| field.node).or(*additional) else { continue };
                replace_null(schema, child, value);
                fill(schema, child, value);
            }
        }
        (Value::Array(list), Kind::List { items }) => {
            for item in list {
                replace_null(schema, *items, item);
                fill(schema, *items, item);
            }
        }
        _ => {}
    }
}

fn replace_null(schema: &Schema, id: NodeId, value: &mut Value) {
    let node = schema.node(id);
    if value.is_null()
        && !node.nullable
        && let Some(default) = &node.default
    {
        *value = default.clone();
    }
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
            default(&schema, &mut given);
            assert_eq!(given, wanted);
        }
    }

    #[test]
    fn ports_are_tcp_unless_said_otherwise() {
        let schema = Schema::builtin("core.v1.Service").expect("the table has services");
        let mut service = json!({"spec": {"ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]}});
        default(&schema, &mut service);
        assert_eq!(
            service,
            json!({"spec": {"ports": [{"port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}})
        );
    }
}
