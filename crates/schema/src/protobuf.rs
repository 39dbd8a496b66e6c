//! Kubernetes' protobuf on its way in: bytes become the JSON value they stand for, by the tags of the fact table.
//!
//! A body is an envelope (`k8s\0`, then a message with apiVersion, kind and the raw object). Fields that the table
//! does not know are skipped, as protobuf means them to be.

use crate::builtin::tagged_fields;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::OnceLock;

const MAGIC: &[u8] = b"k8s\0";
/// Deeper messages than this are refused: no type of the API is.
const DEEPEST: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    #[error("the body does not begin as a Kubernetes protobuf message does")]
    NoMagic,
    #[error("the protobuf message ends early or is malformed")]
    Malformed,
    #[error("the protobuf message is nested too deeply")]
    TooDeep,
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownType { api_version: String, kind: String },
}

/// What the envelope holds.
pub struct Envelope<'a> {
    pub api_version: String,
    pub kind: String,
    pub raw: &'a [u8],
}

/// Opens the envelope.
pub fn open(bytes: &[u8]) -> Result<Envelope<'_>, ProtobufError> {
    let message = bytes.strip_prefix(MAGIC).ok_or(ProtobufError::NoMagic)?;
    let mut envelope = Envelope { api_version: String::new(), kind: String::new(), raw: &[] };
    for field in Reader(message) {
        match field? {
            (1, Wire::Bytes(type_meta)) => {
                for field in Reader(type_meta) {
                    match field? {
                        (1, Wire::Bytes(text)) => envelope.api_version = utf8(text)?,
                        (2, Wire::Bytes(text)) => envelope.kind = utf8(text)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(raw)) => envelope.raw = raw,
            _ => {}
        }
    }
    Ok(envelope)
}

/// The message of a built-in type (`core.v1.Pod`) as JSON, without apiVersion and kind.
pub fn decode(type_name: &str, message: &[u8]) -> Result<Value, ProtobufError> {
    if !table().contains_key(type_name) {
        return Err(ProtobufError::UnknownType { api_version: String::new(), kind: type_name.to_owned() });
    }
    object(type_name, message, 0)
}

/// A field by its tag: a value, or a message whose fields stand in the parent's JSON object.
#[derive(Debug)]
enum Slot {
    Field { name: &'static str, shape: &'static str },
    Inline(BTreeMap<u32, Slot>),
}

type Table = BTreeMap<&'static str, BTreeMap<u32, Slot>>;

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = Table::new();
        for (type_name, name, tags, shape) in tagged_fields() {
            let tags: Vec<u32> = tags.split('.').filter_map(|tag| tag.parse().ok()).collect();
            insert(table.entry(type_name).or_default(), &tags, Slot::Field { name, shape });
        }
        table
    })
}

fn insert(slots: &mut BTreeMap<u32, Slot>, tags: &[u32], slot: Slot) {
    match tags {
        [] => {}
        [last] => {
            slots.insert(*last, slot);
        }
        [first, rest @ ..] => {
            if let Slot::Inline(inner) = slots.entry(*first).or_insert_with(|| Slot::Inline(BTreeMap::new())) {
                insert(inner, rest, slot);
            }
        }
    }
}

fn object(type_name: &str, message: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    if depth > DEEPEST {
        return Err(ProtobufError::TooDeep);
    }
    if let Some(value) = special(type_name, message, depth)? {
        return Ok(value);
    }
    let mut map = Map::new();
    if let Some(slots) = table().get(type_name) {
        fill(slots, message, &mut map, depth)?;
    }
    Ok(Value::Object(map))
}

fn fill(
    slots: &BTreeMap<u32, Slot>,
    message: &[u8],
    map: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), ProtobufError> {
    for field in Reader(message) {
        let (tag, wire) = field?;
        match (slots.get(&tag), wire) {
            (Some(Slot::Inline(inner)), Wire::Bytes(bytes)) => fill(inner, bytes, map, depth + 1)?,
            (Some(Slot::Field { name, shape }), wire) => add(map, name, shape, wire, depth)?,
            _ => {}
        }
    }
    Ok(())
}

