//! OpenAPI v2, the older form, as JSON and as the protobuf in which kubectl asks for it: there it finds the kinds that can only
//! be created, such as a TokenReview.
//!
//! It is made from the documents of v3: what v2 cannot say is left out, which makes a schema wider, never narrower.

use serde_json::{Map, Value, json};

/// The name of the protobuf, and what clients call it that ask for it.
pub const ANSWERED: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
pub const ASKED: [&str; 2] = [ANSWERED, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"];

/// The whole document, from the schemas and paths of v3.
pub fn document(version: &str, schemas: Map<String, Value>, paths: Map<String, Value>) -> Value {
    let schemas: Map<String, Value> = schemas.into_iter().map(|(name, schema)| (name, older(&schema))).collect();
    let paths: Map<String, Value> = paths.into_iter().map(|(path, methods)| (path, older_methods(&methods))).collect();
    json!({"swagger": "2.0", "info": {"title": "Pintle", "version": version}, "paths": paths, "definitions": schemas})
}

/// Takes out of a custom schema what kubectl cannot cope with in v2: such a field may hold anything.
pub fn widen_root(schema: &mut Value) {
    if is_set(schema, "x-kubernetes-preserve-unknown-fields") {
        let mut bare = json!({"type": "object"});
        if let Some(kinds) = schema.get("x-kubernetes-group-version-kind") {
            bare["x-kubernetes-group-version-kind"] = kinds.clone();
        }
        *schema = bare;
        return;
    }
    widen(schema);
}

fn is_set(schema: &Value, flag: &str) -> bool {
    schema.get(flag).and_then(Value::as_bool).unwrap_or(false)
}

fn widen(schema: &mut Value) {
    let (nullable, preserves) = (is_set(schema, "nullable"), is_set(schema, "x-kubernetes-preserve-unknown-fields"));
    let Some(map) = schema.as_object_mut() else { return };
    // A reference that stands alone was not written by the definition: it leads from an object to its metadata.
    let refers =
        map.get("allOf").and_then(Value::as_array).is_some_and(|all| all.len() == 1 && all[0].get("$ref").is_some());
    for junctor in ["allOf", "anyOf", "oneOf", "not"].into_iter().filter(|junctor| !(refers && *junctor == "allOf")) {
        map.remove(junctor);
    }
    if nullable || preserves {
        map.remove("items");
        map.remove("properties");
    }
    let of_type = map.get("type").and_then(Value::as_str).unwrap_or_default();
    if nullable || (preserves && of_type == "object") || (of_type == "array" && !map.contains_key("items")) {
        map.remove("type");
    }
    map.remove("nullable");
    if let Some(properties) = map.get_mut("properties").and_then(Value::as_object_mut) {
        let nullable: Vec<String> =
            properties.iter().filter(|(_, p)| is_set(p, "nullable")).map(|(name, _)| name.clone()).collect();
        properties.values_mut().for_each(widen);
        if let Some(required) = map.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|name| !nullable.iter().any(|n| name == n));
        }
    }
    for key in ["items", "additionalProperties"] {
        map.get_mut(key).filter(|below| below.is_object()).map(widen);
    }
}

/// A schema as v2 writes it.
fn older(schema: &Value) -> Value {
    let Some(newer) = schema.as_object() else { return json!({}) };
    let mut older = Map::new();
    for (key, value) in newer {
        match key.as_str() {
            "$ref" => _ = older.insert(key.clone(), reference(value)),
            "properties" => {
                let properties = value.as_object().into_iter().flatten();
                older.insert(
                    key.clone(),
                    properties.map(|(name, schema)| (name.clone(), self::older(schema))).collect(),
                );
            }
            "items" => _ = older.insert(key.clone(), self::older(value)),
            "additionalProperties" if value.is_object() => _ = older.insert(key.clone(), self::older(value)),
            // A reference that has something to say beside it; v2 lets it stand there.
            "allOf" => {
                if let Some(only) = value.as_array().filter(|all| all.len() == 1).and_then(|all| all[0].get("$ref")) {
                    older.insert("$ref".to_owned(), reference(only));
                }
            }
            "oneOf" if !newer.contains_key("type") => _ = older.insert("type".to_owned(), "string".into()),
            known if known.starts_with("x-") || SCHEMA.iter().any(|(name, ..)| *name == known) => {
                older.insert(key.clone(), value.clone());
            }
            _ => {}
        }
    }
    Value::Object(older)
}

fn reference(newer: &Value) -> Value {
    newer.as_str().unwrap_or_default().replace("#/components/schemas/", "#/definitions/").into()
}

fn older_methods(methods: &Value) -> Value {
    let methods = methods.as_object().into_iter().flatten();
    methods.map(|(method, operation)| (method.clone(), older_operation(operation))).collect()
}

