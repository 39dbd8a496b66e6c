//! A state in a file elsewhere: what `pintle snapshot` saves, restores and looks into.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::checkpoint::{Checkpoint, StateWriter, Step};
use super::disk::{Directory, Disk, Written};
use super::frames::Frames;
use super::log::Log;
use super::recover::{self, Problem};
use super::{OpenError, Options};
use crate::failpoint::Undisturbed;
use crate::snapshot::Snapshot;
use crate::{Range, ReadError, Revision, Store};

/// A restored store goes on this far above the snapshot: above every revision that the store it was taken from has
/// given out since. Who asks for one of those is told that it is no longer kept, and lists again.
pub const LEAP: Revision = 1_000_000_000;

/// A directory that is written to while it is read is read again, at most this many times.
const TRIES: usize = 20;

/// What a snapshot holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub revision: Revision,
    pub keys: usize,
    /// Bytes of all values.
    pub bytes: u64,
    /// Keys and bytes by resource, such as `pods` or `example.com/widgets`.
    pub by_resource: BTreeMap<String, (usize, u64)>,
}

/// Why a snapshot could not be saved, restored or read.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("{0}")]
    Store(#[from] OpenError),
    #[error("{} holds no store; set --data-dir to a directory that pintle has used", dir.display())]
    Empty { dir: PathBuf },
    #[error("{} is there already; choose another name, or remove it", path.display())]
    Exists { path: PathBuf },
    #[error("{} holds a store already; restore into another --data-dir, or move this one away", dir.display())]
    NotEmpty { dir: PathBuf },
    #[error("cannot write {}: {reason}", path.display())]
    Write { path: PathBuf, reason: String },
    #[error("{} is not a whole snapshot: {reason}; it was cut off, damaged, or is something else", path.display())]
    NotASnapshot { path: PathBuf, reason: String },
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot read the store: {0}")]
    Source(#[from] ReadError),
}

/// Saves the store in `dir` to a file, also while a pintle is running on it.
pub fn save(dir: &Path, file: &Path) -> Result<Summary, BackupError> {
    if !dir.is_dir() {
        return Err(BackupError::Empty { dir: dir.to_owned() });
    }
    let disk = Directory::read_only(dir);
    let mut tries = 0;
    let snapshot = loop {
        tries += 1;
        let read = recover::read(&disk, &Options::default(), &Undisturbed);
        match read {
            Ok(found) if found.last_log.is_none() => return Err(BackupError::Empty { dir: dir.to_owned() }),
            Ok(found) => break found.snapshot,
            // The writer replaces files, and is in the middle of a block: what looks wrong may be unfinished.
            Err(Problem::Read { .. } | Problem::Damaged { .. }) if tries < TRIES => {}
            Err(problem) => return Err(problem.at(dir).into()),
        }
    };
    write(file, &snapshot)?;
    Ok(Summary::of(&snapshot))
}

/// Saves any store, such as one in etcd, to a file.
pub async fn save_from(store: &dyn Store, file: &Path) -> Result<Summary, BackupError> {
    let page = store.range(Range::prefix("")).await?;
    let snapshot = Snapshot::new(page.revision, page.entries);
    write(file, &snapshot)?;
    Ok(Summary::of(&snapshot))
}

/// Makes a store in `dir` of a saved snapshot.
pub fn restore(file: &Path, dir: &Path) -> Result<Summary, BackupError> {
    let mut snapshot = read(file)?;
    let disk: Arc<dyn Disk> = Arc::new(Directory::lock(dir)?);
    let refused = |reason: String| BackupError::Write { path: dir.to_owned(), reason };
    let names = disk.names().map_err(|error| refused(error.to_string()))?;
    if names.iter().any(|name| name != "LOCK") {
        return Err(BackupError::NotEmpty { dir: dir.to_owned() });
    }
    snapshot.jump(snapshot.revision() + LEAP);
    // As if a log had ended: the log comes first, then the state that stands for all before it. Before the state is
    // in place the directory is refused, as its first log is not the first.
    Log::create(&*disk, 2, snapshot.revision(), 0).map_err(refused)?;
    let mut state = Checkpoint::begin(disk, Arc::new(Undisturbed), 2, snapshot.clone()).map_err(refused)?;
    while state.step().map_err(refused)? == Step::More {}
    Ok(Summary::of(&snapshot))
}

/// What a saved snapshot holds; all of it is read and checked.
pub fn inspect(file: &Path) -> Result<Summary, BackupError> {
    read(file).map(|snapshot| Summary::of(&snapshot))
}

fn write(path: &Path, snapshot: &Snapshot) -> Result<(), BackupError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => BackupError::Exists { path: path.to_owned() },
        _ => BackupError::Write { path: path.to_owned(), reason: error.to_string() },
    };
    // It holds Secrets.
    let created = OpenOptions::new().create_new(true).write(true).mode(0o600).open(path).map_err(failed)?;
    let mut writer = StateWriter::new(Box::new(Written::new(created)), 1, snapshot.without_history());
    loop {
        match writer.step() {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => {
                // Half a snapshot is worse than none.
                let _ = std::fs::remove_file(path);
                return Err(failed(error));
            }
        }
    }
}

fn read(path: &Path) -> Result<Snapshot, BackupError> {
    let unreadable = |source| BackupError::Read { path: path.to_owned(), source };
    let file: Box<dyn Read + Send> = Box::new(File::open(path).map_err(unreadable)?);
    match recover::read_state(Frames::new(file), "it", None) {
        Ok((snapshot, _)) => Ok(snapshot),
        Err(Problem::Read { source, .. }) => Err(unreadable(source)),
        Err(Problem::Format { found }) => {
            let reason = format!("it has format {found}; use the pintle that saved it");
            Err(BackupError::NotASnapshot { path: path.to_owned(), reason })
        }
        Err(Problem::Damaged { place, .. }) => {
            Err(BackupError::NotASnapshot { path: path.to_owned(), reason: format!("{place} it is not as written") })
        }
        Err(Problem::Failed(reason)) => Err(BackupError::NotASnapshot { path: path.to_owned(), reason }),
    }
}

