//! How one version of a key is laid out on disk.
//!
//! Seven little-endian numbers, then the value: a checksum of the key and all that follows the
//! checksum, create revision, mod revision, version, expiry (the smallest number for none), and the
//! two ends of the hole (equal for none).

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::Entry;

const FIELDS: usize = 7;
const HEADER: usize = FIELDS * 8;
const NO_EXPIRY: i64 = i64::MIN;

pub(super) fn encode(entry: &Entry) -> Vec<u8> {
    let hole = entry.hole.clone().unwrap_or(0..0);
    let fields = [
        entry.create_revision,
        entry.mod_revision,
        entry.version,
        entry.expires_at.unwrap_or(NO_EXPIRY).cast_unsigned(),
        hole.start as u64,
        hole.end as u64,
    ];
    let mut record = Vec::with_capacity(HEADER + entry.value.len());
    record.extend_from_slice(&[0; 8]);
    fields.iter().for_each(|field| record.extend_from_slice(&field.to_le_bytes()));
    record.extend_from_slice(&entry.value);
    let sum = checksum(&entry.key, &record[8..]);
    record[..8].copy_from_slice(&sum.to_le_bytes());
    record
}

/// The version a record holds, or `None` if it is not what was written.
pub(super) fn decode(key: &str, record: &[u8]) -> Option<Entry> {
    let (header, value) = record.split_at_checked(HEADER)?;
    let mut fields = [0; FIELDS];
    for (field, bytes) in fields.iter_mut().zip(header.as_chunks::<8>().0) {
        *field = u64::from_le_bytes(*bytes);
    }
    let [sum, create, modified, version, expires, hole_start, hole_end] = fields;
    if sum != checksum(key, &record[8..]) {
        return None;
    }
    let hole = Range { start: hole_start.try_into().ok()?, end: hole_end.try_into().ok()? };
    value.get(hole.clone())?;
    Some(Entry::restore(
        Arc::from(key),
        Bytes::copy_from_slice(value),
        [create, modified, version],
        Some(expires.cast_signed()).filter(|expires| *expires != NO_EXPIRY),
        Some(hole).filter(|hole| !hole.is_empty()),
    ))
}

/// Covers the key, so that a record found under another key is damage too.
fn checksum(key: &str, rest: &[u8]) -> u64 {
    xxh3_64_with_seed(rest, xxh3_64(key.as_bytes()))
}
