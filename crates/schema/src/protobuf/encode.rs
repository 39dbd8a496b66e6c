//! From the JSON of an object to its protobuf message, in one pass over the bytes.
//!
//! The parser calls back with each key and value, which go to the output at once, under the tag that the plan has for
//! the key. What an object does not have, but its message always does, is noted by a bit per field and added at the end.

use super::ProtobufError;
use super::plan::{Message, Plan, Shape, plan};
use super::special::Special;
use super::wire::{put_bytes, put_double, put_length, put_message, put_number};
use base64::Engine;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// Writes an object of a built-in type (`core.v1.Pod`) as protobuf. Fields that the type does not have, and the
/// object's apiVersion and kind, are left out.
pub fn encode(type_name: &str, json: &[u8], out: &mut Vec<u8>) -> Result<(), ProtobufError> {
    let plan = plan();
    let message = plan.of_type(type_name).ok_or_else(|| ProtobufError::UnknownType(type_name.to_owned()))?;
    let start = out.len();
    let mut json = serde_json::Deserializer::from_slice(json);
    let written = Fields { plan, message, out }.deserialize(&mut json).and_then(|()| json.end());
    written.map_err(|error| {
        out.truncate(start);
        ProtobufError::Misfit(error.to_string())
    })
}

/// A field with the zero value of its type.
pub(super) fn zero(plan: &Plan, shape: &Shape, tag: u32) -> Vec<u8> {
    let mut out = Vec::new();
    put_zero(plan, shape, tag, &mut out);
    out
}

fn put_zero(plan: &Plan, shape: &Shape, tag: u32, out: &mut Vec<u8>) {
    match shape {
        Shape::String | Shape::Bytes => put_bytes(out, tag, b""),
        Shape::Int32 | Shape::Int64 | Shape::Bool => put_number(out, tag, 0),
        Shape::Double => put_double(out, tag, 0.0),
        Shape::List(_) | Shape::Map(_) => {}
        Shape::Special(special) => {
            let _ = put_message(out, tag, |out| {
                special.put_zero(out);
                Ok::<(), ()>(())
            });
        }
        Shape::Message(id) => {
            let _ = put_message(out, tag, |out| {
                let message = plan.message(*id);
                finish(message, 0, vec![Vec::new(); message.groups.len() - 1], out);
                Ok::<(), ()>(())
            });
        }
    }
}

/// Adds what always stands in a message: the fields that were not `seen`, and the messages of embedded structs.
fn finish(message: &Message, seen: u64, mut embedded: Vec<Vec<u8>>, out: &mut Vec<u8>) {
    for (index, slot) in message.fields.iter().enumerate() {
        if seen >> index & 1 == 0 && !slot.zero.is_empty() {
            let out = if slot.group == 0 { &mut *out } else { &mut embedded[slot.group - 1] };
            out.extend_from_slice(&slot.zero);
        }
    }
    // A group stands after its parent, so the innermost come first.
    while let Some(inner) = embedded.pop() {
        let group = &message.groups[embedded.len() + 1];
        let out = if group.parent == 0 { &mut *out } else { &mut embedded[group.parent - 1] };
        put_bytes(out, group.tag, &inner);
    }
}

/// Writes the fields of a message from a JSON object.
struct Fields<'a> {
    plan: &'a Plan,
    message: &'a Message,
    out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Fields { plan, message, out } = self;
        // Most types embed nothing: then this allocates nothing.
        let mut embedded = vec![Vec::new(); message.groups.len() - 1];
        let (mut seen, mut guess) = (0u64, 0);
        while let Some(found) = map.next_key_seed(FieldName { message, guess })? {
            let Some(index) = found else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let slot = &message.fields[index];
            guess = index + 1;
            let out = if slot.group == 0 { &mut *out } else { &mut embedded[slot.group - 1] };
            if map.next_value_seed(Field { plan, shape: &slot.shape, tag: slot.tag, out })? {
                seen |= 1 << index;
            }
        }
        finish(message, seen, embedded, out);
        Ok(())
    }
}

/// Reads a key as the place of the field; nothing for one that the type does not have.
struct FieldName<'a> {
    message: &'a Message,
    guess: usize,
}

impl<'de> DeserializeSeed<'de> for FieldName<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_identifier(self)
    }
}

impl Visitor<'_> for FieldName<'_> {
    type Value = Option<usize>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a field name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.message.find(name, self.guess))
    }
}

/// Writes a value under a tag. Answers whether there was one; `null` does not count.
struct Field<'a> {
    plan: &'a Plan,
    shape: &'a Shape,
    tag: u32,
    out: &'a mut Vec<u8>,
}

impl Field<'_> {
    fn misfit<E: Error>(&self, found: &str) -> E {
        E::custom(format!("{found} where {:?} is expected", self.shape))
    }
}

impl<'de> DeserializeSeed<'de> for Field<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<bool, D::Error> {
        if !matches!(self.shape, Shape::Special(Special::Raw)) {
            return json.deserialize_any(self);
        }
        let raw = <&RawValue as serde::Deserialize>::deserialize(json)?.get();
        if raw == "null" {
            return Ok(false);
        }
        put_message(self.out, self.tag, |out| {
            Special::put_raw(raw, out);
            Ok(true)
        })
    }
}

