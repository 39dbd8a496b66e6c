//! The contract every engine fulfils.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{CommitError, Committed, Entry, Interest, Page, Range, ReadError, Revision, Txn, Watch};

/// A map from key to versioned bytes.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The newest revision that readers and watchers may see.
    fn revision(&self) -> Revision;

    /// Waits until readers and watchers may see `revision`: one that another server over the same
    /// store gave out may be a moment away. [`ReadError::Future`] if it does not come.
    async fn reach(&self, revision: Revision) -> Result<(), ReadError>;

    /// The newest version of a key: no commit that was answered before the call, by this or another
    /// server over the same store, is missed.
    async fn get(&self, key: &str) -> Result<Option<Arc<Entry>>, ReadError>;

    /// The keys of a range in order, now or at an older revision that is still kept. Now is as new as
    /// in [`get`](Store::get), unless the range says that what is at hand will do.
    ///
    /// A page with more to follow pins its state: pages that go on at its revision cost the same, whatever was
    /// written meanwhile, until the revision is compacted or the pin is given up (see [`Options::pinned_bytes`]).
    async fn range(&self, range: Range) -> Result<Page, ReadError>;

    /// Applies a transaction whole, or not at all. A transaction that changes nothing (only checks,
    /// or deletes of absent keys) uses no revision.
    ///
    /// Dropping the future does not withdraw the transaction: it may be committed all the same.
    async fn commit(&self, txn: Txn) -> Result<Committed, CommitError>;

    /// The changes under a prefix with a revision greater than `after`.
    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, ReadError> {
        self.subscribe(&Interest::prefix(prefix), after)
    }

    /// The changes that concern an interest with a revision greater than `after`.
    fn subscribe(&self, interest: &Interest, after: Revision) -> Result<Watch, ReadError>;

    /// Deletes the keys whose time is at or before `now_ms`, each at a revision of its own, and says
    /// how many. The caller's clock drives expiry: the store asks nobody for the time.
    async fn expire(&self, now_ms: i64) -> Result<usize, CommitError>;

    /// Drops the history at or below a revision: reads before it and watches from before it become
    /// [`ReadError::Compacted`].
    fn compact(&self, keep_after: Revision);

    /// Why the store takes no writes, if it takes none.
    fn health(&self) -> Result<(), String>;

    /// Makes everything durable and ends every watch; later commits are [`CommitError::Stopped`].
    async fn close(&self);
}

/// How much an engine keeps and queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Events kept for watches that start in the past and for reads at older revisions.
    pub history_events: usize,
    /// Bytes of values those events may hold on to; whichever bound is met first drops the oldest.
    pub history_bytes: usize,
    /// Bytes of replaced versions that a list by pages may hold on to; a list that takes longer reads the history.
    pub pinned_bytes: usize,
    /// Bytes of changes the file engine keeps beside its state before it writes the state anew; more if the state
    /// itself has more.
    pub log_bytes: u64,
    /// Writers that may wait in the file engine's queue before others wait to enter it.
    pub queue_length: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            history_events: 100_000,
            history_bytes: 32 << 20,
            pinned_bytes: 64 << 20,
            log_bytes: 128 << 20,
            queue_length: 1024,
        }
    }
}
