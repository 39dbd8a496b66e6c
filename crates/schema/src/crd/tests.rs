//! Which definitions are taken, and what their schemas then say.

use super::*;
use serde_json::json;

fn errors(schema: Value) -> Vec<String> {
    let base = Path::new("spec").child("validation").child("openAPIV3Schema");
    match Schema::from_crd(&schema, false, &base) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn a_custom_type_has_the_metadata_of_every_resource() {
    let schema = Schema::from_crd(&json!({"type": "object"}), false, &Path::root()).expect("a sound schema");
    assert!(
        schema
            .at(&["metadata", "ownerReferences"])
            .is_some_and(|owners| matches!(owners.root().list_type, ListType::Map(_)))
    );
    assert!(schema.at(&["kind"]).is_some());
    assert!(schema.at(&["spec"]).is_none());
}

#[test]
fn a_schema_without_end_is_refused_and_not_followed() {
    let mut schema = json!({"type": "string"});
    for _ in 0..400 {
        schema = json!({"type": "object", "properties": {"a": schema}});
    }
    assert_eq!(errors(schema).len(), 1);
}
