//! Header blocks of SPDY/3.1 as a sender writes them: one zlib stream for the whole connection, not compressed.
//!
//! SPDY wants headers compressed with zlib, primed with a dictionary that both sides know. A zlib stream may consist of stored
//! blocks alone. Those refer to nothing, so the dictionary itself is not needed, only its checksum in the stream's header.

use std::collections::BTreeMap;

/// Deflate with a window of 32 KiB, a preset dictionary, and that dictionary's Adler-32 checksum as SPDY/3 defines it.
const ZLIB_HEADER: [u8; 6] = [0x78, 0xbb, 0xe3, 0xc6, 0xa7, 0xc2];

/// A stored block of nothing. A reader hands on what it has when it meets one.
const SYNC: [u8; 5] = [0, 0, 0, 0xff, 0xff];

/// The longest content of one stored block.
const BLOCK: usize = 0xffff;

/// Writes the header blocks of one connection.
#[derive(Debug, Default)]
pub(super) struct HeaderWriter {
    begun: bool,
}

impl HeaderWriter {
    /// The names must be in lower case.
    pub(super) fn block(&mut self, headers: &[(&str, &str)]) -> Vec<u8> {
        let mut plain = Vec::new();
        plain.extend(length(headers.len()));
        for (name, value) in headers {
            for text in [name, value] {
                plain.extend(length(text.len()));
                plain.extend_from_slice(text.as_bytes());
            }
        }
        let mut block = Vec::with_capacity(plain.len() + 16);
        if !self.begun {
            self.begun = true;
            block.extend(ZLIB_HEADER);
        }
        for chunk in plain.chunks(BLOCK) {
            let size = u16::try_from(chunk.len()).unwrap_or(u16::MAX);
            block.push(0);
            block.extend(size.to_le_bytes());
            block.extend((!size).to_le_bytes());
            block.extend_from_slice(chunk);
        }
        block.extend(SYNC);
        block
    }
}

/// Reads a header block that is plain by now; nothing if it is none.
pub(super) fn parse(plain: &[u8]) -> Option<BTreeMap<String, String>> {
    let mut rest = plain;
    let number = |rest: &mut &[u8]| {
        let (first, more) = rest.split_first_chunk()?;
        *rest = more;
        usize::try_from(u32::from_be_bytes(*first)).ok()
    };
    let text = |rest: &mut &[u8]| {
        let length = number(rest)?;
        let (text, more) = rest.split_at_checked(length)?;
        *rest = more;
        String::from_utf8(text.to_vec()).ok()
    };
    let count = number(&mut rest)?;
    // Each takes eight bytes at least: a wrong number ends with the bytes.
    (0..count).map(|_| Some((text(&mut rest)?, text(&mut rest)?))).collect()
}

fn length(value: usize) -> [u8; 4] {
    u32::try_from(value).unwrap_or(u32::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_of_header_blocks_begins_once() {
        let mut writer = HeaderWriter::default();
        let first = writer.block(&[("a", "bc")]);
        let plain = [&[0, 0, 0, 1, 0, 0, 0, 1, b'a', 0, 0, 0, 2, b'b', b'c'][..]].concat();
        let stored = [&[0, 15, 0, 0xf0, 0xff][..], &plain, &SYNC].concat();
        assert_eq!(first, [&ZLIB_HEADER[..], &stored].concat());
        assert_eq!(writer.block(&[("a", "bc")]), stored);
        let check = u16::from_be_bytes([ZLIB_HEADER[0], ZLIB_HEADER[1]]);
        assert_eq!(check % 31, 0, "zlib's own check of its header");
    }
}