impl<'de> Visitor<'de> for Field<'_> {
    type Value = bool;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.shape)
    }

    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<bool, E> {
        match self.shape {
            Shape::Bool => put_number(self.out, self.tag, u64::from(flag)),
            Shape::Special(special) => {
                let written = put_message(self.out, self.tag, |out| special.put_bool(flag, out).ok_or(()));
                return written.map(|()| true).map_err(|()| self.misfit("a boolean"));
            }
            _ => return Err(self.misfit("a boolean")),
        }
        Ok(true)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<bool, E> {
        match self.shape {
            // Negative numbers travel as 64 bits, whatever their type.
            Shape::Int32 | Shape::Int64 => put_number(self.out, self.tag, number as u64),
            Shape::Double => put_double(self.out, self.tag, number as f64),
            Shape::Special(special) => {
                let written = put_message(self.out, self.tag, |out| special.put_number(number, out).ok_or(()));
                return written.map(|()| true).map_err(|()| self.misfit("a number"));
            }
            _ => return Err(self.misfit("a number")),
        }
        Ok(true)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<bool, E> {
        match i64::try_from(number) {
            Ok(number) => self.visit_i64(number),
            Err(_) => self.visit_f64(number as f64),
        }
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<bool, E> {
        let Shape::Double = self.shape else { return Err(self.misfit("a number that is no integer")) };
        put_double(self.out, self.tag, number);
        Ok(true)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<bool, E> {
        match self.shape {
            Shape::String => put_bytes(self.out, self.tag, text.as_bytes()),
            Shape::Bytes => put_base64(self.out, self.tag, text).ok_or_else(|| E::custom("invalid base64"))?,
            Shape::Special(special) => {
                let written = put_message(self.out, self.tag, |out| special.put_text(text, out).ok_or(()));
                return written.map(|()| true).map_err(|()| self.misfit("a string"));
            }
            _ => return Err(self.misfit("a string")),
        }
        Ok(true)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<bool, A::Error> {
        match self.shape {
            Shape::List(item) => put_items(self.plan, item, self.tag, self.out, items)?,
            Shape::Special(special) => {
                let Some((schema, tag)) = special.items() else { return Err(self.misfit("a list")) };
                let item = schema.map_or(Shape::String, Shape::Message);
                put_message(self.out, self.tag, |out| put_items(self.plan, &item, tag, out, items))?;
            }
            _ => return Err(self.misfit("a list")),
        }
        Ok(true)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let Field { plan, shape, tag, out } = self;
        match shape {
            Shape::Message(id) => {
                put_message(out, tag, |out| Fields { plan, message: plan.message(*id), out }.visit_map(map))?;
            }
            Shape::Map(item) => {
                while let Some(key) = map.next_key_seed(Key)? {
                    put_message(out, tag, |out| {
                        put_bytes(out, 1, key.as_bytes());
                        map.next_value_seed(MapValue { plan, shape: item, out })
                    })?;
                }
            }
            Shape::Special(special) => {
                let mut is_schema = true;
                put_message(out, tag, |out| {
                    let written = special
                        .put_schema(out, |id, out| Fields { plan, message: plan.message(id), out }.visit_map(map));
                    is_schema = written.is_some();
                    written.unwrap_or(Ok(()))
                })?;
                if !is_schema {
                    return Err(A::Error::custom(format!("an object where {special:?} is expected")));
                }
            }
            _ => return Err(A::Error::custom(format!("an object where {shape:?} is expected"))),
        }
        Ok(true)
    }
}

fn put_items<'de, A: SeqAccess<'de>>(
    plan: &Plan,
    item: &Shape,
    tag: u32,
    out: &mut Vec<u8>,
    mut items: A,
) -> Result<(), A::Error> {
    while let Some(written) = items.next_element_seed(Field { plan, shape: item, tag, out })? {
        // A list keeps its length.
        if !written {
            put_zero(plan, item, tag, out);
        }
    }
    Ok(())
}

/// A key of a map. The parser lends it where it can.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = std::borrow::Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = std::borrow::Cow<'de, str>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a key")
    }

    fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(key.into())
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(key.to_owned().into())
    }
}

/// The value of a map's entry, which is always written; only bytes may be null.
struct MapValue<'a> {
    plan: &'a Plan,
    shape: &'a Shape,
    out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for MapValue<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        let MapValue { plan, shape, out } = self;
        if let Shape::List(_) = shape {
            // A list inside a map is a message of its own, with its items in field 1.
            return put_message(out, 2, |out| Field { plan, shape, tag: 1, out }.deserialize(json).map(|_| ()));
        }
        let written = Field { plan, shape, tag: 2, out: &mut *out }.deserialize(json)?;
        if !written && *shape != Shape::Bytes {
            put_zero(plan, shape, 2, out);
        }
        Ok(())
    }
}

/// Decodes into the output. Its length is that of the text, less the padding.
fn put_base64(out: &mut Vec<u8>, tag: u32, text: &str) -> Option<()> {
    let engine = GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
    );
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    let length = (text.len() / 4 * 3).checked_sub(padding)?;
    put_length(out, tag, length);
    let start = out.len();
    engine.decode_vec(text, out).ok()?;
    (out.len() - start == length).then_some(())
}
