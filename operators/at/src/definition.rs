//! How a cluster learns of the kind: the types of both versions, written as a CustomResourceDefinition.
//!
//! `at-operator crd` prints it; `manifests/crd.yaml` is that, and a test keeps it so. The second version is not served until there is
//! a webhook that converts it ([`crate::webhooks`]).

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube::core::crd::merge_crds;
use serde_json::{Value, json};

use crate::types::{At, v1beta1};

/// The version in which Ats are stored, which is the one that the operator works with.
const STORED: &str = "v1alpha1";

/// Why the definition cannot be made: a bug in the types.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    #[error("the versions do not go together: {0}")]
    Versions(#[from] kube::core::crd::MergeError),
    #[error("the definition cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// The definition, with what Rust's types cannot say: either containers or the short form, and which lists have keys.
pub fn definition() -> Result<CustomResourceDefinition, DefinitionError> {
    let mut merged = merge_crds(vec![At::crd(), v1beta1::At::crd()], STORED)?;
    merged.spec.versions.iter_mut().for_each(|version| version.served = version.name == STORED);
    let mut definition = serde_json::to_value(merged)?;
    for version in definition["spec"]["versions"].as_array_mut().into_iter().flatten() {
        let (when, run) = match version["name"].as_str() {
            Some(STORED) => ("schedule", "/properties/spec"),
            _ => ("time", "/properties/spec/properties/run"),
        };
        complete(&mut version["schema"]["openAPIV3Schema"], when, run);
    }
    Ok(serde_json::from_value(definition)?)
}

/// `run` is where containers and command stand.
fn complete(schema: &mut Value, when: &str, run: &str) {
    schema["description"] = json!("An At runs containers once, at a given time.");
    // The types can do without, because the webhook that fills it in is shown the object before.
    schema["properties"]["spec"]["required"] = json!([when]);
    if let Some(when) = schema.pointer_mut(&format!("/properties/spec/properties/{when}")) {
        when.as_object_mut().map(|when| when.remove("default"));
    }
    if let Some(run) = schema.pointer_mut(run) {
        run.as_object_mut().map(|run| run.remove("default"));
        run["oneOf"] = json!([{"required": ["containers"]}, {"required": ["command"]}]);
    }
    // One container, or one condition, can be applied without the others.
    for (list, key) in [
        (format!("{run}/properties/containers"), "name"),
        ("/properties/status/properties/conditions".to_owned(), "type"),
    ] {
        if let Some(list) = schema.pointer_mut(&list) {
            list["x-kubernetes-list-type"] = json!("map");
            list["x-kubernetes-list-map-keys"] = json!([key]);
            // Their fields are explained where Pods and conditions are.
            silence(&mut list["items"]);
        }
    }
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
