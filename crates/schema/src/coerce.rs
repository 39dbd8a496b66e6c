//! Brings the metadata of a custom object, and of what is embedded in it, to the API's own type.

use crate::decode::decode;
use crate::node::{Kind, NodeId, Schema};
use pintle_meta::field::{Error, Path};
use serde_json::{Map, Value};

/// The object cannot be read; the text continues `Ship in version "v1" cannot be handled as a Ship: `.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CoerceError(String);

/// Coerces in place. Unknown fields were dropped before: they are reported where they are pruned.
pub fn coerce(schema: &Schema, value: &mut Value) -> Result<(), CoerceError> {
    let Value::Object(map) = value else { return Ok(()) };
    metadata(map).map_err(|(_, message)| CoerceError(message))?;
    // Most schemas embed nothing.
    if schema.arena.iter().any(|node| node.embedded_resource) {
        walk(schema, schema.root, &Path::root(), value).map_err(|error| CoerceError(error.to_string()))?;
    }
    Ok(())
}

/// What was there instead, and why it is no metadata.
fn metadata(map: &mut Map<String, Value>) -> Result<(), (Value, String)> {
    let (Some(given), Some(schema)) = (map.get_mut("metadata"), Schema::builtin("meta.v1.ObjectMeta")) else {
        return Ok(());
    };
    let shown = given.clone();
    *given = decode(&schema, given.take()).map_err(|error| (shown, error.to_string()))?.value;
    Ok(())
}

fn walk(schema: &Schema, id: NodeId, path: &Path, value: &mut Value) -> Result<(), Box<Error>> {
    let node = schema.node(id);
    match (value, &node.kind) {
        (Value::Object(map), Kind::Object { fields, .. }) => {
            if node.embedded_resource {
                resource(map, path)?;
            }
            for (name, value) in map {
                let Some(child) = schema.child(id, name) else { continue };
                let path = if fields.contains_key(name.as_str()) { path.child(name) } else { path.key(name) };
                walk(schema, child, &path, value)?;
            }
        }
        (Value::Array(list), Kind::List { items }) => {
            for (index, item) in list.iter_mut().enumerate() {
                walk(schema, *items, &path.index(index), item)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn resource(map: &mut Map<String, Value>, path: &Path) -> Result<(), Box<Error>> {
    for name in ["apiVersion", "kind"] {
        if let Some(given) = map.get(name).filter(|given| !given.is_string()) {
            return Err(Box::new(Error::invalid(&path.child(name), given.clone(), "must be a string")));
        }
    }
    metadata(map).map_err(|(given, message)| Box::new(Error::invalid(&path.child("metadata"), given, message)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn coerced(value: Value) -> Result<Value, String> {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        }}}});
        let schema = Schema::from_crd(&schema, false, &Path::root()).expect("a sound schema");
        let mut value = value;
        coerce(&schema, &mut value).map(|()| value).map_err(|error| error.to_string())
    }

    #[test]
    fn metadata_that_no_client_could_read_is_refused() {
        let cases = [
            (
                json!({"metadata": {"labels": {"a": 1}}}),
                "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
            ),
            (json!({"metadata": "x"}), "json: cannot unmarshal string into Go value of type v1.ObjectMeta"),
            (json!({"spec": {"pod": {"kind": 5}}}), "spec.pod.kind: Invalid value: 5: must be a string"),
            (
                json!({"spec": {"pod": {"metadata": {"name": 5}}}}),
                "spec.pod.metadata: Invalid value: {\"name\":5}: json: cannot unmarshal number into Go struct field ObjectMeta.name of type string",
            ),
        ];
        for (value, message) in cases {
            assert_eq!(coerced(value), Err(message.to_owned()));
        }
    }

    #[test]
    fn metadata_is_kept_in_one_form() {
        let value = json!({"metadata": {"name": "a", "labels": null, "creationTimestamp": null, "annotations": {}},
            "spec": {"pod": {"kind": "Pod", "metadata": {"finalizers": null, "name": "b"}, "spec": {"any": null}}}});
        let kept = json!({"metadata": {"name": "a"},
            "spec": {"pod": {"kind": "Pod", "metadata": {"name": "b"}, "spec": {"any": null}}}});
        assert_eq!(coerced(value), Ok(kept));
    }
}
