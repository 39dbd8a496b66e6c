//! Applies groups of requests, ahead of the disk: while one group is being synced, the next is made ready.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::record::{self, GroupHead};
use crate::snapshot::Snapshot;
use crate::stage::Stage;
use crate::state::State;
use crate::{CommitError, Committed, Durability, Txn};

/// What writers ask for.
pub(super) enum Work {
    Commit { txn: Txn, reply: Reply<Committed> },
    Expire { now_ms: i64, reply: Reply<usize> },
}

pub(super) type Reply<T> = oneshot::Sender<Result<T, CommitError>>;

/// Keys that one request expires at most: nobody waits behind an hour of Events that end at once.
pub(super) const EXPIRE_AT_ONCE: usize = 500;

/// A group that was applied and is on its way to the disk. Nobody has seen any of it.
pub(super) struct Prepared {
    pub(super) stage: Stage,
    /// Whether it must be durable before it is seen.
    pub(super) sync: bool,
    pub(super) answers: Vec<Answer>,
    /// The group as the log has it, with room for its head.
    pub(super) frame: Vec<u8>,
}

/// Makes groups ready, each on top of the one before, which may not be durable yet. That is safe as they reach the disk in
/// the same order, and none does after one has failed.
pub(super) struct Preparer {
    state: Arc<State>,
    /// The newest state, with all groups that were made ready.
    tip: Snapshot,
}

impl Preparer {
    pub(super) fn new(state: Arc<State>) -> Self {
        let tip = Snapshot::clone(&state.snapshot());
        Self { state, tip }
    }

    pub(super) fn prepare(&mut self, group: Vec<Work>) -> Prepared {
        let mut stage = self.state.stage_on(self.tip.clone());
        let mut sync = false;
        let mut answers = Vec::with_capacity(group.len());
        for work in group {
            let before = stage.events().len();
            match work {
                Work::Commit { txn, reply } => {
                    let synced = txn.durability == Durability::Synced;
                    let result = stage.apply(txn);
                    sync |= synced && stage.events().len() > before;
                    answers.push(Answer::Commit(result, reply));
                }
                // An expired key that comes back with a power loss is expired again.
                Work::Expire { now_ms, reply } => {
                    answers.push(Answer::Expire(stage.expire(now_ms, EXPIRE_AT_ONCE), reply));
                }
            }
        }
        let size: usize = stage.events().iter().map(|event| event.entry.value.len() + 128).sum();
        let mut frame = Vec::with_capacity(GroupHead::LENGTH + size);
        frame.resize(GroupHead::LENGTH, 0);
        stage.events().iter().for_each(|event| record::encode_event(event, &mut frame));
        self.tip = stage.snapshot().clone();
        Prepared { stage, sync, answers, frame }
    }
}

/// What to tell a writer once its group is durable, or is not.
pub(super) enum Answer {
    Commit(Result<Committed, CommitError>, Reply<Committed>),
    Expire(usize, Reply<usize>),
}

impl Answer {
    // A writer that gave up waiting has dropped its end.
    pub(super) fn send(self) {
        match self {
            Self::Commit(result, reply) => drop(reply.send(result)),
            Self::Expire(expired, reply) => drop(reply.send(Ok(expired))),
        }
    }

    pub(super) fn refuse(self, reason: &str) {
        let stopped = CommitError::Stopped { reason: reason.to_owned() };
        match self {
            Self::Commit(_, reply) => drop(reply.send(Err(stopped))),
            Self::Expire(_, reply) => drop(reply.send(Err(stopped))),
        }
    }
}
