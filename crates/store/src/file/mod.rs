//! The default engine: state in memory, made durable in a directory of its own.
//!
//! - Many writers share one sync: a thread takes all that is queued as one group.
//! - A group is acknowledged, and seen by readers and watchers, after its sync returned.
//! - A group of only relaxed transactions is seen at once and synced within a second.
//! - A failed write stops the store for good; reads go on from memory.
//! - A revision is never given out twice, not even when relaxed transactions were lost with the
//!   machine's power: their revisions are reserved on disk before they are used.
//!
//! On disk are a state, `state-N`, and the changes after it, `log-N`, `log-N+1` and so on. Every start begins a
//! log. When the logs have grown, the current one ends, and another thread writes the state that stands for all of
//! them. That is all: the keys are in memory, so nothing on disk is ever looked up.
//!
//! # Layout
//!
//! From the bytes up: `disk` is a directory as the engine sees it, `block` a line of 512 bytes, `frames` reads them
//! back, `record` is what is in them; `log` and `checkpoint` write the two kinds of file, `recover` reads them.
//! `prepare` applies a group of requests ahead of the disk, `engine` commits it and puts all of these together a step at
//! a time, and `writer` has the threads that take the steps. `backup` is a
//! state in a file elsewhere. `sim` (tests) is a disk that loses power.

pub mod backup;
mod block;
mod checkpoint;
mod disk;
mod engine;
mod error;
mod frames;
mod log;
mod prepare;
mod record;
mod recover;
#[cfg(any(test, feature = "contract"))]
pub mod sim;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod torture;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use async_trait::async_trait;
use tokio::sync::{Semaphore, oneshot};

pub use self::disk::{Disk, DiskFile};
use self::engine::Engine;
pub use self::error::OpenError;
use self::prepare::{EXPIRE_AT_ONCE, Work};
use self::writer::{Queued, Request, Writer};
pub use crate::Options;
use crate::failpoint::{Failpoints, Undisturbed};
use crate::state::State;
use crate::{
    CommitError, Committed, Entry, Interest, MemoryStore, Page, Range, ReadError, Revision, Store, Txn, Watch,
};

/// A store in a directory, which it has to itself.
#[derive(Debug)]
pub struct FileStore {
    state: Arc<State>,
    queue: SyncSender<Queued>,
    /// Room in `queue`, so that a task waits for it without blocking its thread.
    room: Arc<Semaphore>,
    threads: Vec<JoinHandle<()>>,
}

impl FileStore {
    /// Opens the store in `dir`, or makes one there. Blocks while it reads all of it.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        let dir = dir.as_ref();
        let disk = Arc::new(disk::Directory::lock(dir)?);
        Self::start(dir, disk, options, Arc::new(Undisturbed))
    }

    /// Opens the store on a disk of the caller's, who may step in at its failpoints.
    #[cfg(any(test, feature = "contract"))]
    pub fn open_on(
        disk: Arc<dyn Disk>,
        options: Options,
        failpoints: Option<Arc<dyn Failpoints>>,
    ) -> Result<Self, OpenError> {
        let failpoints = failpoints.unwrap_or_else(|| Arc::new(Undisturbed));
        Self::start(Path::new("a simulated disk"), disk, options, failpoints)
    }

    fn start(
        dir: &Path,
        disk: Arc<dyn Disk>,
        options: Options,
        failpoints: Arc<dyn Failpoints>,
    ) -> Result<Self, OpenError> {
        let engine = Engine::open(disk, options, failpoints).map_err(|problem| problem.at(dir))?;
        let state = Arc::clone(&engine.state);
        let length = options.queue_length.max(1);
        // A request holds a permit of `room` while queued; the one more is for `drop`, which has none.
        let (queue, requests) = sync_channel(length + 1);
        let writer = Arc::new(Writer::new(engine, requests));
        let room = Arc::new(Semaphore::new(length));
        // Made first: if a thread cannot be had, dropping it ends those that there are.
        let mut store = Self { state, queue, room, threads: Vec::new() };
        for _ in 0..writer::THREADS {
            let writer = Arc::clone(&writer);
            let thread = std::thread::Builder::new().name("store-writer".to_owned()).spawn(move || writer.run());
            store.threads.push(thread.map_err(|source| OpenError::Directory { dir: dir.to_owned(), source })?);
        }
        Ok(store)
    }

    /// A store in memory with the same keys, revision and history, but no watchers. It shares
    /// memory with this one until either writes, so it costs the same for any size.
    #[must_use]
    pub fn fork(&self) -> MemoryStore {
        MemoryStore::from_state(self.state.fork())
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
        let answer = self.ask(|reply| Request::Work(Work::Commit { txn, reply })).await;
        answer.unwrap_or_else(|| Err(self.stopped()))
    }

    fn subscribe(&self, interest: &Interest, after: Revision) -> Result<Watch, ReadError> {
        self.state.watch(interest, after)
    }

    async fn expire(&self, now_ms: i64) -> Result<usize, CommitError> {
        self.state.check_running()?;
        // A little at a time, for the sake of who waits behind it.
        let mut expired = 0;
        loop {
            let answer = self.ask(|reply| Request::Work(Work::Expire { now_ms, reply })).await;
            let now = answer.unwrap_or_else(|| Err(self.stopped()))?;
            expired += now;
            if now < EXPIRE_AT_ONCE {
                return Ok(expired);
            }
        }
    }

    fn compact(&self, keep_after: Revision) {
        self.state.compact(keep_after);
        // Not if the queue is full: then there is no lack of occasions.
        if let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() {
            let _ = self.queue.try_send(Queued::new(Request::Compacted, Some(permit)));
        }
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
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