/// One occurrence of a field: a list or a map grows by it, anything else is set.
fn add(
    map: &mut Map<String, Value>,
    name: &str,
    shape: &str,
    wire: Wire<'_>,
    depth: usize,
) -> Result<(), ProtobufError> {
    if let Some(item) = between(shape, '[', ']') {
        let list = map.entry(name).or_insert_with(|| Value::Array(Vec::new()));
        let value = scalar(item, wire, depth)?;
        if let Value::Array(list) = list {
            list.push(value);
        }
    } else if let Some(item) = between(shape, '{', '}') {
        let Wire::Bytes(entry) = wire else { return Err(ProtobufError::Malformed) };
        let (mut key, mut value) = (String::new(), zero(item));
        for field in Reader(entry) {
            match field? {
                (1, Wire::Bytes(text)) => key = utf8(text)?,
                (2, wire) => value = scalar(item, wire, depth)?,
                _ => {}
            }
        }
        if let Value::Object(inner) = map.entry(name).or_insert_with(|| Value::Object(Map::new())) {
            inner.insert(key, value);
        }
    } else {
        map.insert(name.to_owned(), scalar(shape, wire, depth)?);
    }
    Ok(())
}

fn scalar(shape: &str, wire: Wire<'_>, depth: usize) -> Result<Value, ProtobufError> {
    Ok(match (shape, wire) {
        ("string", Wire::Bytes(text)) => utf8(text)?.into(),
        ("bytes", Wire::Bytes(bytes)) => BASE64_STANDARD.encode(bytes).into(),
        ("bool", Wire::Number(number)) => (number != 0).into(),
        // Negative numbers travel as 64 bits, whatever their type.
        ("int32" | "int64", Wire::Number(number)) => (number as i64).into(),
        ("double", Wire::Fixed64(bits)) => f64::from_bits(bits).into(),
        (shape, Wire::Bytes(message)) => match between(shape, '[', ']') {
            // A list inside a map is a message of its own, with its items in field 1.
            Some(item) => {
                let mut items = Vec::new();
                for field in Reader(message) {
                    if let (1, wire) = field? {
                        items.push(scalar(item, wire, depth)?);
                    }
                }
                Value::Array(items)
            }
            None => object(shape, message, depth + 1)?,
        },
        _ => return Err(ProtobufError::Malformed),
    })
}

fn zero(shape: &str) -> Value {
    match shape {
        "string" | "bytes" => "".into(),
        "int32" | "int64" | "double" => 0.into(),
        "bool" => false.into(),
        "api.resource.Quantity" => "0".into(),
        _ => Value::Object(Map::new()),
    }
}

fn between(shape: &str, open: char, close: char) -> Option<&str> {
    shape.strip_prefix(open)?.strip_suffix(close)
}

/// The types whose JSON is not an object of their fields.
fn special(type_name: &str, message: &[u8], depth: usize) -> Result<Option<Value>, ProtobufError> {
    let value = match type_name {
        "api.resource.Quantity" => match first(message, 1)? {
            Some(Wire::Bytes(text)) => utf8(text)?.into(),
            _ => "0".into(),
        },
        "meta.v1.Time" | "meta.v1.MicroTime" => time(message, type_name == "meta.v1.MicroTime")?,
        "util.intstr.IntOrString" => match (first(message, 1)?, first(message, 2)?, first(message, 3)?) {
            (Some(Wire::Number(1)), _, Some(Wire::Bytes(text))) => utf8(text)?.into(),
            (Some(Wire::Number(1)), _, _) => "".into(),
            (_, Some(Wire::Number(number)), _) => (number as i64).into(),
            _ => 0.into(),
        },
        "meta.v1.FieldsV1" | "runtime.RawExtension" | "apiextensions.v1.JSON" => match first(message, 1)? {
            Some(Wire::Bytes(raw)) => serde_json::from_slice(raw).map_err(|_| ProtobufError::Malformed)?,
            _ => Value::Null,
        },
        "apiextensions.v1.JSONSchemaPropsOrArray"
        | "apiextensions.v1.JSONSchemaPropsOrBool"
        | "apiextensions.v1.JSONSchemaPropsOrStringArray" => either(type_name, message, depth)?,
        _ => return Ok(None),
    };
    Ok(Some(value))
}

