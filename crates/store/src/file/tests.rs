//! What only the file engine promises: what was acknowledged is there after a restart.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use fjall::{Database, KeyspaceCreateOptions, PersistMode};

use super::disk::{Disk, Group};
use super::{FileStore, OpenError, Options};
use crate::snapshot::Snapshot;
use crate::{CommitError, Durability, Range, ReadError, Splice, Store, Txn};

fn open(dir: &Path) -> Result<FileStore, OpenError> {
    FileStore::open(dir, Options::default())
}

fn put(key: &str) -> Txn {
    Txn::new().put(key, Splice::new("rv=;", Some(3)))
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path()).expect("an empty directory");
    store.commit(put("/a")).await.expect("runs");
    store.commit(put("/a")).await.expect("runs");
    store.commit(put("/gone")).await.expect("runs");
    store.commit(Txn::new().delete("/gone")).await.expect("runs");
    let lease = Txn::new().put_until("/lease", Splice::plain(""), Some(1000));
    store.commit(lease.durability(Durability::Relaxed)).await.expect("runs");
    drop(store);

    let store = open(dir.path()).expect("what was written");
    assert_eq!(store.revision(), 6);
    let page = store.range(Range::prefix("/")).await.expect("readable");
    let found: Vec<_> = page
        .entries
        .iter()
        .map(|entry| (&*entry.key, entry.create_revision, entry.mod_revision, entry.version))
        .collect();
    assert_eq!(found, [("/a", 2, 3, 2), ("/lease", 6, 6, 1)]);
    assert_eq!(page.entries[0].value, "rv=3;");
    assert_eq!(store.watch("/", 5).err(), Some(ReadError::Compacted { oldest: 6 }));
    let mut watch = store.watch("/", 6).expect("the current revision");
    assert_eq!(store.expire(1000).await.expect("runs"), 1);
    let deleted = store.commit(Txn::new().delete("/a")).await.expect("runs");
    let last = deleted.entries[0].as_ref().expect("it was there");
    assert_eq!((deleted.revision, &*last.value), (8, b"rv=8;".as_slice()));
    assert_eq!(watch.next().await.expect("events")[0].revision, 7);
}

#[tokio::test]
async fn a_closed_store_leaves_its_directory_to_the_next() {
    let dir = tempfile::tempdir().expect("a directory");
    let closed = open(dir.path()).expect("an empty directory");
    closed.commit(put("/a")).await.expect("runs");
    closed.close().await;
    let next = open(dir.path()).expect("the lock is free");
    assert_eq!(next.revision(), 2);
    assert!(matches!(closed.commit(put("/b")).await, Err(CommitError::Stopped { .. })));
}

#[tokio::test]
async fn a_second_pintle_does_not_touch_the_directory_of_the_first() {
    let parent = tempfile::tempdir().expect("a directory");
    let dir = parent.path().join("data");
    let _first = open(&dir).expect("a directory that can be made");
    let refused = open(&dir).expect_err("the first has it");
    assert!(matches!(refused, OpenError::Locked { .. }));
    assert_eq!(
        refused.to_string(),
        format!("another pintle is using {}; stop it or choose another --data-dir", dir.display())
    );
    let mode = std::os::unix::fs::MetadataExt::mode(&dir.metadata().expect("it exists"));
    assert_eq!(mode & 0o777, 0o700);
}

#[tokio::test]
async fn a_damaged_value_is_not_served() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path()).expect("an empty directory");
    store.commit(put("/a")).await.expect("runs");
    store.commit(put("/b")).await.expect("runs");
    drop(store);
    write_raw(dir.path(), "objects", "/b", |value| {
        let last = value.len() - 1;
        value[last] ^= 1;
    });
    let refused = open(dir.path()).expect_err("one bit is wrong");
    assert!(matches!(refused, OpenError::Corrupt { key, .. } if key == "/b"));
}

#[tokio::test]
async fn data_of_another_format_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    drop(open(dir.path()).expect("an empty directory"));
    write_raw(dir.path(), "meta", "format", |value| *value = 7_u32.to_le_bytes().to_vec());
    let refused = open(dir.path()).expect_err("a format of the future");
    assert!(matches!(refused, OpenError::Format { found, expected: 1, .. } if found == "7"));
}

#[tokio::test]
async fn a_file_in_the_way_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    std::fs::write(&path, "in the way").expect("writable");
    let refused = open(&path).expect_err("not a directory");
    assert!(refused.to_string().contains(&path.display().to_string()), "{refused}");
}

fn write_raw(dir: &Path, keyspace: &str, key: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let database = Database::builder(dir.join("fjall")).open().expect("a database");
    let keyspace = database.keyspace(keyspace, KeyspaceCreateOptions::default).expect("a keyspace");
    let mut value = keyspace.get(key).expect("readable").expect("present").to_vec();
    change(&mut value);
    keyspace.insert(key, value).expect("writable");
    database.persist(PersistMode::SyncAll).expect("durable");
}

