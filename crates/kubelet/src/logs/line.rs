//! One line of a log as CRI runtimes write it: `2026-01-02T03:04:05.678901234Z stdout F text`.

use jiff::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// A line, or with `partial` a piece of one that goes on in the next of the same stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// As it is written in the file.
    pub(crate) time: &'a str,
    pub(crate) stream: Stream,
    pub(crate) partial: bool,
    pub(crate) text: &'a [u8],
}

impl<'a> Line<'a> {
    /// Reads a line without its line feed; nothing if it is none.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut parts = bytes.splitn(4, |byte| *byte == b' ');
        let time = std::str::from_utf8(parts.next()?).ok()?;
        let stream = match parts.next()? {
            b"stdout" => Stream::Stdout,
            b"stderr" => Stream::Stderr,
            _ => return None,
        };
        // Tags after the first are for later versions of the format.
        let partial = match parts.next()?.split(|byte| *byte == b':').next()? {
            b"P" => true,
            b"F" => false,
            _ => return None,
        };
        Some(Line { time, stream, partial, text: parts.next().unwrap_or_default() })
    }

    pub(crate) fn moment(&self) -> Option<Timestamp> {
        self.time.parse().ok()
    }
}