fn older_operation(newer: &Value) -> Value {
    let mut older = json!({"produces": ["application/json", "application/yaml"], "responses": {}});
    for (key, value) in newer.as_object().into_iter().flatten().filter(|(key, _)| key.starts_with("x-")) {
        older[key] = value.clone();
    }
    let mut parameters = Vec::new();
    for parameter in newer["parameters"].as_array().into_iter().flatten() {
        let mut parameter = parameter.clone();
        let schema = parameter.as_object_mut().and_then(|fields| fields.remove("schema")).unwrap_or_default();
        for (key, value) in schema.as_object().into_iter().flatten() {
            parameter[key] = value.clone();
        }
        parameters.push(parameter);
    }
    if let Some(content) = newer["requestBody"]["content"].as_object() {
        let schema = content.values().next().map(|body| self::older(&body["schema"])).unwrap_or_default();
        parameters.push(json!({"name": "body", "in": "body", "required": true, "schema": schema}));
        older["consumes"] = content.keys().map(String::as_str).collect();
    }
    older["parameters"] = parameters.into();
    for (code, response) in newer["responses"].as_object().into_iter().flatten() {
        let schema = self::older(&response["content"]["application/json"]["schema"]);
        older["responses"][code] = json!({"description": response["description"], "schema": schema});
    }
    older
}

/// How a value is written.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Flag,
    Whole,
    Number,
    Texts,
    /// Anything, as YAML.
    Any,
    Anys,
}

type Fields = &'static [(&'static str, u32, Form)];

/// The fields of a schema that are values of their own.
const SCHEMA: Fields = &[
    ("$ref", 1, Form::Text),
    ("format", 2, Form::Text),
    ("title", 3, Form::Text),
    ("description", 4, Form::Text),
    ("default", 5, Form::Any),
    ("multipleOf", 6, Form::Number),
    ("maximum", 7, Form::Number),
    ("exclusiveMaximum", 8, Form::Flag),
    ("minimum", 9, Form::Number),
    ("exclusiveMinimum", 10, Form::Flag),
    ("maxLength", 11, Form::Whole),
    ("minLength", 12, Form::Whole),
    ("pattern", 13, Form::Text),
    ("maxItems", 14, Form::Whole),
    ("minItems", 15, Form::Whole),
    ("uniqueItems", 16, Form::Flag),
    ("maxProperties", 17, Form::Whole),
    ("minProperties", 18, Form::Whole),
    ("required", 19, Form::Texts),
    ("enum", 20, Form::Anys),
    ("type", 22, Form::Text),
    ("readOnly", 27, Form::Flag),
];

const OPERATION: Fields = &[("produces", 6, Form::Texts), ("consumes", 7, Form::Texts)];
const BODY_PARAMETER: Fields = &[("name", 2, Form::Text), ("in", 3, Form::Text), ("required", 4, Form::Flag)];
const QUERY_PARAMETER: Fields =
    &[("in", 2, Form::Text), ("name", 4, Form::Text), ("type", 6, Form::Text), ("uniqueItems", 20, Form::Flag)];
