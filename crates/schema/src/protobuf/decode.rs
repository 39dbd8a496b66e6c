//! From a protobuf message to the JSON value it stands for.
//!
//! Fields that the type does not have are skipped, as protobuf means them to be. A zero value that the API would not
//! write as JSON is left out.

use super::plan::{Message, MessageId, Plan, Shape, Slot, Target, plan};
use super::wire::{Reader, Wire, utf8};
use super::{MAX_NESTING, ProtobufError};
use crate::node::Presence;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

/// The message of a built-in type (`core.v1.Pod`) as JSON, without apiVersion and kind.
pub fn decode(type_name: &str, message: &[u8]) -> Result<Value, ProtobufError> {
    let plan = plan();
    let of_type = plan.of_type(type_name).ok_or_else(|| ProtobufError::UnknownType(type_name.to_owned()))?;
    let mut map = Map::new();
    fill(plan, of_type, 0, message, &mut map, Depth(0))?;
    Ok(Value::Object(map))
}

/// How many messages stand around one.
#[derive(Clone, Copy)]
pub(super) struct Depth(usize);

impl Depth {
    pub fn below(self) -> Result<Depth, ProtobufError> {
        if self.0 < MAX_NESTING { Ok(Depth(self.0 + 1)) } else { Err(ProtobufError::TooDeep) }
    }
}

pub(super) fn object(plan: &Plan, id: MessageId, bytes: &[u8], depth: Depth) -> Result<Value, ProtobufError> {
    let mut map = Map::new();
    fill(plan, plan.message(id), 0, bytes, &mut map, depth)?;
    Ok(Value::Object(map))
}

fn fill(
    plan: &Plan,
    message: &Message,
    group: usize,
    bytes: &[u8],
    map: &mut Map<String, Value>,
    depth: Depth,
) -> Result<(), ProtobufError> {
    for field in Reader(bytes) {
        let (tag, wire) = field?;
        match (message.groups[group].find(tag), wire) {
            (Some(Target::Group(inner)), Wire::Bytes(bytes)) => {
                fill(plan, message, inner, bytes, map, depth.below()?)?;
            }
            (Some(Target::Group(_)), _) => return Err(ProtobufError::MALFORMED),
            (Some(Target::Field(index)), wire) => {
                let slot = &message.fields[index];
                add(plan, slot, wire, map, depth).map_err(|error| error.under(slot.name))?;
            }
            (None, _) => {}
        }
    }
    Ok(())
}

/// One occurrence of a field: a list or a map grows by it, a struct is merged with what is there, anything else is set.
fn add(
    plan: &Plan,
    slot: &Slot,
    wire: Wire<'_>,
    map: &mut Map<String, Value>,
    depth: Depth,
) -> Result<(), ProtobufError> {
    match (&slot.shape, wire) {
        (Shape::List(item), wire) => {
            let list = map.entry(slot.name).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(list) = list {
                push(plan, item, wire, list, depth)?;
            }
        }
        (Shape::Map(item), Wire::Bytes(entry)) => {
            let (key, value) = map_entry(plan, item, entry, depth)?;
            if let Value::Object(inner) = map.entry(slot.name).or_insert_with(|| Value::Object(Map::new())) {
                inner.insert(key, value);
            }
        }
        (Shape::Message(id), Wire::Bytes(bytes)) => {
            if let Value::Object(inner) = map.entry(slot.name).or_insert_with(|| Value::Object(Map::new())) {
                fill(plan, plan.message(*id), 0, bytes, inner, depth.below()?)?;
            }
        }
        (shape, wire) => {
            let value = value(plan, shape, wire, depth)?;
            if value.is_null() || (slot.presence == Presence::OmittedWhenZero && is_zero(shape, &value)) {
                map.remove(slot.name);
            } else {
                map.insert(slot.name.to_owned(), value);
            }
        }
    }
    Ok(())
}

