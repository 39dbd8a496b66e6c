//! Ranges, pages, and why a read is refused.

use std::sync::Arc;

use crate::{Entry, Revision};

/// Which keys to read, at which revision, and how many.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Range {
    pub start: String,
    /// The first key after the range; empty for no end.
    pub end: String,
    /// An older revision to read at; the newest if `None`.
    pub at: Option<Revision>,
    /// At most this many entries; 0 for all.
    pub limit: usize,
    /// How many keys the range has, if the page before said so; they are counted otherwise, one by one.
    pub total: Option<usize>,
    /// What this server has at hand will do, though another may have written since.
    pub cached: bool,
}

impl Range {
    /// Every key that starts with `prefix`.
    pub fn prefix(prefix: impl Into<String>) -> Self {
        let start = prefix.into();
        let end = after_prefix(&start);
        Self { start, end, ..Self::default() }
    }

    #[must_use]
    pub fn at(mut self, revision: Revision) -> Self {
        self.at = Some(revision);
        self
    }

    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Reads what is at hand; see [`cached`](Range::cached).
    #[must_use]
    pub fn cached(mut self) -> Self {
        self.cached = true;
        self
    }

    /// Begins behind `key`: the next page after the one that ended with it.
    #[must_use]
    pub fn after(mut self, key: &str) -> Self {
        self.start = format!("{key}\0");
        self
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        *self.start <= *key && (self.end.is_empty() || *key < *self.end)
    }
}

/// The first string greater than all that start with `prefix`; empty if there is none.
fn after_prefix(prefix: &str) -> String {
    let mut head = prefix.to_owned();
    while let Some(last) = head.pop() {
        // Characters order as their UTF-8 bytes do; the range skips the surrogates.
        if let Some(next) = (last..=char::MAX).nth(1) {
            head.push(next);
            return head;
        }
    }
    head
}

/// Some of a range's entries, in order of their keys.
#[derive(Debug, Clone)]
pub struct Page {
    pub entries: Vec<Arc<Entry>>,
    /// The revision read at.
    pub revision: Revision,
    /// How many keys of the range follow the last one returned; 0 when the page completes it.
    pub remaining: usize,
}

/// Why a read or a watch is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("the revision asked for is no longer kept, {oldest} is the oldest; list again and go on from there")]
    Compacted {
        /// The oldest revision that can be read and watched from.
        oldest: Revision,
    },
    #[error("the revision asked for is yet to come, {current} is the newest")]
    Future { current: Revision },
    #[error("the store was stopped: {reason}")]
    Stopped { reason: String },
    #[error("the store cannot be reached at the moment: {reason}")]
    Unavailable { reason: String },
}
