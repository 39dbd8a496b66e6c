//! The engines of this crate as subjects of a history.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use super::Subject;
use crate::chance::Chance;
use crate::file::sim::SimDisk;
use crate::{FileStore, MemoryStore, Options, Store};

/// A memory store that outlives its crashes: clients are cut off, nothing is lost.
#[derive(Debug, Default)]
pub struct MemorySubject(Arc<MemoryStore>);

#[async_trait]
impl Subject for MemorySubject {
    async fn open(&mut self) -> Arc<dyn Store> {
        Arc::clone(&self.0) as Arc<dyn Store>
    }

    async fn crash(&mut self) {}
}

/// A file store in a directory. Its crash is an end without a close: what was queued is still written.
#[derive(Debug)]
pub struct FileSubject {
    dir: PathBuf,
    options: Options,
}

impl FileSubject {
    pub fn new(dir: impl AsRef<Path>, options: Options) -> Self {
        Self { dir: dir.as_ref().to_owned(), options }
    }
}

#[async_trait]
impl Subject for FileSubject {
    /// # Panics
    ///
    /// If the directory cannot be opened, which is what the history is there to find.
    async fn open(&mut self) -> Arc<dyn Store> {
        let opened = FileStore::open(&self.dir, self.options);
        Arc::new(opened.unwrap_or_else(|error| panic!("the store in {} must open: {error}", self.dir.display())))
    }

    async fn crash(&mut self) {}
}

/// A file store on a disk that loses power, or whose process is killed, and that writes its state often.
#[derive(Debug)]
pub struct PowerSubject {
    disk: SimDisk,
    chance: Chance,
}

impl PowerSubject {
    pub fn new(seed: u64) -> Self {
        Self { disk: SimDisk::new(), chance: Chance::seeded(seed) }
    }
}

#[async_trait]
impl Subject for PowerSubject {
    /// # Panics
    ///
    /// If the disk cannot be opened, which is what the history is there to find.
    async fn open(&mut self) -> Arc<dyn Store> {
        let options = Options { log_bytes: 64 << 10, ..Options::default() };
        let opened = FileStore::open_on(Arc::new(self.disk.clone()), options, None);
        Arc::new(opened.unwrap_or_else(|error| panic!("the store must open: {error}")))
    }

    async fn crash(&mut self) {
        let killed = self.chance.once_in(4);
        self.disk = if killed { self.disk.after_kill() } else { self.disk.after_power_cut(&mut self.chance) };
    }
}
