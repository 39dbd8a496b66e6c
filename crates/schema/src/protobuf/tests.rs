//! What protobuf must not lose: every field of every built-in kind, there and back.

use super::envelope::{Body, list_item, list_metadata, open, tail};
use super::{ProtobufError, decode, encode};
use crate::builtin;
use crate::decode as json;
use crate::node::{Kind, NodeId, Schema, Tags};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Map, Value, json};

fn encoded(type_name: &str, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    encode(type_name, value.to_string().as_bytes(), &mut out).unwrap_or_else(|error| panic!("{type_name}: {error}"));
    out
}

/// Random values of a schema's types, by a seed.
struct Generator<'a> {
    schema: &'a Schema,
    state: u64,
}

impl Generator<'_> {
    fn below(&mut self, limit: u64) -> u64 {
        // xorshift64*: enough to vary values.
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) % limit
    }

    fn text(&mut self) -> String {
        const TEXTS: [&str; 6] = ["", "a", "web-0", "ünï\u{1F600}", "\"quoted\"\n\t\\", "kubernetes.io/metadata.name"];
        let text = TEXTS[self.below(6) as usize];
        // Some lengths take two bytes.
        if self.below(12) == 0 { text.repeat(40) } else { text.to_owned() }
    }

    fn number(&mut self, bits: u32) -> i64 {
        let number = self.below(u64::MAX) as i64;
        match self.below(4) {
            0 => 0,
            1 => number.rem_euclid(200) - 100,
            _ => number >> (64 - bits),
        }
    }

    /// Lists and maps are not empty: protobuf does not tell an empty list from none.
    fn value(&mut self, id: NodeId, depth: u32) -> Value {
        let node = self.schema.node(id);
        match &node.kind {
            Kind::Object { additional: Some(item), .. } => {
                let entries =
                    (0..1 + self.below(2)).map(|i| (format!("k{i}{}", self.text()), self.value(*item, depth + 1)));
                Value::Object(entries.collect())
            }
            Kind::Object { fields, .. } => {
                let mut map = Map::new();
                // The deeper, the sparser: some types hold themselves.
                for (name, field) in fields.iter() {
                    // The kind of an object stands in the envelope.
                    if field.tags != Tags::NONE && self.below(u64::from(2 + depth * depth)) < 2 {
                        map.insert(name.to_string(), self.value(field.node, depth + 1));
                    }
                }
                Value::Object(map)
            }
            Kind::List { items } => (0..1 + self.below(3)).map(|_| self.value(*items, depth + 1)).collect(),
            Kind::String | Kind::Duration => self.text().into(),
            Kind::Int32 => self.number(32).into(),
            Kind::Int64 | Kind::Integer => self.number(64).into(),
            // A whole number has no point, as in every JSON of the API.
            Kind::Number => match self.number(30) {
                eighths if eighths % 8 == 0 => (eighths / 8).into(),
                eighths => (eighths as f64 / 8.0).into(),
            },
            Kind::Bool => (self.below(2) == 0).into(),
            Kind::Bytes => ["", "AA==", "aGVsbG8=", "aGVsbG8h"][self.below(4) as usize].into(),
            Kind::IntOrString if self.below(2) == 0 => self.text().into(),
            Kind::IntOrString => self.number(32).into(),
            Kind::Quantity => ["0", "1500m", "64Mi", "1e3", "-5"][self.below(5) as usize].into(),
            Kind::Time => ["2026-01-02T03:04:05Z", "1969-12-31T23:59:59Z"][self.below(2) as usize].into(),
            Kind::MicroTime => {
                ["2026-01-02T03:04:05.000006Z", "1815-12-10T00:00:00.999999Z"][self.below(2) as usize].into()
            }
            Kind::Any => self.any(node.type_name.unwrap_or_default()),
        }
    }

    fn any(&mut self, type_name: &str) -> Value {
        let schema = json!({"type": "object", "maximum": 1.5, "properties": {"a": {"type": "string", "default": "x"}}});
        let other = match type_name {
            "apiextensions.v1.JSONSchemaPropsOrArray" => json!([schema.clone(), {"type": "string"}]),
            "apiextensions.v1.JSONSchemaPropsOrBool" => (self.below(2) == 0).into(),
            "apiextensions.v1.JSONSchemaPropsOrStringArray" => json!(["a", "b"]),
            "apiextensions.v1.JSON" => {
                return [json!(1), json!("x"), json!({"a": [null]}), json!(false)][self.below(4) as usize].clone();
            }
            _ => return json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}),
        };
        if self.below(2) == 0 { schema } else { other }
    }
}

