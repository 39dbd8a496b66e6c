//! Drops from a custom object what its schema does not have, and names what was dropped.
//!
//! `x-kubernetes-preserve-unknown-fields` keeps the unknown fields of that object, but the fields it declares are still
//! pruned inside. apiVersion, kind and metadata of the object itself and of embedded resources are always known.

use crate::node::{Kind, NodeId, Schema};
use crate::strict::{Findings, Problem};
use serde_json::Value;

/// Prunes in place. Returns the dropped fields, sorted by path, each as `unknown field "spec.x"`.
pub fn prune(schema: &Schema, value: &mut Value) -> Vec<String> {
    let mut pruner = Pruner { schema, path: String::new(), dropped: Findings::new() };
    pruner.value(schema.root, value);
    let mut messages = pruner.dropped.messages();
    messages.sort_unstable();
    messages
}

struct Pruner<'a> {
    schema: &'a Schema,
    path: String,
    dropped: Findings,
}

impl Pruner<'_> {
    fn value(&mut self, id: NodeId, value: &mut Value) {
        let schema = self.schema;
        let node = schema.node(id);
        match value {
            Value::Object(map) => {
                let names: Vec<String> = map.keys().cloned().collect();
                for name in names {
                    let length = self.path.len();
                    if length > 0 {
                        self.path.push('.');
                    }
                    self.path.push_str(&name);
                    let child = match &node.kind {
                        Kind::Object { .. } => schema.child(id, &name),
                        _ => None,
                    };
                    match (child, map.get_mut(&name)) {
                        (Some(child), Some(value)) => self.value(child, value),
                        _ if node.preserve_unknown => {}
                        _ => {
                            map.remove(&name);
                            if !self.dropped.is_full() {
                                self.dropped.add(Problem::Unknown, self.path.clone());
                            }
                        }
                    }
                    self.path.truncate(length);
                }
            }
            Value::Array(list) => {
                let items = match &node.kind {
                    Kind::List { items } => *items,
                    // Lists of an unknown type keep their items as the object around them is kept.
                    _ if node.preserve_unknown => return,
                    _ => id,
                };
                for (index, item) in list.iter_mut().enumerate() {
                    let length = self.path.len();
                    self.path.push_str(&format!("[{index}]"));
                    self.value(items, item);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_meta::field::Path;
    use serde_json::json;

    #[test]
    fn a_typo_in_a_custom_object_is_reported_and_does_not_stay() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "replicas": {"type": "integer"},
            "steps": {"type": "array", "items": {"type": "object", "properties": {"run": {"type": "string"}}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                "known": {"type": "object", "properties": {"a": {"type": "string"}}},
            }},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        }}}});
        let schema = Schema::from_crd(&schema, false, &Path::root()).expect("a sound schema");
        let mut value = json!({
            "apiVersion": "a/v1", "kind": "A",
            "metadata": {"name": "x", "labels": {"a": "b"}, "nonsense": 1},
            "extra": 1,
            "spec": {
                "replicas": 1, "replica": 2,
                "steps": [{"run": "x", "ran": "y"}],
                "free": {"anything": {"goes": 1}, "known": {"a": "b", "c": "d"}},
                "labels": {"any": "label"},
            },
        });
        let dropped = prune(&schema, &mut value);
        let wanted = ["extra", "metadata.nonsense", "spec.free.known.c", "spec.replica", "spec.steps[0].ran"];
        assert_eq!(dropped, wanted.map(|path| format!("unknown field \"{path}\"")));
        let kept = json!({
            "apiVersion": "a/v1", "kind": "A",
            "metadata": {"name": "x", "labels": {"a": "b"}},
            "spec": {
                "replicas": 1,
                "steps": [{"run": "x"}],
                "free": {"anything": {"goes": 1}, "known": {"a": "b"}},
                "labels": {"any": "label"},
            },
        });
        assert_eq!(value, kept);
    }
}