impl Summary {
    fn of(snapshot: &Snapshot) -> Self {
        let (mut keys, mut bytes) = (0, 0);
        let mut by_resource: BTreeMap<String, (usize, u64)> = BTreeMap::new();
        for entry in snapshot.entries_after("") {
            let size = entry.value.len() as u64;
            let resource = by_resource.entry(resource(&entry.key)).or_default();
            *resource = (resource.0 + 1, resource.1 + size);
            (keys, bytes) = (keys + 1, bytes + size);
        }
        Self { revision: snapshot.revision(), keys, bytes, by_resource }
    }
}

/// What a key is of: the part behind `/registry/`, and the next one too if that is the name of a group.
fn resource(key: &str) -> String {
    let path = key.strip_prefix("/registry/").unwrap_or(key);
    let parts = if path.split('/').next().is_some_and(|first| first.contains('.')) { 2 } else { 1 };
    path.split('/').take(parts).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Durability, FileStore, MemoryStore, Splice, Txn};

    fn put(key: &str, value: &str) -> Txn {
        Txn::new().put(key, Splice::plain(value))
    }

    #[tokio::test]
    async fn a_store_comes_back_from_a_snapshot_taken_while_it_was_written_to() {
        let dir = tempfile::tempdir().expect("a directory");
        let (data, file, other) = (dir.path().join("data"), dir.path().join("file"), dir.path().join("other"));
        let store = Arc::new(FileStore::open(&data, Options::default()).expect("an empty directory"));
        store.commit(put("/registry/pods/default/a", "first")).await.expect("runs");
        let writing = tokio::spawn({
            let store = Arc::clone(&store);
            async move {
                // Enough for a log to end and a state to be written while snapshots are taken.
                for n in 0..600 {
                    let txn = put(&format!("/registry/example.com/widgets/{}", n % 7), &"w".repeat(64 << 10));
                    store.commit(txn.durability(Durability::Relaxed)).await.expect("runs");
                }
            }
        });
        let mut last = 0;
        for n in 0..12 {
            let file = dir.path().join(format!("file-{n}"));
            let saved = tokio::task::spawn_blocking({
                let (data, file) = (data.clone(), file.clone());
                move || save(&data, &file).expect("a store that runs")
            })
            .await
            .expect("no panic");
            assert!(saved.revision >= last, "later is not older");
            assert_eq!(inspect(&file).expect("just saved"), saved);
            last = saved.revision;
        }
        writing.await.expect("no panic");
        let saved = save(&data, &file).expect("a store that runs");
        assert_eq!((saved.keys, saved.by_resource["pods"]), (8, (1, 5)));
        assert_eq!(saved.by_resource["example.com/widgets"].0, 7);
        assert!(matches!(save(&data, &file), Err(BackupError::Exists { .. })), "no snapshot is overwritten");
        let seen = store.revision();
        store.commit(Txn::new().delete("/registry/pods/default/a")).await.expect("runs");

        let restored = restore(&file, &other).expect("an empty directory");
        assert_eq!(restored.revision, saved.revision + LEAP);
        assert!(matches!(restore(&file, &other), Err(BackupError::NotEmpty { .. })));
        let store = FileStore::open(&other, Options::default()).expect("what was restored");
        let entry =
            store.get("/registry/pods/default/a").await.expect("readable").expect("not deleted in the snapshot");
        assert_eq!((&*entry.value, entry.mod_revision), (b"first".as_slice(), 2));
        // Whoever watched the old store, however late, is sent back to list.
        assert!(matches!(store.watch("/", seen), Err(ReadError::Compacted { .. })));
        assert!(store.commit(put("/registry/pods/default/b", "")).await.expect("runs").revision > seen);
    }

    #[tokio::test]
    async fn a_snapshot_of_a_store_elsewhere_is_the_same() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = MemoryStore::new();
        let txn = Txn::new().put_until("/registry/events/a", Splice::new("rv=;", Some(3)), Some(9));
        store.commit(txn).await.expect("runs");
        let saved = save_from(&store, &dir.path().join("file")).await.expect("readable");
        assert_eq!((saved.keys, saved.revision), (1, 2));
        restore(&dir.path().join("file"), &dir.path().join("data")).expect("an empty directory");
        let store = FileStore::open(dir.path().join("data"), Options::default()).expect("what was restored");
        assert_eq!(store.expire(9).await.expect("runs"), 1);
    }

    #[test]
    fn what_is_not_a_whole_snapshot_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        write(&path, &Snapshot::new(7, [])).expect("writable");
        let whole = std::fs::read(&path).expect("just written");
        let mut damaged = whole.clone();
        damaged[600] ^= 1;
        for bytes in [&whole[..whole.len() - 512], &damaged, b"something else", b""] {
            std::fs::write(&path, bytes).expect("writable");
            let refused = restore(&path, &dir.path().join("data")).expect_err("not whole");
            assert!(refused.to_string().contains("is not a whole snapshot"), "{refused}");
            assert!(!dir.path().join("data").exists(), "nothing is made of it");
        }
        let refused = inspect(&dir.path().join("none")).expect_err("no such file");
        assert!(refused.to_string().contains("No such file"), "{refused}");
        let refused = save(&dir.path().join("none"), &path).expect_err("no store");
        assert!(matches!(refused, BackupError::Empty { .. }), "{refused}");
    }
}
