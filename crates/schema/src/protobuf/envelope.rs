//! What stands around a message: the envelope of a body, the list around its items, the frame of a watch event.
//!
//! ```text
//! body     k8s\0 Unknown{ typeMeta{apiVersion, kind}, raw: <message>, contentEncoding: "", contentType: "" }
//! list     a body whose message is { metadata, item, item, … }
//! event    <length: 4 bytes> WatchEvent{ type, object{ raw: <body> } }
//! ```

use super::wire::{Reader, Wire, put_bytes, put_length, put_message, utf8, varint_length};
use super::{ProtobufError, encode};

const MAGIC: &[u8] = b"k8s\0";

const TYPE_META_TAG: u32 = 1;
const RAW_TAG: u32 = 2;
const CONTENT_ENCODING_TAG: u32 = 3;
const CONTENT_TYPE_TAG: u32 = 4;

const API_VERSION_TAG: u32 = 1;
const KIND_TAG: u32 = 2;

const LIST_METADATA_TAG: u32 = 1;
const LIST_ITEM_TAG: u32 = 2;

const EVENT_TYPE_TAG: u32 = 1;
const EVENT_OBJECT_TAG: u32 = 2;
const EXTENSION_RAW_TAG: u32 = 1;

/// What a body holds.
pub struct Envelope<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    pub raw: &'a [u8],
}

/// Opens a body.
pub fn open(bytes: &[u8]) -> Result<Envelope<'_>, ProtobufError> {
    let message = bytes.strip_prefix(MAGIC).ok_or(ProtobufError::NoMagic)?;
    let mut envelope = Envelope { api_version: "", kind: "", raw: &[] };
    for field in Reader(message) {
        match field? {
            (TYPE_META_TAG, Wire::Bytes(type_meta)) => {
                for field in Reader(type_meta) {
                    match field? {
                        (API_VERSION_TAG, Wire::Bytes(text)) => envelope.api_version = utf8(text)?,
                        (KIND_TAG, Wire::Bytes(text)) => envelope.kind = utf8(text)?,
                        _ => {}
                    }
                }
            }
            (RAW_TAG, Wire::Bytes(raw)) => envelope.raw = raw,
            _ => {}
        }
    }
    Ok(envelope)
}

/// The kind of a body, and the type whose message it holds.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    pub type_name: &'a str,
}

impl Body<'_> {
    /// A body with this object.
    pub fn seal(&self, json: &[u8], out: &mut Vec<u8>) -> Result<(), ProtobufError> {
        self.head(out);
        put_message(out, RAW_TAG, |out| encode(self.type_name, json, out))?;
        tail(out);
        Ok(())
    }

    /// The body of a list, from its message in parts: [`list_metadata`], then each [`list_item`].
    pub fn list_head(&self, message_length: usize, out: &mut Vec<u8>) {
        self.head(out);
        put_length(out, RAW_TAG, message_length);
    }

    /// A framed watch event about this object.
    pub fn event(&self, event_type: &str, json: &[u8], out: &mut Vec<u8>) -> Result<(), ProtobufError> {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        put_bytes(out, EVENT_TYPE_TAG, event_type.as_bytes());
        put_message(out, EVENT_OBJECT_TAG, |out| put_message(out, EXTENSION_RAW_TAG, |out| self.seal(json, out)))?;
        let length = u32::try_from(out.len() - start - 4).map_err(|_| ProtobufError::MALFORMED)?;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    fn head(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(MAGIC);
        let (api_version, kind) = (self.api_version.as_bytes(), self.kind.as_bytes());
        let length = |text: &[u8]| 1 + varint_length(text.len() as u64) + text.len();
        put_length(out, TYPE_META_TAG, length(api_version) + length(kind));
        put_bytes(out, API_VERSION_TAG, api_version);
        put_bytes(out, KIND_TAG, kind);
    }
}

/// The end of a list's body.
pub fn tail(out: &mut Vec<u8>) {
    put_bytes(out, CONTENT_ENCODING_TAG, b"");
    put_bytes(out, CONTENT_TYPE_TAG, b"");
}

/// The first part of a list's message.
pub fn list_metadata(json: &[u8], out: &mut Vec<u8>) -> Result<(), ProtobufError> {
    put_message(out, LIST_METADATA_TAG, |out| encode("meta.v1.ListMeta", json, out))
}

/// One more part of a list's message.
pub fn list_item(type_name: &str, json: &[u8], out: &mut Vec<u8>) -> Result<(), ProtobufError> {
    put_message(out, LIST_ITEM_TAG, |out| encode(type_name, json, out))
}
