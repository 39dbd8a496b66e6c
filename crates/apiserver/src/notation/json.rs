//! JSON: the stored bytes as they are, with what stands around them in lists and watches.

use super::{Items, List};
use crate::codec::head;
use bytes::{BufMut, Bytes, BytesMut};

/// What an event has around its object, at most.
pub const EVENT_BYTES: usize = 40;

pub fn put_event(out: &mut BytesMut, kind: &str, object: &[u8]) {
    out.reserve(object.len() + EVENT_BYTES);
    out.put_slice(b"{\"type\":\"");
    out.put_slice(kind.as_bytes());
    out.put_slice(b"\",\"object\":");
    out.put_slice(object);
    out.put_slice(b"}\n");
}

/// A list's bytes around its items.
pub struct ListWriter {
    out: BytesMut,
    cut: usize,
    first: bool,
}

impl ListWriter {
    pub fn new(list: &List<'_>, capacity: usize) -> Self {
        let mut out = BytesMut::with_capacity(capacity + 256);
        out.put_slice(head(list.kind, list.api_version).as_bytes());
        out.put_slice(b"\"metadata\":");
        out.put_slice(list.metadata.to_string().as_bytes());
        let cut = match list.items {
            Items::Objects { cut, .. } => {
                out.put_slice(b",\"items\":[");
                cut
            }
            Items::Rows { columns } => {
                out.put_slice(b",\"columnDefinitions\":");
                out.put_slice(columns.to_string().as_bytes());
                out.put_slice(b",\"rows\":[");
                0
            }
        };
        ListWriter { out, cut, first: true }
    }

    pub fn item(&mut self, encoded: &[u8]) {
        if !self.first {
            self.out.put_u8(b',');
        }
        self.first = false;
        if self.cut > 0 {
            self.out.put_u8(b'{');
            self.out.put_slice(&encoded[self.cut.min(encoded.len())..]);
        } else {
            self.out.put_slice(encoded);
        }
    }

    /// How many bytes wait to be taken.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// What was written so far; the list goes on with room for `capacity` bytes.
    pub fn take(&mut self, capacity: usize) -> Bytes {
        std::mem::replace(&mut self.out, BytesMut::with_capacity(capacity + capacity / 8)).freeze()
    }

    pub fn finish(mut self) -> Bytes {
        self.out.put_slice(b"]}\n");
        self.out.freeze()
    }
}
