//! The thread that writes: takes all that is queued as one group, makes it durable, then shows it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::disk::{Disk, Group};
use crate::stage::Stage;
use crate::state::State;
use crate::{CommitError, Committed, Durability, Revision, Txn};

/// How long relaxed transactions may be without a sync; less than the second that is promised, as
/// the sync itself takes time.
const RELAXED: Duration = Duration::from_millis(900);

/// How long to wait for the writers of the last group to come back. They do so at once when they
/// write in a loop, and without the wait the first of them would have a sync to itself.
const LINGER: Duration = Duration::from_micros(200);

/// Relaxed revisions reserved at a time, each time with a sync.
const RESERVE: Revision = 10_000;

/// A group takes no more requests than this, to bound how long the first of them waits.
const GROUP: usize = 1024;

pub(super) enum Request {
    Commit { txn: Txn, reply: oneshot::Sender<Result<Committed, CommitError>> },
    Expire { now_ms: i64, reply: oneshot::Sender<Result<usize, CommitError>> },
    Close { reply: Option<oneshot::Sender<()>> },
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

pub(super) struct Writer<D> {
    state: Arc<State>,
    disk: D,
    requests: Receiver<Queued>,
    /// On disk: no revision up to here is ever given out again.
    reserved: Revision,
    /// Since when there are writes without a sync.
    unsynced_since: Option<Instant>,
    last_group: usize,
}

impl<D: Disk> Writer<D> {
    pub(super) fn new(state: Arc<State>, disk: D, reserved: Revision, requests: Receiver<Queued>) -> Self {
        Self { state, disk, requests, reserved, unsynced_since: None, last_group: 0 }
    }

    pub(super) fn run(mut self) {
        let reply = loop {
            let (group, close) = self.gather();
            if !group.is_empty() {
                self.commit(group);
            }
            if let Some(reply) = close {
                break reply;
            }
            self.sync_if_due();
        };
        self.close();
        // The disk goes, and its lock with it, before whoever closes hears of it. Requests behind
        // the last group lose their reply and are told that the store is closed.
        drop(self.disk);
        drop(self.requests);
        if let Some(reply) = reply {
            let _ = reply.send(());
        }
    }

    /// The next requests, none if a sync is due first; and how to answer if the store is to close.
    fn gather(&mut self) -> (Vec<Request>, Option<Option<oneshot::Sender<()>>>) {
        let mut group = Vec::new();
        let due = self.unsynced_since.map(|since| since + RELAXED);
        let mut deadline = due;
        while group.len() < GROUP {
            let received = match deadline {
                None => self.requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => self.requests.recv_timeout(at.saturating_duration_since(now())),
            };
            match received {
                Ok(Queued { request: Request::Close { reply }, .. }) => return (group, Some(reply)),
                Ok(Queued { request, .. }) => group.push(request),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return (group, Some(None)),
            }
            // With the first in hand, take what is there and wait only for those who may return.
            if group.len() == 1 {
                deadline = Some(now() + LINGER);
            }
            if group.len() >= self.last_group {
                deadline = Some(now());
            }
        }
        (group, None)
    }

    fn commit(&mut self, group: Vec<Request>) {
        self.last_group = group.len();
        let mut stage = self.state.stage();
        let mut sync = false;
        let mut answers = Vec::with_capacity(group.len());
        for request in group {
            let before = stage.events().len();
            match request {
                Request::Commit { txn, reply } => {
                    let synced = txn.durability == Durability::Synced;
                    let result = stage.apply(txn);
                    sync |= synced && stage.events().len() > before;
                    answers.push(Answer::Commit(result, reply));
                }
                // An expired key that comes back with a power loss is expired again.
                Request::Expire { now_ms, reply } => {
                    answers.push(Answer::Expire(stage.expire(now_ms), reply));
                }
                Request::Close { .. } => {}
            }
        }
        let written = self.state.health().and_then(|()| self.write(&stage, sync));
        match written {
            Ok(()) => {
                self.state.publish(stage);
                answers.into_iter().for_each(Answer::send);
            }
            Err(reason) => {
                self.fail(&reason);
                answers.into_iter().for_each(|answer| answer.refuse(&reason));
            }
        }
    }

    fn write(&mut self, stage: &Stage, sync: bool) -> Result<(), String> {
        if stage.events().is_empty() {
            return Ok(());
        }
        let revision = stage.revision();
        let reserved = (!sync && revision > self.reserved).then_some(revision + RESERVE);
        let sync = sync || reserved.is_some();
        self.disk.write(&Group { events: stage.events(), revision, reserved }, sync)?;
        self.reserved = reserved.unwrap_or(self.reserved);
        if sync {
            self.unsynced_since = None;
        } else {
            self.unsynced_since.get_or_insert_with(now);
        }
        Ok(())
    }

    fn sync_if_due(&mut self) {
        if self.unsynced_since.is_some_and(|since| now() >= since + RELAXED) {
            self.unsynced_since = None;
            if let Err(reason) = self.disk.sync() {
                self.fail(&reason);
            }
        }
    }

    /// A disk that failed once is not asked again: what it says it has may not be there.
    fn fail(&mut self, reason: &str) {
        if self.state.health().is_ok() {
            tracing::error!(reason, "the store stops: it can be read, and takes no more writes");
        }
        self.unsynced_since = None;
        self.state.stop(reason);
    }

    /// Everything becomes durable, and the reservation is given back.
    fn close(&mut self) {
        if self.state.health().is_ok() {
            let revision = self.state.revision();
            let group = Group { events: &[], revision, reserved: Some(revision) };
            if let Err(reason) = self.disk.write(&group, true) {
                self.fail(&reason);
            }
        }
        self.state.close();
    }
}

#[expect(clippy::disallowed_methods, reason = "syncs are due in real time; this is no tokio thread")]
fn now() -> Instant {
    Instant::now()
}

/// What to tell a writer once its group is durable, or is not.
enum Answer {
    Commit(Result<Committed, CommitError>, oneshot::Sender<Result<Committed, CommitError>>),
    Expire(usize, oneshot::Sender<Result<usize, CommitError>>),
}

impl Answer {
    // A writer that gave up waiting has dropped its end.
    fn send(self) {
        match self {
            Self::Commit(result, reply) => drop(reply.send(result)),
            Self::Expire(expired, reply) => drop(reply.send(Ok(expired))),
        }
    }

    fn refuse(self, reason: &str) {
        let stopped = CommitError::Stopped { reason: reason.to_owned() };
        match self {
            Self::Commit(_, reply) => drop(reply.send(Err(stopped))),
            Self::Expire(_, reply) => drop(reply.send(Err(stopped))),
        }
    }
}
