//! Which schemas may be defined, and what their authors are told otherwise.

use super::*;
use serde_json::json;

fn told_with(schema: &Value, has_status: bool, strictness: Strictness) -> Vec<String> {
    check(schema, has_status, strictness, &Path::new("s")).iter().map(ToString::to_string).collect()
}

fn told(schema: &Value) -> Vec<String> {
    told_with(schema, false, Strictness::EVERYTHING)
}

/// A definition with one field.
fn with_field(field: Value) -> Value {
    json!({"type": "object", "properties": {"a": field}})
}

fn assert_told(cases: Vec<(Value, Vec<&str>)>) {
    for (schema, wanted) in cases {
        assert_eq!(told(&schema), wanted, "{schema}");
    }
}

/// The same for a field of a definition; messages start behind its path.
fn assert_field_told(cases: Vec<(Value, Vec<&str>)>) {
    for (field, wanted) in cases {
        let wanted: Vec<String> = wanted.iter().map(|rest| format!("s.properties[a]{rest}")).collect();
        assert_eq!(told(&with_field(field.clone())), wanted, "{field}");
    }
}

#[test]
fn every_value_has_a_type() {
    assert_told(vec![
        (json!({"type": "object"}), vec![]),
        (json!({}), vec!["s.type: Required value: must not be empty at the root"]),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            vec!["s.type: Invalid value: \"array\": must be object at the root"],
        ),
        (json!({"x-kubernetes-preserve-unknown-fields": true}), vec![]),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            vec!["s.additionalProperties: Forbidden: must not be used at the root"],
        ),
        (
            json!({"type": "object", "nullable": true}),
            vec!["s.nullable: Forbidden: nullable cannot be true at the root"],
        ),
        (
            json!({"type": "object", "$schema": "x"}),
            vec!["s: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported"],
        ),
    ]);
    assert_field_told(vec![
        (json!({}), vec![".type: Required value: must not be empty for specified object fields"]),
        (json!({"type": "array"}), vec![".items: Required value: must be specified"]),
        (
            json!({"type": "array", "items": {}}),
            vec![".items.type: Required value: must not be empty for specified array items"],
        ),
        (
            json!({"type": "object", "additionalProperties": {}}),
            vec![".additionalProperties.type: Required value: must not be empty for specified object fields"],
        ),
        (json!({"x-kubernetes-int-or-string": true}), vec![]),
        (json!({"x-kubernetes-preserve-unknown-fields": true}), vec![]),
        (
            json!({"type": "int"}),
            vec![
                ".type: Unsupported value: \"int\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
            ],
        ),
        (
            json!({"type": "null"}),
            vec![
                ".type: Unsupported value: \"null\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
                ".type: Forbidden: type cannot be set to null, use nullable as an alternative",
            ],
        ),
        (json!({"type": "object", "additionalProperties": true}), vec![]),
        (json!({"type": "object", "additionalProperties": false}), vec![]),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}, "properties": {"b": {"type": "string"}}}),
            vec![".additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
        ),
        (
            json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}}),
            vec![
                ".uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            ],
        ),
        (
            json!({"type": "array", "items": [{"type": "string"}]}),
            vec![".items: Forbidden: items must be a schema object and not an array"],
        ),
        (json!({"type": "string", "$ref": "x"}), vec![".$ref: Forbidden: $ref is not supported"]),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}),
            vec![".x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"],
        ),
        (json!({"type": "string", "format": "no-such-format"}), vec![]),
        (json!({"type": "string", "enum": ["a", "a"]}), vec![]),
        (json!({"type": "integer", "minimum": 3, "maximum": 1}), vec![]),
    ]);
    let broken = told(&with_field(json!({"type": "string", "pattern": "("})));
    assert_eq!(broken.len(), 1);
    assert!(
        broken[0].starts_with(
            "s.properties[a].pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: "
        ),
        "{broken:?}"
    );
}

