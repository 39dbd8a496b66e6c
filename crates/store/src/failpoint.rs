//! Named places at every step of a commit, a sync, a checkpoint, a recovery and a delivery, where a test may step in.

use std::fmt::Debug;

/// A step that was just taken, or is about to be taken where the name says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failpoint {
    /// A group was applied to the stage and nothing was written.
    CommitStaged,
    /// The group is in the log's file and not synced.
    CommitWritten,
    /// The group is durable, or may lag, and nobody has seen it.
    CommitDurable,
    /// Readers see the group, and its writers have no answer yet.
    CommitPublished,
    /// The writers have their answers, and no watcher was woken.
    CommitAnswered,
    /// Relaxed transactions are about to be synced.
    SyncDue,
    /// They are durable.
    Synced,
    /// The events are with their watchers' topics, and no reader sees their revision.
    WatchDelivered,
    /// Readers see the revision, and no watcher was woken.
    WatchVisible,
    /// The old log is durable to its end, and the next one is not there.
    LogEnded,
    /// The next log is there, and the state up to it is not.
    LogStarted,
    /// The state's file is there, and holds nothing.
    CheckpointStarted,
    /// A piece of the state was written.
    CheckpointPiece,
    /// All of the state is in its file, and durable.
    CheckpointSynced,
    /// The file has its name, which is not durable.
    CheckpointRenamed,
    /// The name is durable, and all that the state replaces is still there.
    CheckpointNamed,
    /// One of the files that the state replaces is gone.
    CheckpointRemoved,
    /// The files were listed.
    RecoveryListed,
    /// The state was read.
    RecoveryState,
    /// One log was read.
    RecoveryLog,
    /// What was read is durable, and the new log is not there.
    RecoverySynced,
    /// The new log is there; the store is about to open.
    RecoveryStarted,
}

impl Failpoint {
    pub const ALL: [Self; 22] = [
        Self::CommitStaged,
        Self::CommitWritten,
        Self::CommitDurable,
        Self::CommitPublished,
        Self::CommitAnswered,
        Self::SyncDue,
        Self::Synced,
        Self::WatchDelivered,
        Self::WatchVisible,
        Self::LogEnded,
        Self::LogStarted,
        Self::CheckpointStarted,
        Self::CheckpointPiece,
        Self::CheckpointSynced,
        Self::CheckpointRenamed,
        Self::CheckpointNamed,
        Self::CheckpointRemoved,
        Self::RecoveryListed,
        Self::RecoveryState,
        Self::RecoveryLog,
        Self::RecoverySynced,
        Self::RecoveryStarted,
    ];
}

/// What a test does at a failpoint.
pub trait Failpoints: Debug + Send + Sync + 'static {
    /// Called in the thread that takes the step. An error is treated as if the disk had failed there; where
    /// nothing can fail (deliveries, and a group that is durable) it is not looked at.
    fn reached(&self, point: Failpoint) -> Result<(), String>;
}

/// Nobody steps in.
#[derive(Debug)]
pub(crate) struct Undisturbed;

impl Failpoints for Undisturbed {
    fn reached(&self, _: Failpoint) -> Result<(), String> {
        Ok(())
    }
}
