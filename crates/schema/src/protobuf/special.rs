//! The types whose JSON is not an object of their fields: quantities, times, `IntOrString`, embedded JSON, and a schema
//! or what may stand in its place.

use super::ProtobufError;
use super::decode::{self, Depth};
use super::plan::{MessageId, Plan};
use super::wire::{Reader, Wire, put_bytes, put_message, put_number, utf8};
use crate::node::Kind;
use crate::scalar;
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Special {
    Quantity,
    Time,
    MicroTime,
    IntOrString,
    /// JSON as bytes: `RawExtension`, `FieldsV1`, `JSON`.
    Raw,
    /// A schema, or a list of them.
    SchemaOrArray(MessageId),
    /// A schema, or whether anything is allowed.
    SchemaOrBool(MessageId),
    /// A schema, or the names of properties.
    SchemaOrStrings(MessageId),
}

/// Tags of the messages of `IntOrString`.
const KIND_TAG: u32 = 1;
const NUMBER_TAG: u32 = 2;
const TEXT_TAG: u32 = 3;
/// The value of [`KIND_TAG`] for a text.
const IS_TEXT: u64 = 1;
/// Tags of a time.
const SECONDS_TAG: u32 = 1;
const NANOS_TAG: u32 = 2;
/// The only field of quantities and of embedded JSON.
const ONLY_TAG: u32 = 1;
/// The first moment of the calendar is how the API writes no time at all.
const NO_TIME_SECONDS: i64 = -62_135_596_800;

impl Special {
    pub fn of(kind: &Kind, type_name: &str, id: impl Fn(&str) -> Option<MessageId>) -> Option<Special> {
        let schema = || id("apiextensions.v1.JSONSchemaProps");
        Some(match (kind, type_name) {
            (Kind::Quantity, _) => Special::Quantity,
            (Kind::Time, _) => Special::Time,
            (Kind::MicroTime, _) => Special::MicroTime,
            (Kind::IntOrString, _) => Special::IntOrString,
            (_, "meta.v1.FieldsV1" | "runtime.RawExtension" | "apiextensions.v1.JSON") => Special::Raw,
            (_, "apiextensions.v1.JSONSchemaPropsOrArray") => Special::SchemaOrArray(schema()?),
            (_, "apiextensions.v1.JSONSchemaPropsOrBool") => Special::SchemaOrBool(schema()?),
            (_, "apiextensions.v1.JSONSchemaPropsOrStringArray") => Special::SchemaOrStrings(schema()?),
            _ => return None,
        })
    }

    /// The tag under which a schema stands, and the tag of what may stand in its place.
    fn schema_tags(self) -> (u32, u32) {
        if matches!(self, Special::SchemaOrBool(_)) { (2, 1) } else { (1, 2) }
    }

    /// The message of the zero value.
    pub fn put_zero(self, out: &mut Vec<u8>) {
        match self {
            Special::Quantity => put_bytes(out, ONLY_TAG, b"0"),
            Special::IntOrString => int_or_string(out, 0, ""),
            Special::SchemaOrBool(_) => put_number(out, self.schema_tags().1, 0),
            _ => {}
        }
    }