fn is_zero(shape: &Shape, value: &Value) -> bool {
    match (shape, value) {
        (Shape::Special(_), _) => false,
        (_, Value::String(text)) => text.is_empty(),
        (_, Value::Bool(flag)) => !flag,
        (_, Value::Number(number)) => number.as_f64() == Some(0.0),
        _ => false,
    }
}

/// Adds an item, or several: numbers may come packed into one field.
fn push(plan: &Plan, item: &Shape, wire: Wire<'_>, list: &mut Vec<Value>, depth: Depth) -> Result<(), ProtobufError> {
    let mut packed = match (item, wire) {
        (Shape::Int32 | Shape::Int64 | Shape::Bool | Shape::Double, Wire::Bytes(bytes)) => Reader(bytes),
        (item, wire) => {
            list.push(value(plan, item, wire, depth)?);
            return Ok(());
        }
    };
    while !packed.0.is_empty() {
        let wire = match item {
            Shape::Double => packed.fixed64().map(Wire::Fixed64),
            _ => packed.varint().map(Wire::Number),
        };
        list.push(value(plan, item, wire.ok_or(ProtobufError::MALFORMED)?, depth)?);
    }
    Ok(())
}

fn map_entry(plan: &Plan, item: &Shape, entry: &[u8], depth: Depth) -> Result<(String, Value), ProtobufError> {
    let (mut key, mut found) = ("", None);
    for field in Reader(entry) {
        match field? {
            (1, Wire::Bytes(text)) => key = utf8(text)?,
            (2, wire) => found = Some(wire),
            _ => {}
        }
    }
    let value = match (item, found) {
        (_, None) => zero(item),
        // A list inside a map is a message of its own, with its items in field 1.
        (Shape::List(item), Some(Wire::Bytes(message))) => {
            let mut items = Vec::new();
            for field in Reader(message) {
                if let (1, wire) = field? {
                    push(plan, item, wire, &mut items, depth).map_err(|error| error.under(key))?;
                }
            }
            if items.is_empty() { Value::Null } else { Value::Array(items) }
        }
        (item, Some(wire)) => value(plan, item, wire, depth).map_err(|error| error.under(key))?,
    };
    Ok((key.to_owned(), value))
}

fn value(plan: &Plan, shape: &Shape, wire: Wire<'_>, depth: Depth) -> Result<Value, ProtobufError> {
    Ok(match (shape, wire) {
        (Shape::String, Wire::Bytes(text)) => utf8(text)?.into(),
        (Shape::Bytes, Wire::Bytes(bytes)) => BASE64_STANDARD.encode(bytes).into(),
        (Shape::Bool, Wire::Number(number)) => (number != 0).into(),
        // Negative numbers travel as 64 bits, whatever their type.
        (Shape::Int32, Wire::Number(number)) => (number as i32).into(),
        (Shape::Int64, Wire::Number(number)) => (number as i64).into(),
        (Shape::Double, Wire::Fixed64(bits)) => double(f64::from_bits(bits)),
        (Shape::Special(special), Wire::Bytes(message)) => special.decode(plan, message, depth)?,
        (Shape::Message(id), Wire::Bytes(message)) => object(plan, *id, message, depth.below()?)?,
        _ => return Err(ProtobufError::MALFORMED),
    })
}

/// A number as the API writes it: whole numbers without a fraction. What is no number at all is null.
fn double(number: f64) -> Value {
    const MAX_WHOLE: f64 = 1e15;
    if number.fract() == 0.0 && number.abs() < MAX_WHOLE { (number as i64).into() } else { number.into() }
}

/// What an entry of a map has that names no value.
fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::String | Shape::Bytes => "".into(),
        Shape::Int32 | Shape::Int64 | Shape::Double => 0.into(),
        Shape::Bool => false.into(),
        Shape::Special(super::special::Special::Quantity) => "0".into(),
        Shape::Special(_) | Shape::List(_) => Value::Null,
        Shape::Message(_) | Shape::Map(_) => Value::Object(Map::new()),
    }
}
