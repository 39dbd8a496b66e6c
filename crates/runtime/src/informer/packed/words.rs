//! The words of a dictionary: strings that came more than once, each with a number.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Strings outside of this are not worth a word.
const WORTH: std::ops::RangeInclusive<usize> = 2..=256;

/// The dictionary stops growing here: words are never taken out, since objects refer to them.
const MOST_WORDS: usize = 65_536;
const MOST_BYTES: usize = 4 << 20;

/// Hashes of strings seen lately. A string becomes a word when it is seen a second time, so that names and addresses,
/// which never come again, do not fill the dictionary.
const SEEN: usize = 4096;

/// Short words that were asked for lately, at a power of two of places.
const AT_HAND: usize = 512;

#[derive(Debug, Default)]
pub(super) struct Words {
    codes: HashMap<Arc<str>, u32, BuildHasherDefault<WordHasher>>,
    words: Vec<Arc<str>>,
    seen: Vec<u32>,
    at_hand: Vec<(Short, u32)>,
    bytes: usize,
}

/// A string of at most 32 bytes as its first and its last sixteen, which overlap in shorter ones. No two are alike: the
/// length tells `aa` from `aaa`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Short {
    first: u128,
    last: u128,
    length: u8,
}

impl Short {
    /// `None` for what is longer.
    fn of(bytes: &[u8]) -> Option<Short> {
        let (first, last) = match bytes.len() {
            16..=32 => (u128::from_le_bytes(*bytes.first_chunk()?), u128::from_le_bytes(*bytes.last_chunk()?)),
            8..16 => {
                (u64::from_le_bytes(*bytes.first_chunk()?).into(), u64::from_le_bytes(*bytes.last_chunk()?).into())
            }
            4..8 => (u32::from_le_bytes(*bytes.first_chunk()?).into(), u32::from_le_bytes(*bytes.last_chunk()?).into()),
            2..4 => (u16::from_le_bytes(*bytes.first_chunk()?).into(), u16::from_le_bytes(*bytes.last_chunk()?).into()),
            _ => return None,
        };
        Some(Short { first, last, length: bytes.len() as u8 })
    }

    fn place(self) -> usize {
        let folded = self.first ^ self.last.rotate_left(59);
        let folded = (folded as u64) ^ (folded >> 64) as u64 ^ u64::from(self.length);
        (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize % AT_HAND
    }
}

/// Every string of every object is looked up, and most are short: there the standard hasher takes longer than all else. It
/// guards against made-up collisions no better, since the same object must be packed the same way in every run.
#[derive(Default)]
struct WordHasher(u64);

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    /// What follows a string to tell it from the next; here each stands alone.
    fn write_u8(&mut self, _: u8) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Words {
    /// What the words take, roughly.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + size_of_val(self.seen.as_slice()) + size_of_val(self.at_hand.as_slice())
    }

    pub(super) fn word(&self, code: u32) -> Option<&str> {
        self.words.get(code as usize).map(AsRef::as_ref)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    /// The word's number; the second time a string is seen it becomes a word.
    pub(super) fn code_of(&mut self, string: &str) -> Option<u32> {
        if !WORTH.contains(&string.len()) {
            return None;
        }
        let Some(short) = Short::of(string.as_bytes()) else { return self.look_up(string) };
        if self.at_hand.is_empty() {
            self.at_hand = vec![(Short::default(), 0); AT_HAND];
        }
        let place = short.place();
        if let Some((known, code)) = self.at_hand.get(place).filter(|(known, _)| *known == short) {
            debug_assert_eq!(self.word(*code).map(str::len), Some(usize::from(known.length)));
            return Some(*code);
        }
        let code = self.look_up(string)?;
        self.at_hand[place] = (short, code);
        Some(code)
    }

    fn look_up(&mut self, string: &str) -> Option<u32> {
        if let Some(code) = self.codes.get(string) {
            return Some(*code);
        }
        if self.words.len() >= MOST_WORDS || self.bytes >= MOST_BYTES {
            return None;
        }
        if self.seen.is_empty() {
            self.seen = vec![0; SEEN];
        }
        let hash = self.codes.hasher().hash_one(string);
        let (place, rest) = (&mut self.seen[hash as usize % SEEN], (hash >> 32) as u32);
        if *place != rest {
            *place = rest;
            return None;
        }
        let code = u32::try_from(self.words.len()).ok()?;
        let word: Arc<str> = string.into();
        self.bytes += word.len() + 16 + 2 * size_of::<Arc<str>>() + 12;
        self.words.push(word.clone());
        self.codes.insert(word, code);
        Some(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_that_are_alike_at_both_ends_are_still_told_apart() {
        let mut words = Words::default();
        let mut strings: Vec<String> = (1..=64).map(|length| "a".repeat(length)).collect();
        strings.extend((0..40).map(|at| format!("{}b{}", "a".repeat(at), "a".repeat(39 - at))));
        strings.extend((0..16).map(|at| format!("{}b{}", "a".repeat(at), "a".repeat(15 - at))));
        let mut found = 0;
        for string in (0..4).flat_map(|_| &strings) {
            if let Some(code) = words.code_of(string) {
                assert_eq!(words.word(code), Some(string.as_str()));
                found += 1;
            }
        }
        // Two that have one place in what was seen lately keep each other out.
        assert!(found > 2 * strings.len(), "{found} of {}", strings.len());
        assert_eq!(words.code_of("a"), None, "not worth a word");
    }
}
