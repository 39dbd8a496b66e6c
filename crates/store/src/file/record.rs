//! How headers, groups of changes and entries are laid out in frames. All numbers are little-endian.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::watch::{Event, EventKind};
use crate::{Entry, Revision};

/// The layout this program reads and writes; a change of this file or of `block` is a new one.
pub(super) const FORMAT: u32 = 2;
const MAGIC: [u8; 8] = *b"pintle\r\n";
const NO_EXPIRY: i64 = i64::MIN;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const ENTRIES: u8 = 3;
const END: u8 = 4;

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The state after all logs with a smaller number.
    State,
    /// Changes.
    Log,
}

/// The first frame of every file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) role: Role,
    pub(super) number: u64,
    /// The store's revision where the file begins.
    pub(super) revision: Revision,
    /// How many blocks of the log before this one count. All of them are durable.
    pub(super) previous_blocks: u64,
}

/// Why a header cannot be used.
pub(super) enum BadHeader {
    NotOurs,
    Format(u32),
}

impl Header {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut frame = MAGIC.to_vec();
        frame.extend(FORMAT.to_le_bytes());
        frame.push(if self.role == Role::State { b'S' } else { b'L' });
        for number in [self.number, self.revision, self.previous_blocks] {
            frame.extend(number.to_le_bytes());
        }
        frame
    }

    pub(super) fn decode(mut frame: &[u8]) -> Result<Self, BadHeader> {
        let input = &mut frame;
        if take(input, MAGIC.len()) != Some(&MAGIC) {
            return Err(BadHeader::NotOurs);
        }
        let format = number32(input).ok_or(BadHeader::NotOurs)?;
        if format != FORMAT {
            return Err(BadHeader::Format(format));
        }
        Self::fields(input).ok_or(BadHeader::NotOurs)
    }

    fn fields(input: &mut &[u8]) -> Option<Self> {
        let role = match take(input, 1)? {
            b"S" => Role::State,
            b"L" => Role::Log,
            _ => return None,
        };
        Some(Self { role, number: number(input)?, revision: number(input)?, previous_blocks: number(input)? })
    }

    /// What the checksums of the file's other blocks start from.
    pub(super) fn salt(&self) -> u64 {
        self.number * 2 + u64::from(self.role == Role::Log) + 2
    }
}

/// The beginning of a group, which is in its first block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupHead {
    /// The store's revision after the group.
    pub(super) revision: Revision,
    /// No revision up to this one is ever given out again.
    pub(super) reserved: Revision,
    /// How many of the log's blocks were durable before the group was written.
    pub(super) durable_blocks: u64,
    pub(super) events: u32,
}

impl GroupHead {
    /// Its bytes. A frame is begun with as many zeros, which the log replaces when it knows what stands there.
    pub(super) const LENGTH: usize = 28;

    pub(super) fn encode(&self) -> [u8; Self::LENGTH] {
        let mut head = [0; Self::LENGTH];
        let numbers = [self.revision, self.reserved, self.durable_blocks];
        for (place, number) in head.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        head[24..].copy_from_slice(&self.events.to_le_bytes());
        head
    }

    pub(super) fn decode(input: &mut &[u8]) -> Option<Self> {
        let (revision, reserved, durable_blocks) = (number(input)?, number(input)?, number(input)?);
        Some(Self { revision, reserved, durable_blocks, events: number32(input)? })
    }
}

pub(super) fn encode_event(event: &Event, frame: &mut Vec<u8>) {
    frame.push(if event.kind == EventKind::Put { PUT } else { DELETE });
    frame.extend(event.revision.to_le_bytes());
    match event.kind {
        EventKind::Put => encode_value(&event.entry, frame),
        EventKind::Delete => encode_key(&event.entry.key, frame),
    }
}

