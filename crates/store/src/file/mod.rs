//! The default engine: state in memory, made durable by one writer thread through fjall.
//!
//! - Many writers share one sync: the thread takes all that is queued as one group.
//! - A group is acknowledged, and seen by readers and watchers, after its sync returned.
//! - A group of only relaxed transactions is seen at once and synced within a second.
//! - A failed write stops the store for good; reads go on from memory.
//! - A revision is never given out twice, not even when relaxed transactions were lost with the
//!   machine's power: their revisions are reserved on disk before they are used.
//!
//! `disk` is what is on disk, `record` how one version is laid out there, `writer` the thread.

mod disk;
mod error;
mod record;
#[cfg(test)]
mod tests;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use async_trait::async_trait;
use tokio::sync::{Semaphore, oneshot};

pub use self::error::OpenError;
use self::writer::{Queued, Request, Writer};
pub use crate::Options;
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::{CommitError, Committed, Entry, Page, Range, ReadError, Revision, Store, Txn, Watch};

/// A store in a directory, which it has to itself.
#[derive(Debug)]
pub struct FileStore {
    state: Arc<State>,
    queue: SyncSender<Queued>,
    /// Room in `queue`, so that a task waits for it without blocking its thread.
    room: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

impl FileStore {
    /// Opens the store in `dir`, or makes one there. Blocks while it reads all of it.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        let dir = dir.as_ref();
        let (disk, loaded) = disk::Fjall::open(dir)?;
        let snapshot = Snapshot::new(loaded.revision, loaded.entries);
        Self::start(disk, loaded.reserved, snapshot, options)
            .map_err(|source| OpenError::Directory { dir: dir.to_owned(), source })
    }

    fn start(disk: impl disk::Disk, reserved: Revision, snapshot: Snapshot, options: Options) -> std::io::Result<Self> {
        let state = Arc::new(State::new(snapshot, options));
        let length = options.queue_length.max(1);
        // A request holds a permit of `room` while queued; the one more is for `drop`, which has none.
        let (queue, requests) = sync_channel(length + 1);
        let writer = Writer::new(Arc::clone(&state), disk, reserved, requests);
        let thread = std::thread::Builder::new().name("store-writer".to_owned()).spawn(|| writer.run())?;
        let room = Arc::new(Semaphore::new(length));
        Ok(Self { state, queue, room, thread: Some(thread) })
    }

    /// Queues a request and waits for its answer; `None` if the writer has ended.
    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        let permit = Arc::clone(&self.room).acquire_owned().await.ok()?;
        self.queue.try_send(Queued::new(request(reply), Some(permit))).ok()?;
        answer.await.ok()
    }

    fn stopped(&self) -> CommitError {
        self.state.stop("its writer ended unexpectedly; see the log and restart");
        let reason = self.state.health().err().unwrap_or_default();
        CommitError::Stopped { reason }
    }
}

#[async_trait]
impl Store for FileStore {
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
        self.state.check_running()?;
        let answer = self.ask(|reply| Request::Commit { txn, reply }).await;
        answer.unwrap_or_else(|| Err(self.stopped()))
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, ReadError> {
        self.state.watch(prefix, after)
    }

    async fn expire(&self, now_ms: i64) -> Result<usize, CommitError> {
        self.state.check_running()?;
        let answer = self.ask(|reply| Request::Expire { now_ms, reply }).await;
        answer.unwrap_or_else(|| Err(self.stopped()))
    }

    fn compact(&self, keep_after: Revision) {
        self.state.compact(keep_after);
    }

    fn health(&self) -> Result<(), String> {
        self.state.health()
    }

    async fn close(&self) {
        // Without an answer the writer has ended before, and closed what there was to close.
        let _ = self.ask(|reply| Request::Close { reply: Some(reply) }).await;
    }
}

impl Drop for FileStore {
    /// Ends like `close`, so that the directory is free for the next to open it.
    fn drop(&mut self) {
        let _ = self.queue.send(Queued::new(Request::Close { reply: None }, None));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
