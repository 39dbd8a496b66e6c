//! The words of a dictionary: strings that came more than once, each with a number.

use xxhash_rust::xxh3::xxh3_64;

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

/// Places for words at first; there are always at least twice as many as words.
const FIRST_PLACES: usize = 512;

/// A code that no word has.
const NONE: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct Words {
    words: Vec<Box<str>>,
    /// Each word's code, with a part of its hash, at the first free place from where the hash says; a power of two of them.
    places: Vec<(u32, u32)>,
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
fn hash(string: &str) -> u64 {
    xxh3_64(string.as_bytes())
}

/// The part of a hash that says nothing about the place.
fn mark(hash: u64) -> u32 {
    (hash >> 32) as u32
}

impl Words {
    /// What the words take, roughly.
    pub(super) fn bytes(&self) -> usize {
        let places = size_of_val(self.places.as_slice());
        self.bytes + places + size_of_val(self.seen.as_slice()) + size_of_val(self.at_hand.as_slice())
    }

    pub(super) fn word(&self, code: u32) -> Option<&str> {
        self.words.get(code as usize).map(AsRef::as_ref)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    /// The number of a short word that came a moment ago, as most do. It is one as it stands: it has no escapes.
    pub(super) fn at_hand(&self, string: &str) -> Option<u32> {
        let short = Short::of(string.as_bytes())?;
        let (known, code) = self.at_hand.get(short.place())?;
        (*known == short).then_some(*code)
    }

    /// The word's number; the second time a string is seen it becomes a word.
    pub(super) fn code_of(&mut self, string: &str) -> Option<u32> {
        if !WORTH.contains(&string.len()) {
            return None;
        }
        if let Some(code) = self.at_hand(string) {
            return Some(code);
        }
        let code = self.look_up(string)?;
        // Text with escapes in it would be found for the string that looks like it.
        if let Some(short) = Short::of(string.as_bytes()).filter(|_| !string.contains('\\')) {
            if self.at_hand.is_empty() {
                self.at_hand = vec![(Short::default(), 0); AT_HAND];
            }
            self.at_hand[short.place()] = (short, code);
        }
        Some(code)
    }

    fn look_up(&mut self, string: &str) -> Option<u32> {
        if self.places.is_empty() {
            self.places = vec![(0, NONE); FIRST_PLACES];
            self.seen = vec![0; SEEN];
        }
        let hash = hash(string);
        let place = match self.find(hash, string) {
            Ok(code) => return Some(code),
            Err(free) => free,
        };
        if self.words.len() >= MOST_WORDS || self.bytes >= MOST_BYTES {
            return None;
        }
        let seen = &mut self.seen[hash as usize % SEEN];
        if *seen != mark(hash) {
            *seen = mark(hash);
            return None;
        }
        let code = u32::try_from(self.words.len()).ok()?;
        self.bytes += string.len() + size_of::<Box<str>>();
        self.words.push(string.into());
        self.places[place] = (mark(hash), code);
        if self.words.len() * 2 > self.places.len() {
            self.spread();
        }
        Some(code)
    }

    /// The word's code, or the place where it would stand.
    fn find(&self, hash: u64, string: &str) -> Result<u32, usize> {
        let mut place = hash as usize % self.places.len();
        loop {
            match self.places[place] {
                (_, NONE) => return Err(place),
                (known, code) if known == mark(hash) && self.word(code) == Some(string) => return Ok(code),
                _ => place = (place + 1) % self.places.len(),
            }
        }
    }

    /// Twice as many places.
    fn spread(&mut self) {
        self.places = vec![(0, NONE); self.places.len() * 2];
        for (code, word) in (0..).zip(&self.words) {
            let hash = hash(word);
            if let Err(free) = self.find(hash, word) {
                self.places[free] = (mark(hash), code);
            }
        }
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

    #[test]
    fn words_keep_their_numbers_however_many_come() {
        let mut words = Words::default();
        let strings: Vec<String> = (0..5_000).map(|number| format!("a word that is not short: {number:060}")).collect();
        let codes: Vec<Option<u32>> =
            strings.iter().map(|string| [words.code_of(string), words.code_of(string)][1]).collect();
        for (string, code) in strings.iter().zip(&codes) {
            assert_eq!((words.code_of(string), code.and_then(|code| words.word(code))), (*code, Some(string.as_str())));
        }
        assert_eq!(words.len(), strings.len());
    }
}
