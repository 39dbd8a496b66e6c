//! Objects kept small: JSON as tokens, with strings that come again and again kept once in a dictionary.
//!
//! Worked example, with `kind` and `Pod` known as 0 and 1 and nothing else known:
//!
//! ```text
//! {"kind":"Pod","weight":7}   →   { 16 17  string 6 "weight"  number 7  }
//! ```
//!
//! Commas and colons follow from the grammar and are not kept. What is not text by nature is kept as what it is: a
//! uid in 16 bytes, a time in seven, a version as its number. Everything comes back byte for byte, so that what is
//! decoded is what the server sent.

#[cfg(test)]
mod tests;
mod values;
mod words;
mod write;

use values::{quoted, read_varint, take, varint, write_time, write_uid};
use words::Words;
pub use write::Packer;

const OBJECT: u8 = b'{';
const OBJECT_END: u8 = b'}';
const ARRAY: u8 = b'[';
const ARRAY_END: u8 = b']';

/// Tags of one byte; those of [`SHORT`] and above are words of the dictionary themselves.
mod tag {
    pub(super) const OBJECT: u8 = 0;
    pub(super) const OBJECT_END: u8 = 1;
    pub(super) const ARRAY: u8 = 2;
    pub(super) const ARRAY_END: u8 = 3;
    pub(super) const TRUE: u8 = 4;
    pub(super) const FALSE: u8 = 5;
    pub(super) const NULL: u8 = 6;
    /// Length, then the bytes between the quotes, escapes as they are.
    pub(super) const STRING: u8 = 7;
    /// Length, then the bytes of any number that is not a plain one.
    pub(super) const NUMBER: u8 = 8;
    pub(super) const PLAIN_NUMBER: u8 = 9;
    pub(super) const UID: u8 = 10;
    pub(super) const TIME: u8 = 11;
    /// A string of digits.
    pub(super) const DIGITS: u8 = 12;
    pub(super) const WORD: u8 = 13;
    /// 224 words in one byte, 4,096 in two.
    pub(super) const SHORT: u8 = 16;
    pub(super) const MEDIUM: u8 = 240;
}

const SHORT_WORDS: u32 = (tag::MEDIUM - tag::SHORT) as u32;
const MEDIUM_WORDS: u32 = 16 * 256;

const FIELDS: usize = 512;

#[derive(Debug, Default)]
pub struct Dictionary {
    words: Words,
    /// Fields that were written lately, each at the place that its address gives it.
    fields: Vec<(&'static str, u32)>,
    /// Where an object is packed before its length is known; what is kept has no room to spare.
    packing: Vec<u8>,
}

impl Dictionary {
    /// What the dictionary itself takes, roughly.
    pub fn bytes(&self) -> usize {
        self.words.bytes() + size_of_val(self.fields.as_slice())
    }

    /// The number of a field's name. Names of fields are the program's own, so where one stands says which it is.
    fn field(&mut self, name: &'static str) -> Option<u32> {
        if self.fields.is_empty() {
            self.fields = vec![("", 0); FIELDS];
        }
        let place = (name.as_ptr() as usize).wrapping_mul(31).wrapping_add(name.len()) % FIELDS;
        let (known, code) = self.fields[place];
        if std::ptr::eq(known, name) {
            return Some(code);
        }
        let code = self.words.code_of(name)?;
        self.fields[place] = (name, code);
        Some(code)
    }

    /// The JSON again; `None` if the bytes are not what `pack` of this dictionary made.
    pub fn unpack(&self, packed: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(packed.len() * 4);
        // For each open bracket: whether it is an object, and how many tokens stand in it.
        let mut open: Vec<(bool, usize)> = Vec::with_capacity(16);
        let mut rest = packed;
        while let Some((first, after)) = rest.split_first() {
            let closes = matches!(*first, tag::OBJECT_END | tag::ARRAY_END);
            if let Some((is_object, tokens)) = open.last_mut().filter(|_| !closes) {
                match (*tokens, *is_object && *tokens % 2 == 1) {
                    (_, true) => out.push(b':'),
                    (0, _) => {}
                    _ => out.push(b','),
                }
                *tokens += 1;
            }
            rest = after;
            match *first {
                tag::OBJECT => {
                    open.push((true, 0));
                    out.push(OBJECT);
                }
                tag::ARRAY => {
                    open.push((false, 0));
                    out.push(ARRAY);
                }
                tag::OBJECT_END | tag::ARRAY_END => {
                    out.push(if open.pop()?.0 { OBJECT_END } else { ARRAY_END });
                }
                tag::TRUE => out.extend_from_slice(b"true"),
                tag::FALSE => out.extend_from_slice(b"false"),
                tag::NULL => out.extend_from_slice(b"null"),
                tag::STRING => {
                    let length = usize::try_from(read_varint(&mut rest)?).ok()?;
                    quoted(&mut out, take(&mut rest, length)?);
                }
                tag::NUMBER => {
                    let length = usize::try_from(read_varint(&mut rest)?).ok()?;
                    out.extend_from_slice(take(&mut rest, length)?);
                }
                tag::PLAIN_NUMBER => out.extend_from_slice(read_varint(&mut rest)?.to_string().as_bytes()),
                tag::DIGITS => quoted(&mut out, read_varint(&mut rest)?.to_string().as_bytes()),
                tag::UID => write_uid(&mut out, take(&mut rest, 16)?),
                tag::TIME => write_time(&mut out, take(&mut rest, 7)?),
                tag::WORD => {
                    let code = u32::try_from(read_varint(&mut rest)?).ok()?;
                    quoted(&mut out, self.words.word(code)?.as_bytes());
                }
                short @ tag::SHORT..tag::MEDIUM => {
                    quoted(&mut out, self.words.word(u32::from(short - tag::SHORT))?.as_bytes());
                }
                medium @ tag::MEDIUM.. => {
                    let low = u32::from(*take(&mut rest, 1)?.first()?);
                    let code = SHORT_WORDS + u32::from(medium - tag::MEDIUM) * 256 + low;
                    quoted(&mut out, self.words.word(code)?.as_bytes());
                }
                _ => return None,
            }
        }
        Some(out)
    }
}

fn word(out: &mut Vec<u8>, code: u32) {
    match code {
        short if short < SHORT_WORDS => out.push(tag::SHORT + short as u8),
        medium if medium < SHORT_WORDS + MEDIUM_WORDS => {
            let code = medium - SHORT_WORDS;
            out.extend_from_slice(&[tag::MEDIUM + (code / 256) as u8, (code % 256) as u8]);
        }
        long => {
            out.push(tag::WORD);
            varint(out, u64::from(long));
        }
    }
}