/// A value as it is stored: in canonical form, with everything that the API always writes.
fn stored(schema: &Schema, value: Value) -> Value {
    let mut value = json::decode(schema, value).expect("the value fits its type").value;
    json::complete(schema, &mut value);
    value
}

fn check_round_trip(type_name: &str, seed: u64) {
    let schema = Schema::builtin(type_name).expect("the type is built in");
    let mut generator = Generator { schema: &schema, state: seed | 1 };
    let value = stored(&schema, generator.value(schema.root_id(), 0));
    let message = encoded(type_name, &value);
    let back = decode(type_name, &message).unwrap_or_else(|error| panic!("{type_name}: {error}"));
    assert_eq!(stored(&schema, back), value, "{type_name}, seed {seed}");
}

/// Every run tries the same cases.
const SEED: u64 = 16;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, rng_seed: RngSeed::Fixed(SEED), ..ProptestConfig::default() })]

    #[test]
    fn every_kind_goes_to_protobuf_and_back_unchanged(seed in any::<u64>()) {
        for type_name in builtin::type_names().filter(|name| builtin::is_top_level(name)) {
            check_round_trip(type_name, seed);
        }
    }

    #[test]
    fn broken_messages_are_refused_and_nothing_panics(seed in any::<u64>(), noise in proptest::collection::vec(any::<u8>(), 0..64)) {
        let schema = Schema::builtin("core.v1.Pod").expect("the table has pods");
        let mut generator = Generator { schema: &schema, state: seed | 1 };
        let value = stored(&schema, generator.value(schema.root_id(), 0));
        let mut message = encoded("core.v1.Pod", &value);
        for byte in &noise {
            let place = generator.below(message.len() as u64) as usize;
            message[place] = *byte;
            let _ = decode("core.v1.Pod", &message);
        }
        let _ = (decode("core.v1.Pod", &noise), open(&noise));
    }
}

#[test]
fn no_type_has_more_fields_than_the_encoder_has_bits() {
    for type_name in builtin::type_names() {
        let fields = match &Schema::builtin(type_name).expect("the type is built in").root().kind {
            Kind::Object { fields, .. } => fields.len(),
            _ => 0,
        };
        assert!(fields <= 64, "{type_name}");
    }
}

#[test]
fn a_config_map_reads_as_its_json() {
    let message =
        encoded("core.v1.ConfigMap", &json!({"metadata": {"name": "web"}, "data": {"a": "1"}, "immutable": false}));
    let value = decode("core.v1.ConfigMap", &message).unwrap();
    assert_eq!(value, json!({"metadata": {"name": "web"}, "data": {"a": "1"}, "immutable": false}));
}

#[test]
fn plain_values_are_always_written_and_pointers_only_when_they_are_set() {
    // host, ip as values; hostIP likewise; `hostPort` 0 is a value too.
    let port = encoded("core.v1.ContainerPort", &json!({"containerPort": 80}));
    assert_eq!(decode("core.v1.ContainerPort", &port).unwrap(), json!({"containerPort": 80}));
    assert_eq!(port, [0x18, 80, 0x2A, 0, 0x10, 0, 0x0A, 0, 0x22, 0]);
    let config_map = encoded("core.v1.ConfigMap", &json!({}));
    // Metadata with its seven plain values; no data, no `immutable`.
    assert_eq!(config_map[..2], [0x0A, config_map.len() as u8 - 2]);
}