#[test]
fn alternatives_narrow_what_is_declared_and_declare_nothing() {
    assert_field_told(vec![
        (
            json!({"type": "object", "properties": {"b": {"type": "string"}}, "anyOf": [{"required": ["b"], "properties": {"b": {"minLength": 1}}}]}),
            vec![],
        ),
        (
            json!({"type": "string", "allOf": [{"type": "string", "description": "x", "title": "t", "default": "d", "nullable": true}]}),
            vec![
                ".allOf[0].default: Forbidden: must be undefined to be structural",
                ".allOf[0].description: Forbidden: must be empty to be structural",
                ".allOf[0].nullable: Forbidden: must be false to be structural",
                ".allOf[0].title: Forbidden: must be empty to be structural",
                ".allOf[0].type: Forbidden: must be empty to be structural",
            ],
        ),
        (
            json!({"type": "object", "not": {"additionalProperties": {}, "x-kubernetes-preserve-unknown-fields": true}}),
            vec![
                ".not.additionalProperties: Forbidden: must be undefined to be structural",
                ".not.x-kubernetes-preserve-unknown-fields: Forbidden: must be false to be structural",
            ],
        ),
        (json!({"type": "object", "oneOf": [{"properties": {"b": {"minLength": 1}}}]}), vec![]),
        (json!({"type": "object", "anyOf": [{"items": {"minLength": 1}}]}), vec![]),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object"}}, "anyOf": [{"properties": {"metadata": {"minProperties": 1}}}]}),
            vec![".anyOf[0].properties[metadata]: Forbidden: must not be specified in a nested context"],
        ),
    ]);
    // Whether what they narrow is declared is asked of the root alone, as the API has it.
    assert_told(vec![(
        json!({"type": "object", "anyOf": [{"properties": {"spec": {"minProperties": 1}}}]}),
        vec!["s.properties[spec]: Required value: because it is defined in s.anyOf[0].properties[spec]"],
    )]);
}

#[test]
fn an_integer_or_a_string_is_written_in_one_of_two_ways() {
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    assert_field_told(vec![
        (json!({"x-kubernetes-int-or-string": true, "anyOf": either}), vec![]),
        (json!({"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": either}, {"pattern": "x"}]}), vec![]),
        (
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "string"}, {"type": "integer"}]}),
            vec![
                ".anyOf[0].type: Forbidden: must be empty to be structural",
                ".anyOf[1].type: Forbidden: must be empty to be structural",
            ],
        ),
        (
            json!({"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true}),
            vec![
                ".x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if x-kubernetes-int-or-string is true",
            ],
        ),
    ]);
}

#[test]
fn metadata_is_the_servers() {
    let metadata = |metadata: Value| json!({"type": "object", "properties": {"metadata": metadata}});
    let forbidden = "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified";
    assert_told(vec![
        (metadata(json!({"type": "object"})), vec![]),
        (metadata(json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}})), vec![]),
        (metadata(json!({"type": "object", "properties": {"labels": {"type": "object"}}})), vec![forbidden]),
        (metadata(json!({"type": "object", "required": ["name"]})), vec![forbidden]),
        (
            metadata(json!({"type": "object", "default": {}})),
            vec!["s.properties[metadata].default: Forbidden: must not be set in top-level metadata"],
        ),
        (
            metadata(json!({"type": "string"})),
            vec!["s.properties[metadata].type: Invalid value: \"string\": must be object"],
        ),
        (
            json!({"type": "object", "properties": {"kind": {"type": "integer"}}}),
            vec!["s.properties[kind].type: Invalid value: \"integer\": must be string"],
        ),
    ]);
}

#[test]
fn an_embedded_resource_is_an_object_with_fields() {
    assert_field_told(vec![
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            vec![],
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true}),
            vec![
                ".properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
            ],
        ),
        (
            json!({"type": "string", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            vec![".type: Invalid value: \"string\": must be object if x-kubernetes-embedded-resource is true"],
        ),
        (
            json!({"x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            vec![".type: Required value: must be object if x-kubernetes-embedded-resource is true"],
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true, "additionalProperties": true}),
            vec![".additionalProperties: Forbidden: must not be used if x-kubernetes-embedded-resource is set"],
        ),
    ]);
}

