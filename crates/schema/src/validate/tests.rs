//! What a user is told about a custom object that does not fit its definition.

use super::*;
use crate::Schema;
use serde_json::json;

fn told(spec: Value, value: Value) -> Vec<String> {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let schema = Schema::from_crd(&schema, false, &Path::root()).expect("a sound schema");
    validate(&schema, &json!({"spec": value}), None).iter().map(ToString::to_string).collect()
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

#[test]
fn numbers_are_held_by_their_format() {
    let nowhere = |detail: &str| format!("<nil>: Invalid value: \"\": {detail}");
    let cases = [
        (json!({"type": "integer", "format": "int32"}), json!(2_147_483_647), vec![]),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(2_147_483_648_i64),
            vec![nowhere("Checked value must be of type integer with format int32 in spec.x")],
        ),
        (json!({"type": "integer", "format": "int64"}), json!(i64::MAX), vec![]),
        (json!({"type": "integer"}), json!(3.0), vec![]),
        (
            json!({"type": "integer"}),
            json!(3.5),
            vec![
                "spec.x: Invalid value: \"number\": spec.x in body must be of type integer: \"number\"".to_owned(),
                nowhere("Checked value must be of type integer (default format) in spec.x"),
            ],
        ),
        (
            json!({"type": "number", "format": "float"}),
            json!(1e39),
            vec![nowhere("Checked value must be of type number with format float in spec.x")],
        ),
        (json!({"type": "number", "format": "double"}), json!(1e39), vec![]),
        (
            json!({"type": "integer", "format": "int32", "maximum": 3_000_000_000_i64}),
            json!(1),
            vec![nowhere("Maximum boundary value must be of type integer with format int32 in spec.x")],
        ),
        (json!({"type": "string", "format": "int32"}), json!("x"), vec![]),
        (json!({"type": "number", "multipleOf": 0.5}), json!(1.5), vec![]),
        (
            json!({"type": "number", "multipleOf": 0.5}),
            json!(3),
            vec!["spec.x: Invalid value: 0: factor MultipleOf declared for spec.x must be positive: 0".to_owned()],
        ),
    ];
    for (schema, value, wanted) in cases {
        assert_eq!(property(schema.clone(), value), wanted, "{schema}");
    }
}

#[test]
fn null_is_a_value_only_where_it_may_be() {
    let null = |schema: Value| property(schema, json!(null));
    assert!(null(json!({"type": "string", "nullable": true})).is_empty());
    assert!(null(json!({"x-kubernetes-preserve-unknown-fields": true})).is_empty());
    assert_eq!(
        null(json!({"type": "string", "nullable": true, "enum": ["a"]})),
        ["spec.x: Unsupported value: null: supported values: \"a\""]
    );
}

#[test]
fn every_schema_of_all_of_has_to_hold() {
    let schema = json!({"type": "string", "allOf": [{"minLength": 2}, {"maxLength": 3}]});
    assert!(property(schema.clone(), json!("abc")).is_empty());
    assert_eq!(
        property(schema, json!("a")),
        [
            "spec.x: Invalid value: \"a\": spec.x in body should be at least 2 chars long",
            "<nil>: Invalid value: \"\": \"spec.x\" must validate all the schemas (allOf)",
        ]
    );
    let closed = json!({"type": "object", "additionalProperties": false});
    assert_eq!(
        property(closed, json!({"y": 1})),
        ["spec.x: Invalid value: \"y\": spec.x.y in body is a forbidden property"]
    );
}

#[test]
fn an_embedded_resource_says_what_it_is() {
    let schema =
        json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    let sound = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"b": "c"}}});
    assert!(property(schema.clone(), sound).is_empty());
    let cases = [
        (json!({}), vec!["spec.x.apiVersion: Required value", "spec.x.kind: Required value"]),
        (
            json!({"apiVersion": "a/b/c", "kind": ""}),
            vec![
                "spec.x.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
                "spec.x.kind: Invalid value: \"\": must not be empty",
            ],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": ".."}}),
            vec!["spec.x.metadata.name: Invalid value: \"..\": may not be '..'"],
        ),
        (json!({"apiVersion": 5, "kind": "Pod"}), vec!["spec.x.apiVersion: Invalid value: 5: must be a string"]),
    ];
    for (value, wanted) in cases {
        assert_eq!(property(schema.clone(), value.clone()), wanted, "{value}");
    }
}

#[test]
fn an_update_is_not_refused_for_what_was_wrong_before() {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "port": {"type": "integer", "maximum": 9},
            "name": {"type": "string"},
            "plain": {"type": "array", "items": {"type": "integer", "maximum": 9}},
            "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
                "items": {"type": "object", "required": ["n"], "properties": {"n": {"type": "string"}, "m": {"type": "integer", "maximum": 9}}}},
        }},
        "status": {"type": "object", "properties": {"phase": {"type": "string", "maxLength": 1}, "turn": {"type": "integer"}}},
    }});
    let schema = Schema::from_crd(&schema, false, &Path::root()).expect("a sound schema");
    let told = |old: Value, new: Value| -> Vec<String> {
        let (old, new) = (json!({"spec": old}), json!({"spec": new}));
        validate(&schema, &new, Some(&old)).iter().map(|error| error.field.to_string()).collect()
    };
    let wrong = json!({"port": 99, "name": "a", "plain": [99], "keyed": [{"n": "a", "m": 99}]});
    let with = |name: &str, value: Value| {
        let mut changed = wrong.clone();
        changed[name] = value;
        changed
    };
    assert!(told(wrong.clone(), with("name", json!("b"))).is_empty());
    assert_eq!(told(wrong.clone(), with("port", json!(98))), ["spec.port"]);
    assert_eq!(told(wrong.clone(), with("plain", json!([99, 1]))), ["spec.plain[0]"]);
    assert!(told(wrong.clone(), with("keyed", json!([{"n": "b"}, {"n": "a", "m": 99}]))).is_empty());
    assert_eq!(
        told(wrong.clone(), with("keyed", json!([{"n": "a", "m": 99}, {"n": "b", "m": 98}]))),
        ["spec.keyed[1].m"]
    );
    // A list that was wrong may stay wrong.
    let twice = |m: i64| json!([{"n": "a", "m": m}, {"n": "a"}]);
    assert!(told(with("keyed", twice(1)), with("keyed", twice(2))).is_empty());
    assert_eq!(told(wrong.clone(), with("keyed", twice(2))), ["spec.keyed[1]"]);
    // A status is checked by itself, and named from there.
    let status = |phase: &str, turn: i64| json!({"spec": wrong, "status": {"phase": phase, "turn": turn}});
    assert!(validate_status(&schema, &status("long", 2), &status("long", 1)).is_empty());
    let refused = validate_status(&schema, &status("longer", 2), &status("long", 1));
    assert_eq!(
        refused.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["status.phase: Too long: may not be more than 1 byte"]
    );
}
