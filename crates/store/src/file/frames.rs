//! Reads a file's blocks back as frames, and says where and why they end.

use std::io::{self, Read};

use super::block::{self, BLOCK, Found, MAX_FRAME};
use super::record::GroupHead;

/// Blocks read from the file at once.
const AHEAD: usize = 256;

/// A file from its beginning.
pub(super) struct Frames<R> {
    blocks: Blocks<R>,
    frame: Vec<u8>,
}

/// A file's blocks in turn.
struct Blocks<R> {
    input: R,
    salt: u64,
    /// The number of the next block.
    number: u64,
    buffer: Vec<u8>,
    /// Where in `buffer` the next block is.
    at: usize,
}

/// What comes next in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<'a> {
    Frame(&'a [u8]),
    /// No whole frame begins at this block: the file ends here, or was cut off.
    Missing {
        block: u64,
    },
    Damaged {
        block: u64,
    },
}

impl<R: Read> Frames<R> {
    pub(super) fn new(input: R) -> Self {
        let blocks = Blocks { input, salt: 0, number: 0, buffer: Vec::new(), at: 0 };
        Self { blocks, frame: Vec::new() }
    }

    /// For the blocks from here on.
    pub(super) fn set_salt(&mut self, salt: u64) {
        self.blocks.salt = salt;
    }

    /// The number of the next block.
    pub(super) fn block(&self) -> u64 {
        self.blocks.number
    }

    pub(super) fn next(&mut self) -> io::Result<Next<'_>> {
        let start = self.blocks.number;
        self.frame.clear();
        let mut wanted = 0;
        loop {
            let number = self.blocks.number;
            match self.blocks.peek()? {
                Found::First(payload, length) if number == start && length <= MAX_FRAME => {
                    wanted = length;
                    self.frame.extend_from_slice(payload);
                }
                Found::More(payload) if number > start => self.frame.extend_from_slice(payload),
                Found::Missing => return Ok(Next::Missing { block: start }),
                // A frame that ends before its length says so was not written like this.
                Found::First(..) | Found::More(_) | Found::Damaged => return Ok(Next::Damaged { block: number }),
            }
            self.blocks.skip();
            if self.frame.len() >= wanted {
                self.frame.truncate(wanted);
                return Ok(Next::Frame(&self.frame));
            }
        }
    }

    /// Looks through the rest of a log that ends at block `end`, for what shows that it did not end there when it
    /// was written: a damaged block, or a group that was written when blocks behind `end` were durable.
    pub(super) fn find_damage(&mut self, end: u64) -> io::Result<Option<u64>> {
        loop {
            let number = self.blocks.number;
            match self.blocks.peek()? {
                Found::Damaged => return Ok(Some(number)),
                Found::First(mut payload, _) => {
                    let head = GroupHead::decode(&mut payload);
                    if head.is_none_or(|head| head.durable_blocks > end) {
                        return Ok(Some(end));
                    }
                }
                Found::More(_) | Found::Missing => {}
            }
            if self.blocks.at_end() {
                return Ok(None);
            }
            self.blocks.skip();
        }
    }
}

impl<R: Read> Blocks<R> {
    fn peek(&mut self) -> io::Result<Found<'_>> {
        if self.buffer.len() - self.at < BLOCK {
            self.buffer.drain(..self.at);
            self.at = 0;
            let missing = (AHEAD * BLOCK - self.buffer.len()) as u64;
            self.input.by_ref().take(missing).read_to_end(&mut self.buffer)?;
        }
        let end = self.buffer.len().min(self.at + BLOCK);
        Ok(block::open(&self.buffer[self.at..end], self.salt, self.number))
    }

    /// After a look at the next block: whether there was not even a part of one.
    fn at_end(&self) -> bool {
        self.at == self.buffer.len()
    }

    fn skip(&mut self) {
        self.at = self.buffer.len().min(self.at + BLOCK);
        self.number += 1;
    }
}
