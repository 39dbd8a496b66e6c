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
fn a_definition_that_is_not_structural_says_where() {
    let cases = [
        (json!({}), "spec.validation.openAPIV3Schema.type: Required value: must not be empty at the root"),
        (
            json!({"type": "object", "properties": {"spec": {}}}),
            "spec.validation.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object fields",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array"}}}),
            "spec.validation.openAPIV3Schema.properties[a].items: Required value: must be specified",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "int"}}}),
            "spec.validation.openAPIV3Schema.properties[a].type: Unsupported value: \"int\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            "spec.validation.openAPIV3Schema.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
        ),
    ];
    for (schema, message) in cases {
        assert_eq!(errors(schema), [message]);
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