const METHODS: [(&str, u32); 5] = [("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("patch", 8)];

/// The document as protobuf.
pub fn encode(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.fields(document, &[("swagger", 1, Form::Text)]);
    out.message(2, |info| info.fields(&document["info"], &[("title", 1, Form::Text), ("version", 2, Form::Text)]));
    out.message(8, |paths| paths.named(2, &document["paths"], path_item));
    out.message(9, |definitions| definitions.named(1, &document["definitions"], schema));
    out.0
}

fn path_item(out: &mut Message, methods: &Value) {
    for (method, tag) in METHODS {
        if let Some(operation) = methods.get(method) {
            out.message(tag, |out| self::operation(out, operation));
        }
    }
}

fn operation(out: &mut Message, operation: &Value) {
    out.fields(operation, OPERATION);
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        out.message(8, |item| {
            item.message(1, |one| match parameter.get("schema") {
                Some(body) => one.message(1, |out| {
                    out.fields(parameter, BODY_PARAMETER);
                    out.message(5, |out| schema(out, body));
                }),
                None => one.message(2, |other| other.message(3, |out| out.fields(parameter, QUERY_PARAMETER))),
            });
        });
    }
    out.message(9, |responses| {
        responses.named(1, &operation["responses"], |value, response| {
            value.message(1, |out| {
                out.fields(response, &[("description", 1, Form::Text)]);
                out.message(2, |item| item.message(1, |out| schema(out, &response["schema"])));
            });
        });
    });
    out.extensions(13, operation);
}

fn schema(out: &mut Message, value: &Value) {
    let own = SCHEMA.iter().filter(|(name, ..)| *name != "type");
    own.for_each(|field| out.fields(value, &[*field]));
    match value.get("additionalProperties") {
        Some(Value::Bool(any)) => out.message(21, |out| out.flag(2, *any)),
        Some(below) => out.message(21, |out| out.message(1, |out| schema(out, below))),
        None => {}
    }
    if let Some(name) = value.get("type") {
        out.message(22, |out| out.field(1, Form::Text, name));
    }
    if let Some(items) = value.get("items") {
        out.message(23, |out| out.message(1, |out| schema(out, items)));
    }
    if value.get("properties").is_some() {
        out.message(25, |out| out.named(1, &value["properties"], schema));
    }
    out.extensions(31, value);
}

#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 128 {
            self.0.push(number as u8 | 128);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn bytes(&mut self, tag: u32, bytes: &[u8]) {
        self.varint(u64::from(tag) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, tag: u32, write: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        write(&mut inner);
        self.bytes(tag, &inner.0);
    }

    fn flag(&mut self, tag: u32, flag: bool) {
        self.varint(u64::from(tag) << 3);
        self.varint(u64::from(flag));
    }

    fn any(&mut self, tag: u32, value: &Value) {
        // JSON is YAML.
        self.message(tag, |any| any.bytes(2, value.to_string().as_bytes()));
    }

    fn fields(&mut self, value: &Value, fields: &[(&str, u32, Form)]) {
        for (name, tag, form) in fields {
            if let Some(value) = value.get(name) {
                self.field(*tag, *form, value);
            }
        }
    }

    /// What has another form than it should is left out.
    fn field(&mut self, tag: u32, form: Form, value: &Value) {
        match (form, value) {
            (Form::Text, Value::String(text)) => self.bytes(tag, text.as_bytes()),
            (Form::Flag, Value::Bool(flag)) => self.flag(tag, *flag),
            (Form::Whole, Value::Number(number)) => {
                self.varint(u64::from(tag) << 3);
                self.varint(number.as_i64().unwrap_or_default() as u64);
            }
            (Form::Number, Value::Number(number)) => {
                self.varint(u64::from(tag) << 3 | 1);
                self.0.extend_from_slice(&number.as_f64().unwrap_or_default().to_le_bytes());
            }
            (Form::Texts, Value::Array(texts)) => {
                texts.iter().filter_map(Value::as_str).for_each(|text| self.bytes(tag, text.as_bytes()));
            }
            (Form::Any, value) => self.any(tag, value),
            (Form::Anys, Value::Array(values)) => values.iter().for_each(|value| self.any(tag, value)),
            _ => {}
        }
    }

    /// Entries with a name and a value.
    fn named(&mut self, tag: u32, entries: &Value, write: impl Fn(&mut Message, &Value)) {
        for (name, value) in entries.as_object().into_iter().flatten() {
            self.message(tag, |entry| {
                entry.bytes(1, name.as_bytes());
                entry.message(2, |out| write(out, value));
            });
        }
    }

    fn extensions(&mut self, tag: u32, value: &Value) {
        for (name, value) in value.as_object().into_iter().flatten().filter(|(name, _)| name.starts_with("x-")) {
            self.message(tag, |entry| {
                entry.bytes(1, name.as_bytes());
                entry.any(2, value);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_v2_cannot_say_is_left_out_and_references_stand_alone() {
        let newer = json!({
        "type": "object", "description": "d", "x-kubernetes-map-type": "atomic", "nullable": true, "required": ["a"],
        "properties": {
            "a": {"allOf": [{"$ref": "#/components/schemas/A"}], "default": {}},
            "q": {"oneOf": [{"type": "string"}, {"type": "number"}]},
            "l": {"type": "array", "items": {"$ref": "#/components/schemas/B"}},
            "m": {"type": "object", "additionalProperties": {"anyOf": [{}], "type": "integer", "format": "int32"}},
        }});
        let expected = json!({
        "type": "object", "description": "d", "x-kubernetes-map-type": "atomic", "required": ["a"],
        "properties": {
            "a": {"$ref": "#/definitions/A", "default": {}},
            "q": {"type": "string"},
            "l": {"type": "array", "items": {"$ref": "#/definitions/B"}},
            "m": {"type": "object", "additionalProperties": {"type": "integer", "format": "int32"}},
        }});
        assert_eq!(older(&newer), expected);
    }

    #[test]
    fn a_message_is_written_as_protobuf_says() {
        let mut out = Message::default();
        schema(&mut out, &json!({"type": "string", "maxLength": 300, "x-a": [1]}));
        let expected = [
            &[11 << 3, 0xac, 2][..],
            &[0xb2, 1, 8, 10, 6],
            b"string",
            &[0xfa, 1, 12, 10, 3],
            b"x-a",
            &[18, 5, 18, 3],
            b"[1]",
        ];
        assert_eq!(out.0, expected.concat());
    }
}
