//! The thread that writes: takes all that is queued as one group, and knows what is due when.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::checkpoint::{Checkpoint, Step};
use super::engine::{Engine, Work};

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

pub(super) struct Writer {
    engine: Engine,
    requests: Receiver<Queued>,
    /// Since when there are writes without a sync.
    lags_since: Option<Instant>,
    last_group: usize,
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
        Self { engine, requests, lags_since: None, last_group: 0, checkpoint: None }
    }

    pub(super) fn run(mut self) {
        let reply = loop {
            let gathered = self.gather();
            if !gathered.group.is_empty() {
                self.last_group = gathered.group.len();
                self.engine.commit(gathered.group);
            }
            if let Some(reply) = gathered.close {
                break reply;
            }
            self.sync_if_due();
            self.checkpoint_if_due(gathered.compacted);
        };
        if let Some(checkpoint) = self.checkpoint.take() {
            // What it has written counts for nothing, and the next start removes it.
            checkpoint.cancelled.store(true, Ordering::Relaxed);
            let _ = checkpoint.thread.join();
        }
        self.engine.close();
        // The disk goes, and its lock with it, before whoever closes hears of it. Requests behind
        // the last group lose their reply and are told that the store is closed.
        drop(self.engine);
        drop(self.requests);
        if let Some(reply) = reply {
            let _ = reply.send(());
        }
    }

    /// The next requests, none if a sync is due first.
    fn gather(&mut self) -> Gathered {
        let mut gathered = Gathered::default();
        let mut deadline = self.lags_since.map(|since| since + RELAXED);
        while gathered.group.len() < GROUP {
            let received = match deadline {
                None => self.requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => self.requests.recv_timeout(at.saturating_duration_since(now())),
            };
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
                deadline = Some(now() + LINGER);
            }
            if gathered.group.len() >= self.last_group {
                deadline = Some(now());
            }
        }
        gathered
    }

    fn sync_if_due(&mut self) {
        if self.engine.state.health().is_err() || !self.engine.lags() {
            self.lags_since = None;
        } else if now() >= *self.lags_since.get_or_insert_with(now) + RELAXED {
            self.engine.sync();
            self.lags_since = None;
        }
    }

    fn checkpoint_if_due(&mut self, asked: bool) {
        if let Some(checkpoint) = &self.checkpoint {
            let result = match checkpoint.result.try_recv() {
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    Err("the thread that writes the state ended; see the log".to_owned())
                }
                Ok(result) => result,
            };
            self.checkpoint = None;
            self.engine.end_checkpoint(result);
        }
        if self.engine.wants_checkpoint(asked)
            && let Some(checkpoint) = self.engine.begin_checkpoint()
        {
            match self.spawn(checkpoint) {
                Ok(checkpointing) => self.checkpoint = Some(checkpointing),
                Err(error) => self.engine.end_checkpoint(Err(format!("no thread to write the state: {error}"))),
            }
        }
    }

    fn spawn(&self, checkpoint: Checkpoint) -> std::io::Result<Checkpointing> {
        let (done, result) = sync_channel(1);
        let cancelled = Arc::new(AtomicBool::new(false));
        let state = Arc::clone(&self.engine.state);
        let thread = std::thread::Builder::new().name("store-checkpoint".to_owned()).spawn({
            let cancelled = Arc::clone(&cancelled);
            move || {
                let written = write(checkpoint, &cancelled);
                if let Err(reason) = &written {
                    // At once, not when the writer next looks.
                    tracing::error!(reason, "the store stops: it can be read, and takes no more writes");
                    state.stop(reason.as_str());
                }
                let _ = done.send(written);
            }
        })?;
        Ok(Checkpointing { cancelled, result, thread })
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

#[expect(clippy::disallowed_methods, reason = "syncs are due in real time; this is no tokio thread")]
fn now() -> Instant {
    Instant::now()
}
