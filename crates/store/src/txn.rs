//! What is asked of a commit, and what comes back.

use std::sync::Arc;

use crate::{Entry, Revision, Splice};

/// The longest key, in bytes.
pub const MAX_KEY: usize = 4096;
/// The longest value, in bytes, before its revision is spliced in.
pub const MAX_VALUE: usize = 16 << 20;

/// The `what` of a [`CommitError::TooLarge`] that counts operations.
pub(crate) const OPERATIONS: &str = "transaction";
/// The `what` of a [`CommitError::TooLarge`] that is about a transaction's bytes in all.
pub(crate) const REQUEST: &str = "whole transaction";

/// Checks, and what to do when all of them hold.
#[derive(Debug, Default)]
pub struct Txn {
    pub checks: Vec<(Arc<str>, Expect)>,
    pub ops: Vec<Op>,
    pub durability: Durability,
}

/// What must be true of a key before the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// The key has no value.
    Absent,
    /// The key was last changed at this revision.
    Revision(Revision),
    /// The key has some value.
    Present,
}

/// One change of one key.
#[derive(Debug)]
pub enum Op {
    Put {
        key: Arc<str>,
        value: Splice,
        /// Unix milliseconds at which the key may be expired.
        expires_at: Option<i64>,
    },
    Delete {
        key: Arc<str>,
    },
}

/// When a transaction may be acknowledged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// After it is on disk.
    #[default]
    Synced,
    /// At once; it is on disk at most one second later.
    Relaxed,
}

impl Txn {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn check(mut self, key: impl Into<Arc<str>>, expect: Expect) -> Self {
        self.checks.push((key.into(), expect));
        self
    }

    #[must_use]
    pub fn put(mut self, key: impl Into<Arc<str>>, value: Splice) -> Self {
        self.ops.push(Op::Put { key: key.into(), value, expires_at: None });
        self
    }

    #[must_use]
    pub fn put_until(mut self, key: impl Into<Arc<str>>, value: Splice, expires_at: Option<i64>) -> Self {
        self.ops.push(Op::Put { key: key.into(), value, expires_at });
        self
    }

    #[must_use]
    pub fn delete(mut self, key: impl Into<Arc<str>>) -> Self {
        self.ops.push(Op::Delete { key: key.into() });
        self
    }

    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }
}

/// A transaction that was applied.
#[derive(Debug, Clone)]
pub struct Committed {
    /// The revision it took, or the current one if it changed nothing.
    pub revision: Revision,
    /// For each op in turn: a put's new version; a delete's last version with the deletion's
    /// revision spliced in, or `None` if the key was absent.
    pub entries: Vec<Option<Arc<Entry>>>,
}

/// Why a transaction was not acknowledged. It changed nothing, except where it says that it may have.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    #[error("key {key} is {}, which is not what the transaction expects; read it again and retry", describe(.current.as_deref()))]
    Conflict { key: Arc<str>, current: Option<Arc<Entry>> },
    /// Nobody sees it in this life of the store. If the disk failed while it was written, it may be there after the
    /// next start.
    #[error("the store takes no writes: {reason}")]
    Stopped { reason: String },
    /// The engine is elsewhere and did not answer: it may have applied the transaction or not.
    #[error("the store did not answer, so the write may have happened or not: {reason}")]
    Unavailable { reason: String },
    #[error("the {what} of key {key:.64} has {size} {}; between 1 and {limit} can be stored", unit(.what))]
    TooLarge { key: Arc<str>, what: &'static str, size: usize, limit: usize },
}

fn unit(what: &str) -> &'static str {
    if what == OPERATIONS { "operations" } else { "bytes" }
}

fn describe(current: Option<&Entry>) -> String {
    match current {
        Some(entry) => format!("at revision {}", entry.mod_revision),
        None => "absent".to_owned(),
    }
}
