//! The lines files are written in: 512 bytes each, so that a write that was cut off can be told from damage.
//!
//! A disk writes a sector whole, or from its beginning up to somewhere, or not at all; the part it did not write
//! reads as zeros, as every block is written once. So a block that is not as it was written was either cut off,
//! and then its last byte is zero, or it is damaged. A frame is one or more blocks: its length, its bytes, and
//! filling up to the end of the last block.
//!
//! ```text
//! checksum (4) | kind (1) | payload (506) | mark (1)
//! ```
//!
//! The checksum covers the file's and the block's number too: a block in the wrong place is damage.

use xxhash_rust::xxh3::xxh3_64_with_seed;

pub(super) const BLOCK: usize = 512;
const HEAD: usize = 5;
const PAYLOAD: usize = BLOCK - HEAD - 1;
/// The last byte of every block, and what a frame is filled up with. Not zero.
const MARK: u8 = 0xA5;
/// A frame longer than this was not written by us.
pub(super) const MAX_FRAME: usize = 1 << 30;

const FIRST: u8 = 1;
const MORE: u8 = 2;

/// What was found where a block should be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// The first block of a frame, and how long the frame is.
    First(&'a [u8], usize),
    More(&'a [u8]),
    /// Not written, or not to its end.
    Missing,
    Damaged,
}

/// How many blocks a frame of this length takes.
pub(super) fn blocks(length: usize) -> u64 {
    (length + 4).div_ceil(PAYLOAD) as u64
}

/// Appends a frame as blocks numbered from `number`.
pub(super) fn seal(frame: &[u8], salt: u64, number: u64, out: &mut Vec<u8>) {
    let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
    out.reserve(usize::try_from(blocks(frame.len())).unwrap_or(0) * BLOCK);
    let (first, rest) = frame.split_at(frame.len().min(PAYLOAD - 4));
    push(out, FIRST, &[&length.to_le_bytes(), first], salt, number);
    for (more, number) in rest.chunks(PAYLOAD).zip(number + 1..) {
        push(out, MORE, &[more], salt, number);
    }
}

fn push(out: &mut Vec<u8>, kind: u8, parts: &[&[u8]], salt: u64, number: u64) {
    let start = out.len();
    out.extend_from_slice(&[0, 0, 0, 0, kind]);
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out.resize(start + BLOCK, MARK);
    let sum = checksum(&out[start + 4..start + BLOCK - 1], salt, number);
    out[start..start + 4].copy_from_slice(&sum.to_le_bytes());
}

/// What the bytes at a block's place are; fewer than a block are a file's end.
pub(super) fn open(bytes: &[u8], salt: u64, number: u64) -> Found<'_> {
    let Some((block, [])) = bytes.split_first_chunk::<BLOCK>() else { return Found::Missing };
    // The mark is not covered: a block that lacks nothing else is whole.
    if block[..4] == checksum(&block[4..BLOCK - 1], salt, number).to_le_bytes() {
        return unseal(block);
    }
    if block[BLOCK - 1] == 0 { Found::Missing } else { Found::Damaged }
}

fn unseal(block: &[u8; BLOCK]) -> Found<'_> {
    let payload = &block[HEAD..HEAD + PAYLOAD];
    match (block[4], payload.split_first_chunk::<4>()) {
        (FIRST, Some((length, rest))) => Found::First(rest, u32::from_le_bytes(*length) as usize),
        (MORE, _) => Found::More(payload),
        _ => Found::Damaged,
    }
}

fn checksum(bytes: &[u8], salt: u64, number: u64) -> u32 {
    let seed = salt.rotate_left(32) ^ number;
    (xxh3_64_with_seed(bytes, seed) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_was_cut_off_is_missing_and_one_that_was_changed_is_damaged() {
        let mut sealed = Vec::new();
        seal(&[0; 2000], 7, 3, &mut sealed);
        assert_eq!(sealed.len() as u64, blocks(2000) * BLOCK as u64);
        for (block, number) in sealed.chunks(BLOCK).zip(3..) {
            assert!(matches!(open(block, 7, number), Found::First(_, 2000) | Found::More(_)));
            assert_eq!(open(block, 7, number + 1), Found::Damaged, "in another place");
            assert_eq!(open(block, 8, number), Found::Damaged, "in another file");
            for at in 0..BLOCK - 1 {
                let mut cut = block.to_vec();
                cut[at..].fill(0);
                assert_eq!(open(&cut[..at], 7, number), Found::Missing);
                if cut[..BLOCK - 1] != block[..BLOCK - 1] {
                    assert_eq!(open(&cut, 7, number), Found::Missing);
                }
                for other in [block[at] ^ 0x10, 0, 0xFF].into_iter().filter(|other| *other != block[at]) {
                    let mut flipped = block.to_vec();
                    flipped[at] = other;
                    assert_eq!(open(&flipped, 7, number), Found::Damaged);
                }
            }
            for mark in [0, 1, 0xFF] {
                let mut flipped = block.to_vec();
                flipped[BLOCK - 1] = mark;
                assert_eq!(open(&flipped, 7, number), open(block, 7, number), "the mark holds no data");
            }
        }
    }

    #[test]
    fn frames_of_every_length_come_back() {
        for length in [0, 1, 501, 502, 503, 1007, 1008, 1009, 5000] {
            let frame: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
            let mut sealed = Vec::new();
            seal(&frame, 1, 0, &mut sealed);
            assert_eq!(sealed.len() as u64, blocks(length) * BLOCK as u64);
            let mut read = Vec::new();
            for (block, number) in sealed.chunks(BLOCK).zip(0..) {
                match open(block, 1, number) {
                    Found::First(payload, found) => {
                        assert_eq!((number, found), (0, length));
                        read.extend_from_slice(payload);
                    }
                    Found::More(payload) => read.extend_from_slice(payload),
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(read[..length], frame);
        }
    }
}
