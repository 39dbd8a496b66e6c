//! How a cluster learns of the kind: the types, written as a CustomResourceDefinition.
//!
//! `at-operator crd` prints it; `manifests/crd.yaml` is that, and a test keeps it so.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::types::At;

const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema";

/// The definition, with what Rust's types cannot say: either containers or the short form, and which lists have keys.
pub fn definition() -> Result<CustomResourceDefinition, serde_json::Error> {
    let mut definition = serde_json::to_value(At::crd())?;
    if let Some(schema) = definition.pointer_mut(SCHEMA) {
        schema["description"] = json!("An At runs containers once, at a given time.");
        schema["properties"]["spec"]["oneOf"] = json!([{"required": ["containers"]}, {"required": ["command"]}]);
        // One container, or one condition, can be applied without the others.
        for (list, key) in
            [("/properties/spec/properties/containers", "name"), ("/properties/status/properties/conditions", "type")]
        {
            if let Some(list) = schema.pointer_mut(list) {
                list["x-kubernetes-list-type"] = json!("map");
                list["x-kubernetes-list-map-keys"] = json!([key]);
                // Their fields are explained where Pods and conditions are.
                silence(&mut list["items"]);
            }
        }
    }
    serde_json::from_value(definition)
}

fn silence(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("description").is_some_and(Value::is_string) {
                fields.remove("description");
            }
            fields.values_mut().for_each(silence);
        }
        Value::Array(items) => items.iter_mut().for_each(silence),
        _ => {}
    }
}