#[test]
fn lists_and_maps_say_how_they_are_merged() {
    let of = |items: Value| json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"], "items": items});
    assert_field_told(vec![
        (of(json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "string"}}})), vec![]),
        (of(json!({"type": "object", "properties": {"n": {"type": "string", "default": "x"}}})), vec![]),
        (
            of(json!({"type": "object", "properties": {"n": {"type": "string", "nullable": true}}})),
            vec![
                ".items.properties[n].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
                ".items.properties[n].nullable: Forbidden: this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
            ],
        ),
        (
            of(json!({"type": "object", "nullable": true, "required": ["n"], "properties": {"n": {"type": "object"}}})),
            vec![
                ".items.properties[n].type: Invalid value: \"object\": must be a scalar type if parent array's x-kubernetes-list-type is map",
                ".items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is map",
            ],
        ),
        (
            of(json!({"type": "object", "properties": {"m": {"type": "string"}}})),
            vec![".x-kubernetes-list-map-keys: Invalid value: [\"n\"]: entries must all be names of item properties"],
        ),
        (
            of(json!({"type": "string"})),
            vec![
                ".items.type: Invalid value: \"string\": must be object if parent array's x-kubernetes-list-type is map",
            ],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}}),
            vec![".x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n", "n"],
                "items": {"type": "object", "required": ["n"], "properties": {"n": {"type": "string"}}}}),
            vec![".x-kubernetes-list-map-keys: Invalid value: [\"n\",\"n\"]: must not contain duplicate entries"],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-map-keys": ["n"], "items": {"type": "string"}}),
            vec![".x-kubernetes-list-type: Required value: must be map if x-kubernetes-list-map-keys is non-empty"],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "bag", "items": {"type": "string"}}),
            vec![".x-kubernetes-list-type: Unsupported value: \"bag\": supported values: \"atomic\", \"map\", \"set\""],
        ),
        (
            json!({"type": "object", "x-kubernetes-list-type": "set"}),
            vec![".type: Invalid value: \"object\": must be array if x-kubernetes-list-type is specified"],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}}),
            vec![
                ".items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
            ],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object", "x-kubernetes-map-type": "atomic"}}),
            vec![],
        ),
        (
            json!({"type": "string", "x-kubernetes-map-type": "loose"}),
            vec![
                ".type: Invalid value: \"string\": must be object if x-kubernetes-map-type is specified",
                ".x-kubernetes-map-type: Unsupported value: \"loose\": supported values: \"atomic\", \"granular\"",
            ],
        ),
    ]);
}

#[test]
fn a_default_is_a_value_of_its_schema() {
    assert_field_told(vec![
        (json!({"type": "string", "default": "x"}), vec![]),
        (json!({"type": "string", "default": null}), vec![]),
        (
            json!({"type": "string", "default": 5}),
            vec![".default: Invalid value: \"integer\":  in body must be of type string: \"integer\""],
        ),
        (
            json!({"type": "integer", "default": 5, "minimum": 6}),
            vec![".default: Invalid value: 5:  in body should be greater than or equal to 6"],
        ),
        (
            json!({"type": "string", "enum": ["a"], "default": "b"}),
            vec![".default: Unsupported value: \"b\": supported values: \"a\""],
        ),
        (
            json!({"type": "object", "default": {"b": 1, "c": 2}, "properties": {"b": {"type": "string"}}}),
            vec![
                ".default: Invalid value: {\"b\":1,\"c\":2}: must not have unknown fields",
                ".default.b: Invalid value: \"integer\": b in body must be of type string: \"integer\"",
            ],
        ),
        (
            json!({"type": "object", "default": {"b": null}, "properties": {"b": {"type": "string"}}}),
            vec![".default.b: Invalid value: \"null\": b in body must be of type string: \"null\""],
        ),
        (
            json!({"type": "object", "default": {"b": null}, "properties": {"b": {"type": "string", "nullable": true}}}),
            vec![],
        ),
        (json!({"type": "object", "default": {}, "required": ["b"]}), vec![".default.b: Required value"]),
        (
            json!({"type": "array", "items": {"type": "integer", "default": "x"}}),
            vec![".items.default: Invalid value: \"string\":  in body must be of type integer: \"string\""],
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true, "default": {"kind": "A"}}),
            vec![".default.apiVersion: Required value"],
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
                "metadata": {"type": "object", "properties": {"name": {"type": "string", "default": "a/b"}}}}}),
            vec![
                ".properties[metadata].properties[name].default: Invalid value: \"a/b\": must result in valid metadata: metadata.name: Invalid value: \"a/b\": may not contain '/'",
            ],
        ),
    ]);
}