/// A disk that records what it was asked, tells of it, can be held up, and can fail.
#[derive(Clone, Default)]
struct Script {
    writes: Arc<Mutex<Vec<Write>>>,
    told: Option<SyncSender<&'static str>>,
    gate: Option<Arc<Mutex<Receiver<()>>>>,
    fail_after: Option<usize>,
}

/// Revision, reservation, and whether to sync.
type Write = (u64, Option<u64>, bool);

impl Script {
    fn tell(&self, what: &'static str) {
        if let Some(told) = &self.told {
            let _ = told.try_send(what);
        }
    }
}

impl Disk for Script {
    fn write(&mut self, group: &Group<'_>, sync: bool) -> Result<(), String> {
        self.tell("write");
        if let Some(gate) = &self.gate {
            let _ = gate.lock().expect("no panic").recv();
        }
        let mut writes = self.writes.lock().expect("no panic");
        if self.fail_after.is_some_and(|allowed| writes.len() >= allowed) {
            return Err("the disk is on fire".to_owned());
        }
        writes.push((group.revision, group.reserved, sync));
        Ok(())
    }

    fn sync(&mut self) -> Result<(), String> {
        self.tell("sync");
        Ok(())
    }
}

fn start(script: &Script) -> FileStore {
    FileStore::start(script.clone(), 1, Snapshot::new(1, []), Options::default()).expect("a thread")
}

#[tokio::test]
async fn a_failed_write_stops_the_store_and_shows_nothing() {
    let script = Script { fail_after: Some(1), ..Script::default() };
    let store = start(&script);
    store.commit(put("/a")).await.expect("the first write works");
    let mut watch = store.watch("/", store.revision()).expect("now");
    for _ in 0..2 {
        let refused = store.commit(put("/b")).await;
        assert!(matches!(refused, Err(CommitError::Stopped { reason }) if reason.contains("fire")));
    }
    assert_eq!(store.health(), Err("the disk is on fire".to_owned()));
    assert_eq!(store.revision(), 2);
    assert!(store.get("/b").await.expect("readable").is_none());
    assert!(store.get("/a").await.expect("readable").is_some());
    store.close().await;
    assert!(matches!(watch.next().await, Err(ReadError::Stopped { .. })));
    assert_eq!(script.writes.lock().expect("no panic").len(), 1, "a failed disk is not asked again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_writers_share_a_sync_and_none_is_answered_before_it() {
    let (told, tells) = sync_channel(8);
    let (go, gate) = sync_channel(8);
    let gate = Some(Arc::new(Mutex::new(gate)));
    let script = Script { told: Some(told), gate, ..Script::default() };
    let store = Arc::new(start(&script));
    let spawn = |key: String| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.commit(put(&key)).await.expect("runs").revision })
    };
    let first = spawn("/first".into());
    tells.recv().expect("the writer is at the first");
    let others: Vec<_> = (0..32).map(|n| spawn(format!("/{n}"))).collect();
    while store.room.available_permits() > Options::default().queue_length - 32 {
        tokio::task::yield_now().await;
    }
    assert_eq!(store.revision(), 1, "nothing is seen before it is durable");
    assert!(!first.is_finished(), "nothing is acknowledged before it is durable");
    drop(go);
    first.await.expect("no panic");
    for other in others {
        other.await.expect("no panic");
    }
    let writes = script.writes.lock().expect("no panic").clone();
    assert_eq!(writes, [(2, None, true), (34, None, true)]);
}

#[tokio::test]
async fn a_revision_is_not_given_out_twice_when_relaxed_writes_are_lost() {
    let script = Script::default();
    let store = start(&script);
    for key in ["/a", "/b"] {
        store.commit(put(key).durability(Durability::Relaxed)).await.expect("runs");
    }
    store.commit(put("/c")).await.expect("runs");
    drop(store);
    let writes = script.writes.lock().expect("no panic").clone();
    // The reservation is synced with the first, the second is not, and closing gives it back.
    assert_eq!(writes, [(2, Some(10_002), true), (3, None, false), (4, None, true), (4, Some(4), true)]);
}

#[tokio::test]
async fn relaxed_writes_are_synced_without_being_asked() {
    let (told, tells) = sync_channel(8);
    let store = start(&Script { told: Some(told), ..Script::default() });
    for key in ["/a", "/b"] {
        store.commit(put(key).durability(Durability::Relaxed)).await.expect("runs");
    }
    let told: Vec<_> = tells.iter().take(3).collect();
    assert_eq!(told, ["write", "write", "sync"]);
}

#[tokio::test]
async fn a_power_loss_after_relaxed_writes_does_not_turn_revisions_back() {
    let dir = tempfile::tempdir().expect("a directory");
    drop(open(dir.path()).expect("an empty directory"));
    // As it is on disk when the machine dies: reserved, and the writes since are lost.
    write_raw(dir.path(), "meta", "reserved", |value| *value = 500_u64.to_le_bytes().to_vec());
    let store = open(dir.path()).expect("what was written");
    assert_eq!(store.revision(), 500);
    assert_eq!(store.commit(put("/a")).await.expect("runs").revision, 501);
}
