//! How one version of a key is laid out in etcd.
//!
//! etcd gives a revision at commit, after the bytes were sent, so they are kept without its digits and
//! each reader fills them in. Before the bytes stands where: `\0pn1`, a byte that says which of the
//! two numbers follow, then where the hole is (4 bytes) and when the key may be expired (8 bytes), both
//! big-endian. `{"rv":""}` with a hole at 7 and no end to its life is
//! `\0pn1 01 00000007 {"rv":""}`, and at revision 42 it is read as `{"rv":"42"}`.
//!
//! A value that does not begin like that was put there by someone else and is taken as it is.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};

use super::messages::KeyValue;
use crate::entry::fill;
use crate::{Entry, Splice};

const MAGIC: &[u8; 4] = b"\0pn1";
const HAS_HOLE: u8 = 1;
const EXPIRES: u8 = 2;

pub(super) fn encode(value: &Splice, expires_at: Option<i64>) -> Bytes {
    let (bytes, hole_at) = value.parts();
    let hole_at = hole_at.and_then(|at| u32::try_from(at).ok());
    let mut encoded = Vec::with_capacity(MAGIC.len() + 13 + bytes.len());
    encoded.put_slice(MAGIC);
    encoded.put_u8(hole_at.map_or(0, |_| HAS_HOLE) | expires_at.map_or(0, |_| EXPIRES));
    if let Some(at) = hole_at {
        encoded.put_u32(at);
    }
    if let Some(at) = expires_at {
        encoded.put_i64(at);
    }
    encoded.put_slice(bytes);
    Bytes::from(encoded)
}

/// The version that etcd holds, under the name that is ours.
pub(super) fn decode(key: Arc<str>, stored: &KeyValue) -> Entry {
    let (bytes, hole_at, expires_at) = parse(&stored.value).unwrap_or((&stored.value, None, None));
    let numbers = [stored.create_revision, stored.mod_revision, stored.version].map(i64::unsigned_abs);
    let (value, hole) = match hole_at {
        // Copied, so that one value does not keep the whole answer it came with.
        None => (Bytes::copy_from_slice(bytes), None),
        Some(at) => {
            let (value, hole) = fill(&bytes[..at], &bytes[at..], numbers[1]);
            (value, Some(hole))
        }
    };
    Entry::restore(key, value, numbers, expires_at, hole)
}

/// The bytes behind the header and what it says; `None` if it is none of ours.
fn parse(stored: &[u8]) -> Option<(&[u8], Option<usize>, Option<i64>)> {
    let mut rest = stored.strip_prefix(MAGIC)?;
    let flags = rest.try_get_u8().ok()?;
    if flags & !(HAS_HOLE | EXPIRES) != 0 {
        return None;
    }
    let hole_at = if flags & HAS_HOLE != 0 { Some(rest.try_get_u32().ok()? as usize) } else { None };
    let expires_at = if flags & EXPIRES != 0 { Some(rest.try_get_i64().ok()?) } else { None };
    hole_at.is_none_or(|at| at <= rest.len()).then_some((rest, hole_at, expires_at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stored(value: Bytes) -> KeyValue {
        KeyValue { value, create_revision: 3, mod_revision: 42, version: 2, ..KeyValue::default() }
    }

    #[test]
    fn what_was_written_is_read_with_its_revision() {
        let entry = decode("/a".into(), &stored(encode(&Splice::new(r#"{"rv":""}"#, Some(7)), Some(-5))));
        assert_eq!(entry.value, r#"{"rv":"42"}"#);
        assert_eq!((entry.create_revision, entry.mod_revision, entry.version), (3, 42, 2));
        assert_eq!((entry.expires_at, entry.hole), (Some(-5), Some(7..9)));
    }

    #[test]
    fn a_value_that_somebody_else_wrote_is_taken_as_it_is() {
        for foreign in [&b""[..], b"k8s\0...", b"\0pn1", b"\0pn1\x04x", b"\0pn1\x01\0\0", b"\0pn1\x01\0\0\0\x09short"] {
            assert_eq!(decode("/a".into(), &stored(Bytes::from_static(foreign))).value, foreign);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_come_back(bytes: Vec<u8>, hole: Option<u8>, expires_at: Option<i64>) {
            let splice = Splice::new(bytes.clone(), hole.map(usize::from));
            let entry = decode("/a".into(), &stored(encode(&splice, expires_at)));
            let mut expected = bytes;
            if let Some(at) = splice.parts().1 {
                expected.splice(at..at, *b"42");
            }
            prop_assert_eq!(&entry.value[..], &expected[..]);
            prop_assert_eq!(entry.expires_at, expires_at);
        }
    }
}