#[test]
fn the_root_says_nothing_about_a_status_that_is_written_on_its_own() {
    let told = |schema: Value| told_with(&schema, true, Strictness::EVERYTHING);
    assert!(told(json!({"type": "object", "required": ["spec"], "description": "x"})).is_empty());
    let refused = told(json!({"type": "object", "maxProperties": 3}));
    assert_eq!(refused.len(), 1);
    assert!(refused[0].ends_with("fields are allowed at the root of the schema if the status subresource is enabled"));
}

#[test]
fn rules_are_written_down_in_full() {
    let rules = |rule: Value| json!({"type": "object", "properties": {"b": {"type": "string"}}, "x-kubernetes-validations": [rule]});
    assert_field_told(vec![
        (rules(json!({"rule": "true", "fieldPath": ".b", "reason": "FieldValueInvalid"})), vec![]),
        (rules(json!({"rule": " "})), vec![".x-kubernetes-validations[0].rule: Required value: rule is not specified"]),
        (
            rules(json!({"rule": "true", "fieldPath": ".c"})),
            vec![".x-kubernetes-validations[0].fieldPath: Invalid value: \".c\": must be a valid path"],
        ),
        (
            rules(json!({"rule": "true\n", "reason": "Odd"})),
            vec![
                ".x-kubernetes-validations[0].reason: Unsupported value: \"Odd\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\"",
            ],
        ),
    ]);
}

#[test]
fn what_is_stored_is_not_asked_for_more() {
    let loose = with_field(json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}}));
    let strictness = Strictness::of_stored([&loose].into_iter());
    assert_eq!(strictness, Strictness { atomic_set_items: false, ..Strictness::EVERYTHING });
    assert!(told_with(&loose, false, strictness).is_empty());
    let untyped = with_field(json!({"description": "x"}));
    let strictness = Strictness::of_stored([&untyped].into_iter());
    assert!(!strictness.structural && told_with(&untyped, false, strictness).is_empty());
    let unpruned = with_field(json!({"type": "object", "default": {"b": 1}}));
    let strictness = Strictness::of_stored([&unpruned].into_iter());
    assert!(!strictness.pruned_defaults && told_with(&unpruned, false, strictness).is_empty());
    let keyless =
        with_field(json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
        "items": {"type": "object", "properties": {"n": {"type": "string"}}}}));
    let strictness = Strictness::of_stored([&keyless].into_iter());
    assert!(!strictness.keys_of_map_lists && told_with(&keyless, false, strictness).is_empty());
    let sound = with_field(json!({"type": "string"}));
    assert_eq!(Strictness::of_stored([&sound].into_iter()), Strictness::EVERYTHING);
}

#[test]
fn fields_are_found_by_their_path() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "port": {"type": "string"}, "labels": {"type": "object", "additionalProperties": {"type": "string"}}}}}});
    let found = |path: &str| at_field_path(&schema, path).map(|found| (found.names.join("/"), found.value_type));
    assert_eq!(found(".spec.port"), Ok(("spec/port".to_owned(), "string")));
    assert_eq!(found(".spec.labels.x"), Ok(("spec/labels/x".to_owned(), "string")));
    assert_eq!(found(".spec.mast"), Err(FieldPathError::NoSuchField));
    assert_eq!(found(".spec.port.deep"), Err(FieldPathError::NoSuchField));
    assert_eq!(found("spec.port"), Err(FieldPathError::NoStep("spec".to_owned())));
    assert_eq!(found(".spec['port']"), Err(FieldPathError::ArrayNotation));
    assert_eq!(found(".spec."), Err(FieldPathError::End));
}

#[test]
fn formats_that_mean_nothing_are_found() {
    let schema = with_field(json!({"type": "string", "format": "zip"}));
    assert_eq!(unrecognized_formats(&schema), ["zip"]);
    assert!(unrecognized_formats(&with_field(json!({"type": "integer", "format": "int64"}))).is_empty());
}
