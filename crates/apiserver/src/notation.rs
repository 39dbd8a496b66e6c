//! How answers are written: JSON as it is stored, YAML, protobuf. One encoder per notation, for objects, lists, tables and
//! watch events.
//!
//! - [`negotiate`]: which notation and shape the client accepts
//! - `json`, `yaml`, `protobuf`: the encoders
//! - [`gzip`]: long answers, for clients that accept it

pub mod gzip;
mod json;
pub mod negotiate;
mod protobuf;
mod yaml;

pub use json::EVENT_BYTES;

use bytes::{BufMut, Bytes, BytesMut};
use pintle_meta::Status;
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    Json,
    Yaml,
    Protobuf,
}

impl Notation {
    /// In the order in which they are offered to a client that takes anything.
    pub const ALL: [Notation; 3] = [Notation::Json, Notation::Yaml, Notation::Protobuf];

    pub fn media_type(self) -> &'static str {
        match self {
            Notation::Json => "application/json",
            Notation::Yaml => "application/yaml",
            Notation::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// The media type of a watch; YAML has none.
    pub fn stream_media_type(self) -> Result<&'static str, Status> {
        match self {
            Notation::Json => Ok("application/json"),
            Notation::Yaml => Err(negotiate::not_acceptable_for_watch()),
            Notation::Protobuf => Ok("application/vnd.kubernetes.protobuf;stream=watch"),
        }
    }

    /// An object, or a list that is not long, from its JSON.
    pub fn object(self, json: Bytes) -> Result<Bytes, Status> {
        match self {
            Notation::Json => Ok(json),
            Notation::Yaml => yaml::text(&crate::codec::decode(&json)),
            Notation::Protobuf => protobuf::object(&json),
        }
    }

    /// The same from a value.
    pub fn value(self, value: &Value) -> Result<Bytes, Status> {
        match self {
            Notation::Yaml => yaml::text(value),
            Notation::Json => Ok(value.to_string().into()),
            Notation::Protobuf => protobuf::value(value),
        }
    }

    /// An event of a watch, about an object that is given as JSON. An object that cannot be written becomes an error event.
    pub fn watch_event(self, kind: &str, object: &[u8]) -> Bytes {
        let mut out = BytesMut::with_capacity(object.len() + json::EVENT_BYTES);
        self.put_watch_event(&mut out, kind, object);
        out.freeze()
    }

    /// The same, behind others.
    pub fn put_watch_event(self, out: &mut BytesMut, kind: &str, object: &[u8]) {
        if self != Notation::Protobuf {
            return json::put_event(out, kind, object);
        }
        let event = protobuf::event(kind, object).or_else(|status| {
            tracing::error!(message = status.message, "an event of a watch cannot be written as protobuf");
            protobuf::event("ERROR", status.to_value().to_string().as_bytes())
        });
        out.put_slice(&event.unwrap_or_default());
    }
}

/// What stands around the items of a list.
pub struct List<'a> {
    pub kind: &'a str,
    pub api_version: &'a str,
    pub metadata: &'a Value,
    pub items: Items<'a>,
}

pub enum Items<'a> {
    /// Objects of a type. `cut` bytes of each object's head are left off as JSON.
    Objects { type_name: &'a str, cut: usize },
    /// The rows of a table.
    Rows { columns: &'a Value },
}

/// Writes a list item by item.
pub enum ListWriter {
    Json(json::ListWriter),
    Yaml(json::ListWriter),
    Protobuf(protobuf::ListWriter),
}

impl ListWriter {
    /// `capacity` is about how many bytes the items have together as JSON, or the part of them that is taken at once.
    pub fn new(notation: Notation, list: &List<'_>, capacity: usize) -> Result<Self, Status> {
        Ok(match notation {
            Notation::Json => ListWriter::Json(json::ListWriter::new(list, capacity)),
            Notation::Yaml => ListWriter::Yaml(json::ListWriter::new(list, capacity)),
            Notation::Protobuf => ListWriter::Protobuf(protobuf::ListWriter::new(list)?),
        })
    }

    /// Adds an object or a row, given as JSON.
    pub fn item(&mut self, json: &[u8]) -> Result<(), Status> {
        match self {
            ListWriter::Json(list) | ListWriter::Yaml(list) => {
                list.item(json);
                Ok(())
            }
            ListWriter::Protobuf(list) => list.item(json),
        }
    }

    /// What can be sent before the list is complete, if it is at least `piece` bytes. Protobuf begins with the length of
    /// the whole list, and YAML is made of all of it.
    pub fn take(&mut self, piece: usize) -> Option<Bytes> {
        match self {
            ListWriter::Json(list) if list.len() >= piece => Some(list.take(piece)),
            _ => None,
        }
    }

    /// The list, or what was not taken of it.
    pub fn finish(self) -> Result<Vec<Bytes>, Status> {
        match self {
            ListWriter::Json(list) => Ok(vec![list.finish()]),
            ListWriter::Yaml(list) => Ok(vec![yaml::text(&crate::codec::decode(&list.finish()))?]),
            ListWriter::Protobuf(list) => Ok(list.finish()),
        }
    }
}

#[cfg(test)]
mod tests;
