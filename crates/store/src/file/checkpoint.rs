//! Writes the whole state to a file of its own, a piece at a time, while commits go on.
//!
//! The state is an immutable snapshot, so the writer of changes does not wait for it. The same layout is a backup.

use std::sync::Arc;

use super::block::{self, BLOCK};
use super::disk::{Disk, DiskFile};
use super::log;
use super::record::{self, Header, Role};
use crate::failpoint::{Failpoint, Failpoints};
use crate::snapshot::Snapshot;

/// Bytes of a piece, about.
const PIECE: usize = 64 << 10;
/// A sync after this many bytes, so that no sync has much to do: one of the log waits behind it.
const SYNC_EVERY: usize = 1 << 20;

pub(super) fn name(number: u64) -> String {
    format!("state-{number:016}")
}

/// The name of a state that is not complete.
pub(super) fn unfinished(number: u64) -> String {
    format!("{}.new", name(number))
}

/// A state on its way into a file.
pub(super) struct Checkpoint {
    disk: Arc<dyn Disk>,
    failpoints: Arc<dyn Failpoints>,
    number: u64,
    writer: StateWriter,
}

/// What a step of a checkpoint came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    More,
    /// The state is in place, with this many bytes.
    Done {
        bytes: u64,
    },
}

impl Checkpoint {
    /// Begins the file of a state that stands for all logs before `number`.
    pub(super) fn begin(
        disk: Arc<dyn Disk>,
        failpoints: Arc<dyn Failpoints>,
        number: u64,
        snapshot: Snapshot,
    ) -> Result<Self, String> {
        let name = unfinished(number);
        let file = disk.create(&name).map_err(|error| format!("making {name} failed: {error}"))?;
        failpoints.reached(Failpoint::CheckpointStarted)?;
        let writer = StateWriter::new(file, number, snapshot);
        Ok(Self { disk, failpoints, number, writer })
    }

    /// Takes the next step. After an error there is no next.
    pub(super) fn step(&mut self) -> Result<Step, String> {
        let failed = |error: std::io::Error| format!("a write of {} failed: {error}", name(self.number));
        if self.writer.step().map_err(failed)? {
            self.failpoints.reached(Failpoint::CheckpointPiece)?;
            return Ok(Step::More);
        }
        self.failpoints.reached(Failpoint::CheckpointSynced)?;
        self.put_in_place()?;
        Ok(Step::Done { bytes: self.writer.bytes() })
    }

    /// The state counts from the moment that its name is durable; then what it replaces goes.
    fn put_in_place(&self) -> Result<(), String> {
        let name = name(self.number);
        let failed = |error: std::io::Error| format!("putting {name} in place failed: {error}");
        self.disk.rename(&unfinished(self.number), &name).map_err(failed)?;
        self.failpoints.reached(Failpoint::CheckpointRenamed)?;
        self.disk.sync_names().map_err(failed)?;
        self.failpoints.reached(Failpoint::CheckpointNamed)?;
        for old in self.disk.names().map_err(failed)? {
            if number_of(&old).is_some_and(|(_, number)| number < self.number) {
                self.disk.remove(&old).map_err(failed)?;
                self.failpoints.reached(Failpoint::CheckpointRemoved)?;
            }
        }
        Ok(())
    }
}

/// What a file of this name holds; none for a name that is not of ours.
pub(super) fn number_of(file: &str) -> Option<(Role, u64)> {
    let (role, number) = match file.split_once('-')? {
        ("state", number) => (Role::State, number),
        ("log", number) => (Role::Log, number),
        _ => return None,
    };
    let number = number.parse().ok()?;
    let expected = if role == Role::State { name(number) } else { log::name(number) };
    (expected == file).then_some((role, number))
}

/// Writes a snapshot as header, pieces and end.
pub(super) struct StateWriter {
    file: Box<dyn DiskFile>,
    header: Header,
    snapshot: Snapshot,
    /// The last key written; empty before the first.
    after: String,
    entries: u64,
    blocks: u64,
    unsynced: usize,
    done: bool,
}

impl StateWriter {
    pub(super) fn new(file: Box<dyn DiskFile>, number: u64, snapshot: Snapshot) -> Self {
        let header = Header { role: Role::State, number, revision: snapshot.revision(), previous_blocks: 0 };
        Self { file, header, snapshot, after: String::new(), entries: 0, blocks: 0, unsynced: 0, done: false }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.blocks * BLOCK as u64
    }

    /// Writes a piece; false once all is written and durable.
    pub(super) fn step(&mut self) -> std::io::Result<bool> {
        if self.blocks == 0 {
            self.write(&self.header.encode(), 0)?;
            return Ok(true);
        }
        if self.done {
            self.file.sync()?;
            return Ok(false);
        }
        let mut frame = Vec::with_capacity(PIECE + (PIECE >> 2));
        record::begin_entries(&mut frame);
        let mut last = None;
        for entry in self.snapshot.entries_after(&self.after) {
            record::encode_entry(entry, &mut frame);
            self.entries += 1;
            last = Some(&entry.key);
            if frame.len() >= PIECE {
                break;
            }
        }
        match last {
            Some(last) => {
                self.after = last.to_string();
                self.write(&frame, self.header.salt())?;
            }
            None => {
                self.write(&record::encode_end(self.entries), self.header.salt())?;
                self.done = true;
            }
        }
        Ok(true)
    }

    fn write(&mut self, frame: &[u8], salt: u64) -> std::io::Result<()> {
        let mut sealed = Vec::new();
        block::seal(frame, salt, self.blocks, &mut sealed);
        self.file.append(&sealed)?;
        self.blocks += (sealed.len() / BLOCK) as u64;
        self.unsynced += sealed.len();
        if self.unsynced >= SYNC_EVERY {
            self.file.sync()?;
            self.unsynced = 0;
        }
        Ok(())
    }
}