#[test]
fn numbers_may_come_packed() {
    let packed = [0x22, 3, 1, 0x80, 1];
    assert_eq!(decode("core.v1.PodSecurityContext", &packed).unwrap(), json!({"supplementalGroups": [1, 128]}));
    let apart = [0x20, 1, 0x20, 0x80, 1];
    assert_eq!(decode("core.v1.PodSecurityContext", &apart).unwrap(), json!({"supplementalGroups": [1, 128]}));
}

#[test]
fn a_refusal_names_the_field() {
    let wrong = [0x12, 4, 0x12, 2, 0x0A, 0x7F];
    let error = decode("core.v1.Pod", &wrong).unwrap_err();
    assert_eq!(error, ProtobufError::Malformed { path: "spec.containers".into() });
    assert!(error.to_string().ends_with("at spec.containers"));
    assert!(decode("core.v1.Pod", &[0xFF; 20]).is_err());
    assert!(matches!(decode("version.Info", b""), Err(ProtobufError::UnknownType(_))));
}

#[test]
fn messages_do_not_nest_without_end() {
    // A schema in `not` of a schema.
    let mut schema = Vec::new();
    for _ in 0..200 {
        let mut outer = Vec::new();
        super::wire::put_bytes(&mut outer, 28, &schema);
        schema = outer;
    }
    assert_eq!(decode("apiextensions.v1.JSONSchemaProps", &schema), Err(ProtobufError::TooDeep));
}

#[test]
fn an_object_that_does_not_fit_its_type_writes_nothing() {
    let mut out = b"before".to_vec();
    for json in [r#"{"data":{"a":1}}"#, r#"{"metadata":[]}"#, r#"{"metadata":{}"#, "[]", r#"{"binaryData":{"a":"?"}}"#]
    {
        assert!(
            matches!(encode("core.v1.ConfigMap", json.as_bytes(), &mut out), Err(ProtobufError::Misfit(_))),
            "{json}"
        );
        assert_eq!(out, b"before");
    }
}

#[test]
fn the_envelope_says_what_is_inside() {
    let body = Body { api_version: "v1", kind: "ConfigMap", type_name: "core.v1.ConfigMap" };
    let object = json!({"metadata": {"name": "a"}, "data": {"k": "v".repeat(300)}});
    let mut out = Vec::new();
    body.seal(object.to_string().as_bytes(), &mut out).unwrap();
    let envelope = open(&out).unwrap();
    assert_eq!((envelope.api_version, envelope.kind), ("v1", "ConfigMap"));
    assert_eq!(decode("core.v1.ConfigMap", envelope.raw).unwrap(), object);
    assert!(matches!(open(b"{}"), Err(ProtobufError::NoMagic)));

    let mut event = Vec::new();
    body.event("ADDED", object.to_string().as_bytes(), &mut event).unwrap();
    assert_eq!(u32::from_be_bytes(event[..4].try_into().unwrap()) as usize, event.len() - 4);
    assert_eq!(event[4..11], *b"\x0A\x05ADDED");
    assert!(event.ends_with(&out));
}

#[test]
fn a_list_is_its_metadata_and_its_items() {
    let mut message = Vec::new();
    list_metadata(br#"{"resourceVersion":"7"}"#, &mut message).unwrap();
    for name in ["a", "b"] {
        let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}});
        list_item("core.v1.ConfigMap", object.to_string().as_bytes(), &mut message).unwrap();
    }
    let list = Body { api_version: "v1", kind: "ConfigMapList", type_name: "core.v1.ConfigMapList" };
    let mut body = Vec::new();
    list.list_head(message.len(), &mut body);
    body.extend_from_slice(&message);
    tail(&mut body);
    let envelope = open(&body).unwrap();
    let value = decode("core.v1.ConfigMapList", envelope.raw).unwrap();
    let expected = json!({"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]});
    assert_eq!(value, expected);
    let whole = Body { ..list };
    let mut sealed = Vec::new();
    whole.seal(expected.to_string().as_bytes(), &mut sealed).unwrap();
    assert_eq!(sealed.len(), body.len());
}