/// The change that is next in a group, made to the key's current version; `None` if there is no such change.
pub(super) fn decode_event<'a>(
    input: &mut &[u8],
    current: impl FnOnce(&str) -> Option<&'a Arc<Entry>>,
) -> Option<Event> {
    let kind = take(input, 1)?[0];
    let revision = number(input)?;
    let key = decode_key(input)?;
    let previous = current(key).cloned();
    let (kind, entry) = match (kind, &previous) {
        (PUT, _) => {
            let numbers = match &previous {
                Some(previous) => [previous.create_revision, revision, previous.version + 1],
                None => [revision, revision, 1],
            };
            let key = previous.as_ref().map_or_else(|| key.into(), |previous| Arc::clone(&previous.key));
            (EventKind::Put, decode_value(input, key, numbers)?)
        }
        (DELETE, Some(previous)) => (EventKind::Delete, previous.deleted(revision)),
        _ => return None,
    };
    Some(Event { kind, entry: Arc::new(entry), previous, revision })
}

/// A piece of a state: entries in the order of their keys.
pub(super) fn begin_entries(frame: &mut Vec<u8>) {
    frame.push(ENTRIES);
}

pub(super) fn encode_entry(entry: &Entry, frame: &mut Vec<u8>) {
    for number in [entry.create_revision, entry.mod_revision, entry.version] {
        frame.extend(number.to_le_bytes());
    }
    encode_value(entry, frame);
}

/// The frame after the last piece of a state.
pub(super) fn encode_end(entries: u64) -> Vec<u8> {
    let mut frame = vec![END];
    frame.extend(entries.to_le_bytes());
    frame
}

/// A frame of a state.
pub(super) enum Piece {
    Entries(Vec<Arc<Entry>>),
    /// All of them, and how many there were.
    End(u64),
}

pub(super) fn decode_piece(mut frame: &[u8]) -> Option<Piece> {
    let input = &mut frame;
    match take(input, 1)?[0] {
        END => Some(Piece::End(number(input)?)),
        ENTRIES => {
            let mut entries = Vec::new();
            while !input.is_empty() {
                let numbers = [number(input)?, number(input)?, number(input)?];
                let key = decode_key(input)?.into();
                entries.push(Arc::new(decode_value(input, key, numbers)?));
            }
            Some(Piece::Entries(entries))
        }
        _ => None,
    }
}

fn encode_key(key: &str, frame: &mut Vec<u8>) {
    // The commit refuses keys that are longer.
    frame.extend(u16::try_from(key.len()).unwrap_or(u16::MAX).to_le_bytes());
    frame.extend_from_slice(key.as_bytes());
}

fn decode_key<'a>(input: &mut &'a [u8]) -> Option<&'a str> {
    let length = u16::from_le_bytes(*take(input, 2)?.first_chunk()?);
    std::str::from_utf8(take(input, length.into())?).ok()
}

fn encode_value(entry: &Entry, frame: &mut Vec<u8>) {
    let hole = entry.hole.clone().unwrap_or(0..0);
    encode_key(&entry.key, frame);
    frame.extend(entry.expires_at.unwrap_or(NO_EXPIRY).to_le_bytes());
    // The commit refuses values that are longer.
    for number in [hole.start, hole.end, entry.value.len()] {
        frame.extend(u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
    }
    frame.extend_from_slice(&entry.value);
}

/// What `encode_value` wrote behind the key.
fn decode_value(input: &mut &[u8], key: Arc<str>, numbers: [u64; 3]) -> Option<Entry> {
    let expires = number(input)?.cast_signed();
    let hole = Range { start: number32(input)? as usize, end: number32(input)? as usize };
    let length = number32(input)? as usize;
    let value = take(input, length)?;
    value.get(hole.clone())?;
    Some(Entry::restore(
        key,
        Bytes::copy_from_slice(value),
        numbers,
        Some(expires).filter(|expires| *expires != NO_EXPIRY),
        Some(hole).filter(|hole| !hole.is_empty()),
    ))
}

fn take<'a>(input: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(taken)
}

fn number(input: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(*take(input, 8)?.first_chunk()?))
}

fn number32(input: &mut &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(*take(input, 4)?.first_chunk()?))
}