    /// The message of a JSON string; nothing if the type is never one or the text is not what it should be.
    pub fn put_text(self, text: &str, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Special::Quantity => put_bytes(out, ONLY_TAG, text.as_bytes()),
            Special::IntOrString => int_or_string(out, 0, text),
            Special::Time | Special::MicroTime => {
                let (seconds, nanos) = scalar::unix_time(text)?;
                // `meta.v1.Time` has whole seconds, `MicroTime` whole microseconds.
                let nanos = if self == Special::MicroTime { nanos / 1000 * 1000 } else { 0 };
                if (seconds, nanos) != (NO_TIME_SECONDS, 0) {
                    put_number(out, SECONDS_TAG, seconds as u64);
                    put_number(out, NANOS_TAG, u64::from(nanos));
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// The message of a JSON number, if the type can be one.
    pub fn put_number(self, number: i64, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Special::IntOrString => {
                put_number(out, KIND_TAG, 0);
                put_number(out, NUMBER_TAG, number as u64);
                put_bytes(out, TEXT_TAG, b"");
            }
            Special::Quantity => put_bytes(out, ONLY_TAG, number.to_string().as_bytes()),
            _ => return None,
        }
        Some(())
    }

    pub fn put_bool(self, allows: bool, out: &mut Vec<u8>) -> Option<()> {
        let Special::SchemaOrBool(_) = self else { return None };
        put_number(out, self.schema_tags().1, u64::from(allows));
        Some(())
    }

    pub fn put_raw(json: &str, out: &mut Vec<u8>) {
        put_bytes(out, ONLY_TAG, json.as_bytes());
    }

    /// The type of the schemas, and the tag under which items of a JSON array are written.
    pub fn items(self) -> Option<(Option<MessageId>, u32)> {
        match self {
            Special::SchemaOrArray(schema) => Some((Some(schema), self.schema_tags().1)),
            Special::SchemaOrStrings(_) => Some((None, self.schema_tags().1)),
            _ => None,
        }
    }

    /// Writes a JSON object, which is a schema.
    pub fn put_schema<E>(
        self,
        out: &mut Vec<u8>,
        write: impl FnOnce(MessageId, &mut Vec<u8>) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        let (Special::SchemaOrArray(schema) | Special::SchemaOrBool(schema) | Special::SchemaOrStrings(schema)) = self
        else {
            return None;
        };
        // Where there is a schema, what it describes is allowed.
        self.put_bool(true, out);
        Some(put_message(out, self.schema_tags().0, |out| write(schema, out)))
    }

    /// The JSON of a message. No time and no JSON are null.
    pub fn decode(self, plan: &Plan, message: &[u8], depth: Depth) -> Result<Value, ProtobufError> {
        Ok(match self {
            Special::Quantity => match last(message, ONLY_TAG)? {
                Some(Wire::Bytes(text)) if !text.is_empty() => utf8(text)?.into(),
                _ => "0".into(),
            },
            Special::Time | Special::MicroTime => time(message, self == Special::MicroTime)?,
            Special::IntOrString => {
                match (last(message, KIND_TAG)?, last(message, NUMBER_TAG)?, last(message, TEXT_TAG)?) {
                    (Some(Wire::Number(IS_TEXT)), _, Some(Wire::Bytes(text))) => utf8(text)?.into(),
                    (Some(Wire::Number(IS_TEXT)), _, _) => "".into(),
                    (_, Some(Wire::Number(number)), _) => (number as i32).into(),
                    _ => 0.into(),
                }
            }
            Special::Raw => match last(message, ONLY_TAG)? {
                Some(Wire::Bytes([])) | None => Value::Null,
                Some(Wire::Bytes(raw)) => serde_json::from_slice(raw).map_err(|_| ProtobufError::MALFORMED)?,
                _ => return Err(ProtobufError::MALFORMED),
            },
            Special::SchemaOrArray(schema) | Special::SchemaOrBool(schema) | Special::SchemaOrStrings(schema) => {
                self.decode_either(plan, schema, message, depth)?
            }
        })
    }

    fn decode_either(
        self,
        plan: &Plan,
        schema: MessageId,
        message: &[u8],
        depth: Depth,
    ) -> Result<Value, ProtobufError> {
        let (schema_tag, other_tag) = self.schema_tags();
        let mut others = Vec::new();
        let mut allows = false;
        for field in Reader(message) {
            match (field?, self) {
                ((tag, Wire::Bytes(props)), _) if tag == schema_tag => {
                    return decode::object(plan, schema, props, depth.below()?);
                }
                ((tag, Wire::Number(number)), Special::SchemaOrBool(_)) if tag == other_tag => allows = number != 0,
                ((tag, Wire::Bytes(item)), Special::SchemaOrStrings(_)) if tag == other_tag => {
                    others.push(utf8(item)?.into());
                }
                ((tag, Wire::Bytes(props)), Special::SchemaOrArray(_)) if tag == other_tag => {
                    others.push(decode::object(plan, schema, props, depth.below()?)?);
                }
                _ => {}
            }
        }
        Ok(match self {
            Special::SchemaOrBool(_) => allows.into(),
            _ if others.is_empty() => Value::Null,
            _ => Value::Array(others),
        })
    }
}

fn int_or_string(out: &mut Vec<u8>, number: i64, text: &str) {
    put_number(out, KIND_TAG, IS_TEXT);
    put_number(out, NUMBER_TAG, number as u64);
    put_bytes(out, TEXT_TAG, text.as_bytes());
}

fn time(message: &[u8], micro: bool) -> Result<Value, ProtobufError> {
    let number = |tag| {
        Ok(match last(message, tag)? {
            Some(Wire::Number(number)) => number as i64,
            _ => 0,
        })
    };
    if message.is_empty() {
        return Ok(Value::Null);
    }
    let (seconds, nanos) = (number(SECONDS_TAG)?, number(NANOS_TAG)?);
    if seconds == NO_TIME_SECONDS && (!micro || nanos == 0) {
        return Ok(Value::Null);
    }
    scalar::time_from_unix(seconds, nanos, micro).map(Value::from).ok_or(ProtobufError::MALFORMED)
}

/// The value of a field that is not repeated: if it stands there more than once, the last one counts.
fn last(message: &[u8], wanted: u32) -> Result<Option<Wire<'_>>, ProtobufError> {
    let mut found = None;
    for field in Reader(message) {
        let (tag, wire) = field?;
        if tag == wanted {
            found = Some(wire);
        }
    }
    Ok(found)
}
