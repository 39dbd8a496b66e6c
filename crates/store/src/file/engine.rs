//! What the writer's thread does, a step at a time: groups become durable, then visible; logs end, and the state
//! that stands for them is written.
//!
//! Nothing here waits or asks for the time, so that a test can take the steps in any order.

use std::sync::Arc;

use super::checkpoint::Checkpoint;
use super::disk::Disk;
use super::log::{self, Log};
use super::prepare::{Answer, Prepared};
use super::record::GroupHead;
use super::recover::{self, Problem};
use crate::failpoint::{Failpoint, Failpoints};
use crate::stage::Stage;
use crate::state::State;
use crate::{Options, Revision};

/// Relaxed revisions reserved at a time, each time with a sync.
const RESERVE: Revision = 10_000;

/// When a compaction asks for it, the state is written again for this part of the bytes that make it due.
const PART_WHEN_ASKED: u64 = 8;
/// Each start begins a log; no more than this many are read by the next.
const MANY_LOGS: usize = 8;

pub(super) struct Engine {
    pub(super) state: Arc<State>,
    disk: Arc<dyn Disk>,
    failpoints: Arc<dyn Failpoints>,
    log: Log,
    /// The logs before the current one that no state stands for.
    older_logs: usize,
    older_bytes: u64,
    state_bytes: u64,
    checkpointing: bool,
    /// The logs' bytes that make a checkpoint due, at least.
    log_bytes: u64,
    /// Durable in the current log: no revision up to here is ever given out again.
    reserved: Revision,
}

