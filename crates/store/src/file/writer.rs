//! The threads that write: each takes all that is queued as one group, makes it ready, and commits it.
//!
//! There are two of them, so that one makes a group ready while the other waits for the disk. Who has made a group
//! ready takes the engine before it lets the other to the queue: groups reach the disk in the order in which they were
//! made ready. Lock order: the queue, then the engine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::checkpoint::{Checkpoint, Step};
use super::engine::Engine;
use super::prepare::{Prepared, Preparer, Work};

/// How many threads write.
pub(super) const THREADS: usize = 2;

/// How long relaxed transactions may be without a sync; less than the second that is promised, as
/// the sync itself takes time.
const RELAXED: Duration = Duration::from_millis(900);

/// How long to wait for the writers of the last group to come back. They do so at once when they
/// write in a loop, and without the wait the first of them would have a sync to itself.
const LINGER: Duration = Duration::from_micros(200);

/// A group takes no more requests than this, to bound how long the first of them waits.
const GROUP: usize = 1024;

pub(super) enum Request {
    Work(Work),
    /// History was compacted: a good time to write the state, if there is reason to.
    Compacted,
    Close {
        reply: Option<oneshot::Sender<()>>,
    },
}

/// A request and its place in the queue, which is free again once it is taken out.
pub(super) struct Queued {
    request: Request,
    _room: Option<OwnedSemaphorePermit>,
}

impl Queued {
    pub(super) fn new(request: Request, room: Option<OwnedSemaphorePermit>) -> Self {
        Self { request, _room: room }
    }
}

/// What the threads share.
pub(super) struct Writer {
    /// None once the store is closed.
    queue: Mutex<Option<Queue>>,
    committer: Mutex<Committer>,
}

struct Queue {
    requests: Receiver<Queued>,
    preparer: Preparer,
    last_group: usize,
}

struct Committer {
    /// None once the store is closed.
    engine: Option<Engine>,
    /// Since when there are writes without a sync.
    lags_since: Option<Instant>,
    checkpoint: Option<Checkpointing>,
}

/// A state that another thread writes.
struct Checkpointing {
    cancelled: Arc<AtomicBool>,
    result: Receiver<Result<u64, String>>,
    thread: JoinHandle<()>,
}

/// What was in the queue.
#[derive(Default)]
struct Gathered {
    group: Vec<Work>,
    compacted: bool,
    /// How to answer, if the store is to close.
    close: Option<Option<oneshot::Sender<()>>>,
}

impl Writer {
    pub(super) fn new(engine: Engine, requests: Receiver<Queued>) -> Self {
        let preparer = Preparer::new(Arc::clone(&engine.state));
        let committer = Committer { engine: Some(engine), lags_since: None, checkpoint: None };
        Self { queue: Mutex::new(Some(Queue { requests, preparer, last_group: 0 })), committer: Mutex::new(committer) }
    }

    /// What each of the threads does, until the store is closed.
    pub(super) fn run(&self) {
        loop {
            let mut queue = lock(&self.queue);
            let Some(open) = queue.as_mut() else { return };
            let gathered = open.gather();
            let prepared = (!gathered.group.is_empty()).then(|| open.preparer.prepare(gathered.group));
            let mut committer = lock(&self.committer);
            if let Some(reply) = gathered.close {
                let requests = queue.take();
                committer.commit(prepared);
                committer.close();
                // Requests behind the last group lose their reply and are told that the store is closed.
                drop(requests);
                if let Some(reply) = reply {
                    let _ = reply.send(());
                }
                return;
            }
            drop(queue);
            committer.commit(prepared);
            committer.sync_if_due();
            committer.checkpoint_if_due(gathered.compacted);
        }
    }
}

impl Queue {
    /// The next requests; none if there are none for a while, as a sync may be due.
    fn gather(&mut self) -> Gathered {
        let mut gathered = Gathered::default();
        let mut deadline = now() + RELAXED / 4;
        while gathered.group.len() < GROUP {
            let received = self.requests.recv_timeout(deadline.saturating_duration_since(now()));
            match received.map(|queued| queued.request) {
                Ok(Request::Work(work)) => gathered.group.push(work),
                Ok(Request::Compacted) => {
                    gathered.compacted = true;
                    break;
                }
                Ok(Request::Close { reply }) => {
                    gathered.close = Some(reply);
                    break;
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => {
                    gathered.close = Some(None);
                    break;
                }
            }
            // With the first in hand, take what is there and wait only for those who may return.
            if gathered.group.len() == 1 {
                deadline = now() + LINGER;
            }
            if gathered.group.len() >= self.last_group {
                deadline = now();
            }
        }
        self.last_group = gathered.group.len();
        gathered
    }
}

impl Committer {
    fn commit(&mut self, prepared: Option<Prepared>) {
        if let (Some(engine), Some(prepared)) = (&mut self.engine, prepared) {
            engine.commit(prepared);
        }
    }

    fn sync_if_due(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        if engine.state.health().is_err() || !engine.lags() {
            self.lags_since = None;
        } else if now() >= *self.lags_since.get_or_insert_with(now) + RELAXED * 3 / 4 {
            engine.sync();
            self.lags_since = None;
        }
    }

    fn checkpoint_if_due(&mut self, asked: bool) {
        let Some(engine) = &mut self.engine else { return };
        if let Some(checkpoint) = &self.checkpoint {
            let result = match checkpoint.result.try_recv() {
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    Err("the thread that writes the state ended; see the log".to_owned())
                }
                Ok(result) => result,
            };
            self.checkpoint = None;
            engine.end_checkpoint(result);
        }
        if engine.wants_checkpoint(asked)
            && let Some(checkpoint) = engine.begin_checkpoint()
        {
            match Checkpointing::spawn(checkpoint, engine) {
                Ok(checkpointing) => self.checkpoint = Some(checkpointing),
                Err(error) => engine.end_checkpoint(Err(format!("no thread to write the state: {error}"))),
            }
        }
    }

    /// Everything becomes durable; then the disk goes, and its lock with it.
    fn close(&mut self) {
        if let Some(checkpoint) = self.checkpoint.take() {
            // What it has written counts for nothing, and the next start removes it.
            checkpoint.cancelled.store(true, Ordering::Relaxed);
            let _ = checkpoint.thread.join();
        }
        if let Some(mut engine) = self.engine.take() {
            engine.close();
        }
    }
}

impl Checkpointing {
    fn spawn(checkpoint: Checkpoint, engine: &Engine) -> std::io::Result<Self> {
        let (done, result) = sync_channel(1);
        let cancelled = Arc::new(AtomicBool::new(false));
        let state = Arc::clone(&engine.state);
        let thread = std::thread::Builder::new().name("store-checkpoint".to_owned()).spawn({
            let cancelled = Arc::clone(&cancelled);
            move || {
                let written = write(checkpoint, &cancelled);
                if let Err(reason) = &written {
                    // At once, not when a writer next looks.
                    tracing::error!(reason, "the store stops: it can be read, and takes no more writes");
                    state.stop(reason.as_str());
                }
                let _ = done.send(written);
            }
        })?;
        Ok(Self { cancelled, result, thread })
    }
}

fn write(mut checkpoint: Checkpoint, cancelled: &AtomicBool) -> Result<u64, String> {
    while !cancelled.load(Ordering::Relaxed) {
        if let Step::Done { bytes } = checkpoint.step()? {
            return Ok(bytes);
        }
    }
    Ok(0)
}

/// A thread that panicked has told its writers by dropping their replies; the other goes on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::disallowed_methods, reason = "syncs are due in real time; this is no tokio thread")]
fn now() -> Instant {
    Instant::now()
}
