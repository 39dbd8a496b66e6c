//! What a user is told about a custom object that does not fit its definition.

use super::*;
use serde_json::json;

fn told(spec: Value, value: Value) -> Vec<String> {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let schema = Schema::from_crd(&schema, false, &Path::root()).expect("a sound schema");
    validate(&schema, &json!({"spec": value})).iter().map(ToString::to_string).collect()
}

fn property(schema: Value, value: Value) -> Vec<String> {
    told(json!({"type": "object", "properties": {"x": schema}}), json!({"x": value}))
}

#[test]
fn each_rule_speaks_in_the_words_of_the_api() {
    let cases = [
        (
            json!({"type": "integer"}),
            json!("a"),
            "spec.x: Invalid value: \"string\": spec.x in body must be of type integer: \"string\"",
        ),
        (
            json!({"type": "string"}),
            json!(null),
            "spec.x: Invalid value: \"null\": spec.x in body must be of type string: \"null\"",
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!(true),
            "spec.x: Invalid value: \"boolean\": spec.x in body must be of type integer,string: \"boolean\"",
        ),
        (
            json!({"type": "integer", "minimum": 1}),
            json!(0),
            "spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1",
        ),
        (
            json!({"type": "integer", "maximum": 5, "exclusiveMaximum": true}),
            json!(5),
            "spec.x: Invalid value: 5: spec.x in body should be less than 5",
        ),
        (
            json!({"type": "integer", "multipleOf": 3}),
            json!(4),
            "spec.x: Invalid value: 4: spec.x in body should be a multiple of 3",
        ),
        (
            json!({"type": "string", "pattern": "^a+$"}),
            json!("b"),
            "spec.x: Invalid value: \"b\": spec.x in body should match '^a+$'",
        ),
        (
            json!({"type": "string", "minLength": 3}),
            json!("b"),
            "spec.x: Invalid value: \"b\": spec.x in body should be at least 3 chars long",
        ),
        (json!({"type": "string", "maxLength": 1}), json!("bb"), "spec.x: Too long: may not be more than 1 byte"),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!("c"),
            "spec.x: Unsupported value: \"c\": supported values: \"a\", \"b\"",
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            json!("now"),
            "spec.x: Invalid value: \"now\": spec.x in body must be of type date-time: \"now\"",
        ),
        (
            json!({"type": "array", "minItems": 1, "items": {"type": "string"}}),
            json!([]),
            "spec.x: Invalid value: 0: spec.x in body should have at least 1 items",
        ),
        (
            json!({"type": "array", "maxItems": 1, "items": {"type": "string"}}),
            json!(["a", "b"]),
            "spec.x: Too many: 2: must have at most 1 item",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
            json!(["a", "a"]),
            "spec.x[1]: Duplicate value: \"a\"",
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
                "items": {"type": "object", "properties": {"n": {"type": "string"}}}}),
            json!([{"n": "a"}, {"n": "a"}]),
            "spec.x[1]: Duplicate value: {\"n\":\"a\"}",
        ),
        (json!({"type": "object", "required": ["y"]}), json!({}), "spec.x.y: Required value"),
        (
            json!({"type": "array", "items": {"type": "object", "required": ["y"]}}),
            json!([{}]),
            "spec.x[0].y: Required value",
        ),
    ];
    for (schema, value, message) in cases {
        assert_eq!(property(schema, value), [message]);
    }
}

#[test]
fn alternatives_tell_which_came_closest() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    let none = told(schema.clone(), json!({}));
    assert_eq!(
        none,
        [
            "<nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found none valid",
            "spec.a: Required value",
        ]
    );
    let both = told(schema.clone(), json!({"a": "", "b": ""}));
    assert_eq!(
        both,
        [
            "<nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found 2 valid alternatives"
        ]
    );
    assert!(told(schema, json!({"a": ""})).is_empty());
}

#[test]
fn a_sound_object_passes() {
    let schema = json!({"type": "object", "required": ["schedule"], "properties": {
        "schedule": {"type": "string", "format": "date-time"},
        "command": {"type": "string", "nullable": true},
        "share": {"type": "number", "minimum": 0, "maximum": 1},
    }});
    let value = json!({"schedule": "2026-01-01T00:00:00Z", "command": null, "share": 0.5});
    assert!(told(schema, value).is_empty());
}
