//! What is on disk: the newest version of each key, and a few numbers about the whole.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::OpenError;
use super::record;
use crate::watch::{Event, EventKind};
use crate::{Entry, Revision};

/// The layout this program reads and writes; a change of `record` or of the keyspaces is a new one.
const FORMAT: u32 = 1;

const FORMAT_KEY: &str = "format";
const REVISION_KEY: &str = "revision";
const RESERVED_KEY: &str = "reserved";

/// All entries are in memory, so fjall reads only at start: small caches cost nothing.
const CACHE: u64 = 8 << 20;
const MEMTABLE: u64 = 8 << 20;
/// The least fjall accepts.
const JOURNALS: u64 = 64 << 20;

/// What the writer needs of a disk. Any error is final: the writer never tries again.
pub(super) trait Disk: Send + 'static {
    /// Writes a group as one; with `sync`, all written so far is durable on return.
    fn write(&mut self, group: &Group<'_>, sync: bool) -> Result<(), String>;
    /// Makes all written so far durable.
    fn sync(&mut self) -> Result<(), String>;
}

pub(super) struct Group<'a> {
    pub(super) events: &'a [Arc<Event>],
    pub(super) revision: Revision,
    /// The revision up to which none may be given out again, when it changes.
    pub(super) reserved: Option<Revision>,
}

/// What a directory held when it was opened.
pub(super) struct Loaded {
    pub(super) entries: Vec<Arc<Entry>>,
    pub(super) revision: Revision,
    pub(super) reserved: Revision,
}

pub(super) struct Fjall {
    // Fields drop in this order: the directory is unlocked last.
    objects: Keyspace,
    meta: Keyspace,
    database: Database,
    _lock: File,
}

impl Fjall {
    pub(super) fn open(dir: &Path) -> Result<(Self, Loaded), OpenError> {
        let lock = lock(dir)?;
        let engine = |source: fjall::Error| OpenError::Engine { dir: dir.to_owned(), source: Box::new(source) };
        let database = Database::builder(dir.join("fjall"))
            .cache_size(CACHE)
            .max_journaling_size(JOURNALS)
            .worker_threads(1)
            .manual_journal_persist(true)
            .open()
            .map_err(engine)?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE);
        let objects = database.keyspace("objects", options).map_err(engine)?;
        let meta = database.keyspace("meta", options).map_err(engine)?;
        let mut disk = Self { objects, meta, database, _lock: lock };
        disk.check_format(dir).map_err(|error| error.unwrap_or_else(engine))?;
        let loaded = disk.load(dir).map_err(|error| error.unwrap_or_else(engine))?;
        Ok((disk, loaded))
    }

    fn check_format(&mut self, dir: &Path) -> Result<(), Failure> {
        match self.meta.get(FORMAT_KEY)? {
            Some(found) if *found == FORMAT.to_le_bytes() => Ok(()),
            None if self.objects.is_empty()? => {
                self.meta.insert(FORMAT_KEY, FORMAT.to_le_bytes())?;
                Ok(self.database.persist(PersistMode::SyncAll)?)
            }
            found => {
                let known = found.as_deref().and_then(|bytes| bytes.try_into().ok());
                let found = known.map_or("unknown".to_owned(), |n| u32::from_le_bytes(n).to_string());
                let dir = dir.to_owned();
                Err(Failure::Data(OpenError::Format { dir, found, expected: FORMAT }))
            }
        }
    }

    fn load(&self, dir: &Path) -> Result<Loaded, Failure> {
        let corrupt = |key: String| Failure::Data(OpenError::Corrupt { dir: dir.to_owned(), key });
        let mut entries = Vec::new();
        for item in self.objects.iter() {
            let (key, value) = item.into_inner()?;
            let entry = std::str::from_utf8(&key).ok().and_then(|key| record::decode(key, &value));
            let entry = entry.ok_or_else(|| corrupt(String::from_utf8_lossy(&key).into_owned()))?;
            entries.push(Arc::new(entry));
        }
        let number = |key: &str| match self.meta.get(key)? {
            None => Ok(1),
            Some(bytes) => {
                let bytes = (*bytes).try_into().map_err(|_| corrupt(key.to_owned()))?;
                Ok::<_, Failure>(Revision::from_le_bytes(bytes))
            }
        };
        let reserved = number(RESERVED_KEY)?;
        let revision = number(REVISION_KEY)?.max(reserved);
        if let Some(ahead) = entries.iter().find(|entry| entry.mod_revision > revision) {
            return Err(corrupt(ahead.key.to_string()));
        }
        Ok(Loaded { entries, revision, reserved })
    }
}

impl Disk for Fjall {
    fn write(&mut self, group: &Group<'_>, sync: bool) -> Result<(), String> {
        // fjall gives a batch one sequence number, so of each key only the last change may be in it.
        let last: BTreeMap<&str, &Event> = group.events.iter().map(|event| (&*event.entry.key, &**event)).collect();
        let mode = if sync { PersistMode::SyncData } else { PersistMode::Buffer };
        let mut batch = self.database.batch().durability(Some(mode));
        for (key, event) in last {
            match event.kind {
                EventKind::Put => batch.insert(&self.objects, key, record::encode(&event.entry)),
                EventKind::Delete => batch.remove(&self.objects, key),
            }
        }
        batch.insert(&self.meta, REVISION_KEY, group.revision.to_le_bytes());
        if let Some(reserved) = group.reserved {
            batch.insert(&self.meta, RESERVED_KEY, reserved.to_le_bytes());
        }
        batch.commit().map_err(|error| format!("a write failed: {error}"))
    }

    fn sync(&mut self) -> Result<(), String> {
        let synced = self.database.persist(PersistMode::SyncData);
        synced.map_err(|error| format!("a sync failed: {error}"))
    }
}

/// The directory is made for its owner alone: it holds Secrets.
fn lock(dir: &Path) -> Result<File, OpenError> {
    let unusable = |source| OpenError::Directory { dir: dir.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(unusable)?;
    let mut options = OpenOptions::new();
    let options = options.create(true).truncate(false).write(true).mode(0o600);
    let file = options.open(dir.join("LOCK")).map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { dir: dir.to_owned() }),
        Err(TryLockError::Error(source)) => Err(unusable(source)),
    }
}

/// Lets `?` tell fjall's errors from what was found to be wrong with the data.
enum Failure {
    Engine(fjall::Error),
    Data(OpenError),
}

impl Failure {
    fn unwrap_or_else(self, engine: impl FnOnce(fjall::Error) -> OpenError) -> OpenError {
        match self {
            Self::Engine(error) => engine(error),
            Self::Data(error) => error,
        }
    }
}

impl From<fjall::Error> for Failure {
    fn from(error: fjall::Error) -> Self {
        Self::Engine(error)
    }
}