impl Engine {
    /// Reads what is there and begins a log of its own.
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        options: Options,
        failpoints: Arc<dyn Failpoints>,
    ) -> Result<Self, Problem> {
        let mut recovered = recover::read(&*disk, &options, &*failpoints)?;
        recovered.snapshot.jump(recovered.reserved);
        let reached = |point| failpoints.reached(point).map_err(Problem::Failed);
        let failed = |file: &str, what: &str, error| Problem::Failed(format!("{what} {file} failed: {error}"));
        for file in &recovered.leftover {
            disk.remove(file).map_err(|error| failed(file, "removing", error))?;
        }
        let (number, previous_blocks) = match recovered.last_log {
            None => (1, 0),
            Some((number, blocks)) => {
                // A process that was killed has left bytes that were read just now and are not durable yet.
                let file = log::name(number);
                disk.sync(&file).map_err(|error| failed(&file, "a sync of", error))?;
                (number + 1, blocks)
            }
        };
        reached(Failpoint::RecoverySynced)?;
        let revision = recovered.snapshot.revision();
        let log = Log::create(&*disk, number, revision, previous_blocks).map_err(Problem::Failed)?;
        if let Some(marked) = recovered.marked {
            let mark = log::mark(marked);
            disk.remove(&mark).map_err(|error| failed(&mark, "removing", error))?;
        }
        reached(Failpoint::RecoveryStarted)?;
        let state = Arc::new(State::new(recovered.snapshot, options).with_failpoints(Arc::clone(&failpoints)));
        Ok(Self {
            state,
            disk,
            failpoints,
            log,
            older_logs: recovered.logs,
            older_bytes: recovered.log_bytes,
            state_bytes: recovered.state_bytes,
            checkpointing: false,
            log_bytes: options.log_bytes,
            reserved: 0,
        })
    }

    /// Commits a group as one: all of it is durable before any of it is seen or answered.
    pub(super) fn commit(&mut self, prepared: Prepared) {
        let Prepared { stage, sync, answers, mut frame } = prepared;
        match self.state.health().and_then(|()| self.write(&stage, &mut frame, sync)) {
            Ok(()) => {
                let published = self.state.publish(stage);
                let _ = self.failpoints.reached(Failpoint::CommitPublished);
                answers.into_iter().for_each(Answer::send);
                let _ = self.failpoints.reached(Failpoint::CommitAnswered);
                drop(published);
            }
            Err(reason) => {
                self.fail(&reason);
                answers.into_iter().for_each(|answer| answer.refuse(&reason));
            }
        }
    }

    fn write(&mut self, stage: &Stage, frame: &mut [u8], sync: bool) -> Result<(), String> {
        if stage.events().is_empty() {
            return Ok(());
        }
        self.failpoints.reached(Failpoint::CommitStaged)?;
        let revision = stage.revision();
        let reserve = !sync && revision > self.reserved;
        let reserved = if reserve { revision + RESERVE } else { self.reserved };
        self.log.append(stage.events().len(), frame, revision, reserved)?;
        self.failpoints.reached(Failpoint::CommitWritten)?;
        if sync || reserve {
            self.log.sync()?;
        }
        self.reserved = reserved;
        self.failpoints.reached(Failpoint::CommitDurable)
    }

    /// Whether relaxed transactions are waiting for a sync.
    pub(super) fn lags(&self) -> bool {
        self.log.lags()
    }

    /// Makes them durable.
    pub(super) fn sync(&mut self) {
        let synced = self.state.health().and_then(|()| {
            self.failpoints.reached(Failpoint::SyncDue)?;
            self.log.sync()?;
            self.failpoints.reached(Failpoint::Synced)
        });
        if let Err(reason) = synced {
            self.fail(&reason);
        }
    }

    /// Whether it is time to write the state, or with `asked` worth the while.
    pub(super) fn wants_checkpoint(&self, asked: bool) -> bool {
        let bytes = self.older_bytes + self.log.bytes();
        let due = self.state_bytes.max(self.log_bytes);
        let enough = if asked { due / PART_WHEN_ASKED } else { due };
        !self.checkpointing && self.state.health().is_ok() && (bytes >= enough || self.older_logs >= MANY_LOGS)
    }

    /// Ends the log; the checkpoint that stands for all up to here is for the caller to write.
    pub(super) fn begin_checkpoint(&mut self) -> Option<Checkpoint> {
        let begun = self.begin();
        if let Err(reason) = &begun {
            self.fail(reason);
        }
        begun.ok()
    }

    fn begin(&mut self) -> Result<Checkpoint, String> {
        self.state.health()?;
        if self.log.lags() {
            self.log.sync()?;
        }
        self.failpoints.reached(Failpoint::LogEnded)?;
        let snapshot = self.state.snapshot().without_history();
        let next = Log::create(&*self.disk, self.log.number() + 1, snapshot.revision(), self.log.blocks())?;
        let mark = log::mark(self.log.number());
        self.disk.remove(&mark).map_err(|error| format!("removing {mark} failed: {error}"))?;
        self.older_bytes += self.log.bytes();
        self.older_logs += 1;
        self.log = next;
        // The reservation was in the log that ended; all that was given out is durable there.
        self.reserved = 0;
        self.checkpointing = true;
        self.failpoints.reached(Failpoint::LogStarted)?;
        Checkpoint::begin(Arc::clone(&self.disk), Arc::clone(&self.failpoints), self.log.number(), snapshot)
    }

    /// The checkpoint is in place and all before it is gone, or it failed.
    pub(super) fn end_checkpoint(&mut self, result: Result<u64, String>) {
        self.checkpointing = false;
        match result {
            Ok(bytes) => {
                self.state_bytes = bytes;
                (self.older_logs, self.older_bytes) = (0, 0);
            }
            Err(reason) => self.fail(&reason),
        }
    }

    /// A disk that failed once is not asked again: what it says it has may not be there.
    pub(super) fn fail(&self, reason: &str) {
        if self.state.health().is_ok() {
            tracing::error!(reason, "the store stops: it can be read, and takes no more writes");
        }
        self.state.stop(reason);
    }

    /// Everything becomes durable, and the reservation is given back.
    pub(super) fn close(&mut self) {
        let revision = self.state.revision();
        if self.state.health().is_ok() && (self.reserved > 0 || self.log.lags()) {
            let written =
                self.log.append(0, &mut [0; GroupHead::LENGTH], revision, revision).and_then(|()| self.log.sync());
            if let Err(reason) = written {
                self.fail(&reason);
            }
        }
        self.state.close();
    }
}
