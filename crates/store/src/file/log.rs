//! A log that is written: groups of changes, each a frame.

use super::block::{self, BLOCK};
use super::disk::{Disk, DiskFile};
use super::record::{GroupHead, Header, Role};
use crate::Revision;

/// Bytes made ready at a time, and the groups that they are made ready for.
const ROOM: usize = 1 << 20;
const SMALL: usize = 8 << 10;

/// A log with this number is called so.
pub(super) fn name(number: u64) -> String {
    format!("log-{number:016}")
}

/// An empty file of this name says that the log with this number was begun. It is durable before anything in the log is
/// acknowledged, so that a log which is gone is missed though no later file refers to it.
pub(super) fn mark(number: u64) -> String {
    format!("begun-{number:016}")
}

/// The number of the log that a mark of this name stands for.
pub(super) fn marked(file: &str) -> Option<u64> {
    let number = file.strip_prefix("begun-")?.parse().ok()?;
    (mark(number) == file).then_some(number)
}

/// The log that is appended to. One process writes it, from its first block to its last.
pub(super) struct Log {
    file: Box<dyn DiskFile>,
    header: Header,
    /// Blocks written, and how many of them are durable.
    blocks: u64,
    durable_blocks: u64,
    /// Up to here the file is as long as it has to be.
    prepared: u64,
    /// Kept for its room.
    sealed: Vec<u8>,
}

impl Log {
    /// A new log, which is durable on return, and so is the mark that it was begun.
    pub(super) fn create(
        disk: &dyn Disk,
        number: u64,
        revision: Revision,
        previous_blocks: u64,
    ) -> Result<Self, String> {
        let header = Header { role: Role::Log, number, revision, previous_blocks };
        let name = name(number);
        let failed = |what: &'static str| {
            let name = &name;
            move |error: std::io::Error| format!("{what} {name} failed: {error}")
        };
        let mut file = disk.create(&name).map_err(failed("making"))?;
        let mut sealed = Vec::new();
        block::seal(&header.encode(), 0, 0, &mut sealed);
        file.append(&sealed).map_err(failed("a write to"))?;
        file.sync().map_err(failed("a sync of"))?;
        disk.sync_names().map_err(failed("a sync of the name of"))?;
        // Only now: a mark without its log is damage.
        disk.create(&mark(number)).map_err(failed("marking the beginning of"))?;
        disk.sync_names().map_err(failed("a sync of the mark of"))?;
        let blocks = (sealed.len() / BLOCK) as u64;
        Ok(Self { file, header, blocks, durable_blocks: blocks, prepared: 0, sealed })
    }

    pub(super) fn number(&self) -> u64 {
        self.header.number
    }

    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    pub(super) fn bytes(&self) -> u64 {
        self.blocks * BLOCK as u64
    }

    /// Whether something was written that may not be durable.
    pub(super) fn lags(&self) -> bool {
        self.durable_blocks < self.blocks
    }

    /// Writes a group of so many changes, which is not durable yet; its head is put before them.
    pub(super) fn append(
        &mut self,
        events: usize,
        frame: &mut [u8],
        revision: Revision,
        reserved: Revision,
    ) -> Result<(), String> {
        let events = u32::try_from(events).map_err(|_| "a group has too many changes".to_owned())?;
        let head = GroupHead { revision, reserved, durable_blocks: self.durable_blocks, events };
        frame[..GroupHead::LENGTH].copy_from_slice(&head.encode());
        self.sealed.clear();
        block::seal(frame, self.header.salt(), self.blocks, &mut self.sealed);
        let name = self.header.number;
        let written = self.prepare().and_then(|()| self.file.append(&self.sealed));
        written.map_err(|error| format!("a write to {} failed: {error}", self::name(name)))?;
        self.blocks += (self.sealed.len() / BLOCK) as u64;
        self.give_back_room();
        Ok(())
    }

    pub(super) fn sync(&mut self) -> Result<(), String> {
        let number = self.header.number;
        self.file.sync().map_err(|error| format!("a sync of {} failed: {error}", name(number)))?;
        self.durable_blocks = self.blocks;
        Ok(())
    }

    /// Makes room in advance for small groups. Large ones would only be written twice.
    fn prepare(&mut self) -> std::io::Result<()> {
        let end = self.bytes() + self.sealed.len() as u64;
        if self.sealed.len() <= SMALL && end > self.prepared {
            self.file.prepare(ROOM)?;
            self.prepared = self.bytes() + ROOM as u64;
        }
        Ok(())
    }

    /// One large group does not decide for good how much memory is kept.
    fn give_back_room(&mut self) {
        const KEPT: usize = 1 << 20;
        self.sealed.clear();
        self.sealed.shrink_to(KEPT);
    }
}
