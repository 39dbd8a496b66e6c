//! The engine for tests: the same state without the disk.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::snapshot::Snapshot;
use crate::state::State;
use crate::{CommitError, Committed, Entry, Interest, Options, Page, Range, ReadError, Revision, Store, Txn, Watch};

/// A store that lives as long as it is held.
///
/// A commit runs to its end in the caller's thread and nothing here waits, so that runs on one
/// thread are deterministic.
#[derive(Debug)]
pub struct MemoryStore {
    state: Arc<State>,
    /// One writer at a time; first in the lock order.
    writing: Mutex<()>,
}

impl MemoryStore {
    pub fn new() -> Self {
        Self::with_options(Options::default())
    }

    pub fn with_options(options: Options) -> Self {
        Self::from_state(State::new(Snapshot::new(1, []), options))
    }

    /// A store of its own with the same keys, revision and history, but no watchers. It shares
    /// memory with this one until either writes, so it costs the same for any size.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self::from_state(self.state.fork())
    }

    pub(crate) fn from_state(state: State) -> Self {
        Self { state: Arc::new(state), writing: Mutex::new(()) }
    }

    fn writing(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn pin_count(&self) -> usize {
        self.state.pin_count()
    }

    #[cfg(test)]
    pub(crate) fn topic_count(&self) -> usize {
        self.state.topic_count()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn revision(&self) -> Revision {
        self.state.revision()
    }

    async fn reach(&self, revision: Revision) -> Result<(), ReadError> {
        self.state.check_reached(revision)
    }

    async fn get(&self, key: &str) -> Result<Option<Arc<Entry>>, ReadError> {
        Ok(self.state.get(key))
    }

    async fn range(&self, range: Range) -> Result<Page, ReadError> {
        self.state.range(&range)
    }

    async fn commit(&self, txn: Txn) -> Result<Committed, CommitError> {
        let _writing = self.writing();
        self.state.check_running()?;
        let mut stage = self.state.stage();
        let committed = stage.apply(txn)?;
        // The answer is the return: a woken watcher is run no earlier than the writer waits for something else.
        drop(self.state.publish(stage));
        Ok(committed)
    }

    fn subscribe(&self, interest: &Interest, after: Revision) -> Result<Watch, ReadError> {
        self.state.watch(interest, after)
    }

    async fn expire(&self, now_ms: i64) -> Result<usize, CommitError> {
        let _writing = self.writing();
        self.state.check_running()?;
        let mut stage = self.state.stage();
        let expired = stage.expire(now_ms, usize::MAX);
        drop(self.state.publish(stage));
        Ok(expired)
    }

    fn compact(&self, keep_after: Revision) {
        self.state.compact(keep_after);
    }

    fn health(&self) -> Result<(), String> {
        self.state.health()
    }

    async fn close(&self) {
        let _writing = self.writing();
        self.state.close();
    }
}