/// A schema, or what may stand in its place.
fn either(type_name: &str, message: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    const PROPS: &str = "apiextensions.v1.JSONSchemaProps";
    let (schema_tag, other_tag) = if type_name.ends_with("OrBool") { (2, 1) } else { (1, 2) };
    let mut others = Vec::new();
    for field in Reader(message) {
        match field? {
            (tag, Wire::Bytes(props)) if tag == schema_tag => return object(PROPS, props, depth + 1),
            (tag, Wire::Number(allows)) if tag == other_tag => return Ok((allows != 0).into()),
            (tag, Wire::Bytes(item)) if tag == other_tag && type_name.ends_with("StringArray") => {
                others.push(utf8(item)?.into())
            }
            (tag, Wire::Bytes(props)) if tag == other_tag => others.push(object(PROPS, props, depth + 1)?),
            _ => {}
        }
    }
    Ok(Value::Array(others))
}

/// An empty time is no time.
fn time(message: &[u8], micro: bool) -> Result<Value, ProtobufError> {
    let number = |tag| {
        Ok(match first(message, tag)? {
            Some(Wire::Number(number)) => number as i64,
            _ => 0,
        })
    };
    let (seconds, nanos) = (number(1)?, number(2)?);
    if message.is_empty() {
        return Ok(Value::Null);
    }
    Ok(crate::scalar::time_from_unix(seconds, nanos, micro).map_or(Value::Null, Value::from))
}

fn first(message: &[u8], wanted: u32) -> Result<Option<Wire<'_>>, ProtobufError> {
    for field in Reader(message) {
        let (tag, wire) = field?;
        if tag == wanted {
            return Ok(Some(wire));
        }
    }
    Ok(None)
}

fn utf8(bytes: &[u8]) -> Result<String, ProtobufError> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| ProtobufError::Malformed)
}

#[derive(Clone, Copy, Debug)]
enum Wire<'a> {
    Number(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(&'a [u8]),
}

/// Walks the fields of a message.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for (i, byte) in self.0.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7F) << (7 * i);
            if byte & 0x80 == 0 {
                self.0 = &self.0[i + 1..];
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn field(&mut self) -> Option<(u32, Wire<'a>)> {
        let key = self.varint()?;
        let wire = match key & 7 {
            0 => Wire::Number(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Wire::Fixed32
            }
            _ => return None,
        };
        Some((u32::try_from(key >> 3).ok()?, wire))
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<(u32, Wire<'a>), ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field().ok_or(ProtobufError::Malformed);
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn bytes(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut out = vec![tag << 3 | 2, content.len() as u8];
        out.extend_from_slice(content);
        out
    }

    #[test]
    fn a_config_map_reads_as_its_json() {
        let metadata = [bytes(1, b"web"), bytes(8, b"")].concat();
        let entry = [bytes(1, b"a"), bytes(2, b"1")].concat();
        let message = [bytes(1, &metadata), bytes(2, &entry)].concat();
        let value = decode("core.v1.ConfigMap", &message).unwrap();
        assert_eq!(value, json!({"metadata": {"name": "web", "creationTimestamp": null}, "data": {"a": "1"}}));
    }

    #[test]
    fn the_envelope_says_what_is_inside() {
        let type_meta = [bytes(1, b"v1"), bytes(2, b"Pod")].concat();
        let body = [MAGIC.to_vec(), bytes(1, &type_meta), bytes(2, b"raw")].concat();
        let envelope = open(&body).unwrap();
        assert_eq!((envelope.api_version.as_str(), envelope.kind.as_str(), envelope.raw), ("v1", "Pod", &b"raw"[..]));
        assert!(matches!(open(b"{}"), Err(ProtobufError::NoMagic)));
    }

    #[test]
    fn broken_messages_are_refused_and_nothing_panics() {
        for length in 0..64u8 {
            let noise: Vec<u8> = (0..length).map(|i| i.wrapping_mul(37).wrapping_add(length)).collect();
            let _ = decode("core.v1.Pod", &noise);
        }
        assert!(decode("core.v1.Pod", &[0x0A, 0x7F, 1]).is_err());
        assert!(decode("core.v1.Pod", &[0xFF; 20]).is_err());
    }
}
