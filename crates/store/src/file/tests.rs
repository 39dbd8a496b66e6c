//! What only the file engine promises: what was acknowledged is there after a restart.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use super::sim::SimDisk;
use super::{FileStore, OpenError, Options};
use crate::failpoint::{Failpoint, Failpoints};
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
    let mut watch = store.watch("/", 6).expect("the current revision");
    assert_eq!(store.expire(1000).await.expect("runs"), 1);
    let deleted = store.commit(Txn::new().delete("/a")).await.expect("runs");
    let last = deleted.entries[0].as_ref().expect("it was there");
    assert_eq!((deleted.revision, &*last.value), (8, b"rv=8;".as_slice()));
    assert_eq!(watch.next().await.expect("events")[0].revision, 7);
}

#[tokio::test]
async fn a_watch_goes_on_where_it_was_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path()).expect("an empty directory");
    for key in ["/a", "/b", "/a"] {
        store.commit(put(key)).await.expect("runs");
    }
    store.commit(Txn::new().delete("/a")).await.expect("runs");
    drop(store);
    let store = open(dir.path()).expect("what was written");
    let mut watch = store.watch("/", 2).expect("the log reaches back that far");
    store.commit(put("/c")).await.expect("runs");
    let mut seen = Vec::new();
    while seen.len() < 4 {
        for event in watch.next().await.expect("events") {
            let previous = event.previous.as_ref().map(|previous| previous.mod_revision);
            seen.push((event.revision, event.entry.key.to_string(), previous));
        }
    }
    let expected = [(3, "/b", None), (4, "/a", Some(2)), (5, "/a", Some(4)), (6, "/c", None)];
    assert_eq!(seen, expected.map(|(revision, key, previous)| (revision, key.to_owned(), previous)));
    assert_eq!(store.range(Range::prefix("/").at(3)).await.expect("kept").entries.len(), 2);
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
    let mode = |path: &Path| std::os::unix::fs::MetadataExt::mode(&path.metadata().expect("it exists")) & 0o777;
    assert_eq!(mode(&dir), 0o700);
    for file in std::fs::read_dir(&dir).expect("a directory") {
        assert_eq!(mode(&file.expect("a file").path()), 0o600);
    }
}

#[tokio::test]
async fn a_damaged_value_is_not_served() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path()).expect("an empty directory");
    store.commit(put("/a")).await.expect("runs");
    store.commit(put("/b")).await.expect("runs");
    drop(store);
    let log = dir.path().join("log-0000000000000001");
    let mut bytes = std::fs::read(&log).expect("the log");
    let at = bytes.windows(5).position(|five| five == b"rv=3;").expect("the second value");
    bytes[at + 3] ^= 1;
    std::fs::write(&log, bytes).expect("writable");
    let refused = open(dir.path()).expect_err("one bit is wrong");
    assert!(matches!(&refused, OpenError::Damaged { file, .. } if file == "log-0000000000000001"), "{refused}");
    assert!(refused.to_string().contains("restore a snapshot"), "{refused}");
}

#[tokio::test]
async fn data_of_another_format_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("fjall")).expect("what format 1 had");
    let refused = open(dir.path()).expect_err("a format of the past");
    assert!(matches!(refused, OpenError::Format { found, expected: 2, .. } if found == "1"));

    let dir = tempfile::tempdir().expect("a directory");
    let mut header = b"pintle\r\n".to_vec();
    header.extend(7_u32.to_le_bytes());
    let mut sealed = Vec::new();
    super::block::seal(&header, 0, 0, &mut sealed);
    std::fs::write(dir.path().join("log-0000000000000001"), sealed).expect("writable");
    let refused = open(dir.path()).expect_err("a format of the future");
    assert!(matches!(refused, OpenError::Format { found, expected: 2, .. } if found == "7"));
}

#[tokio::test]
async fn a_file_in_the_way_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    std::fs::write(&path, "in the way").expect("writable");
    let refused = open(&path).expect_err("not a directory");
    assert!(refused.to_string().contains(&path.display().to_string()), "{refused}");
}

#[tokio::test]
async fn a_file_that_was_deleted_is_missed() {
    let dir = tempfile::tempdir().expect("a directory");
    for key in ["/a", "/b", "/c"] {
        open(dir.path()).expect("what was written").commit(put(key)).await.expect("runs");
    }
    std::fs::remove_file(dir.path().join("log-0000000000000002")).expect("it was there");
    let refused = open(dir.path()).expect_err("a log is gone");
    assert!(refused.to_string().contains("log-0000000000000002, it is missing"), "{refused}");
}

#[tokio::test]
async fn an_acknowledged_write_whose_log_was_deleted_is_missed_though_nothing_follows_it() {
    for starts in 1..=3 {
        let dir = tempfile::tempdir().expect("a directory");
        for key in ["/a", "/b", "/c"].iter().take(starts) {
            open(dir.path()).expect("what was written").commit(put(key)).await.expect("runs");
        }
        let last = format!("log-{starts:016}");
        std::fs::remove_file(dir.path().join(&last)).expect("it was there");
        let refused = open(dir.path()).expect_err("the last log is gone");
        assert!(refused.to_string().contains(&format!("{last}, it is missing")), "{refused}");
    }
}

#[tokio::test]
async fn the_logs_of_many_restarts_become_one_state() {
    let dir = tempfile::tempdir().expect("a directory");
    let logs = || {
        let files = std::fs::read_dir(dir.path()).expect("a directory");
        files
            .filter(|file| file.as_ref().is_ok_and(|file| file.file_name().to_string_lossy().starts_with("log-")))
            .count()
    };
    for n in 0..40 {
        let store = open(dir.path()).expect("what was written");
        store.commit(put(&format!("/{n}"))).await.expect("runs");
        // The state is written by another thread, which closing does not wait for: some starts later it is there.
        while logs() > 16 {
            store.commit(put("/again")).await.expect("runs");
        }
    }
    let store = open(dir.path()).expect("what was written");
    assert!(logs() < 20);
    assert!(store.range(Range::prefix("/")).await.expect("readable").entries.len() >= 40);
}

/// Tells of each step of interest, can be held up there, and can fail there.
#[derive(Debug)]
struct Script {
    point: Failpoint,
    told: SyncSender<()>,
    gate: Option<Mutex<Receiver<()>>>,
    fail_from: usize,
    seen: Mutex<usize>,
}

impl Failpoints for Script {
    fn reached(&self, point: Failpoint) -> Result<(), String> {
        if point != self.point {
            return Ok(());
        }
        let _ = self.told.try_send(());
        if let Some(gate) = &self.gate {
            let _ = gate.lock().expect("no panic").recv();
        }
        let mut seen = self.seen.lock().expect("no panic");
        *seen += 1;
        if *seen > self.fail_from { Err("the disk is on fire".to_owned()) } else { Ok(()) }
    }
}

fn start(disk: &SimDisk, script: Script) -> FileStore {
    FileStore::open_on(Arc::new(disk.clone()), Options::default(), Some(Arc::new(script))).expect("an empty disk")
}

fn script(point: Failpoint) -> (Script, Receiver<()>) {
    let (told, tells) = sync_channel(64);
    (Script { point, told, gate: None, fail_from: usize::MAX, seen: Mutex::new(0) }, tells)
}

#[tokio::test]
async fn a_failed_write_stops_the_store_and_shows_nothing() {
    let (script, tells) = script(Failpoint::CommitWritten);
    let store = start(&SimDisk::new(), Script { fail_from: 1, ..script });
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
    assert_eq!(tells.try_iter().count(), 2, "a failed disk is not asked again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_writers_share_a_sync_and_none_is_answered_before_it() {
    let (script, tells) = script(Failpoint::CommitWritten);
    let (go, gate) = sync_channel(8);
    let store = Arc::new(start(&SimDisk::new(), Script { gate: Some(Mutex::new(gate)), ..script }));
    let started = Arc::new(AtomicUsize::new(0));
    let spawn = |key: String| {
        let (store, started) = (Arc::clone(&store), Arc::clone(&started));
        tokio::spawn(async move {
            started.fetch_add(1, Ordering::SeqCst);
            store.commit(put(&key)).await.expect("runs").revision
        })
    };
    let first = spawn("/first".into());
    tells.recv().expect("a writer is at the first");
    let others: Vec<_> = (0..32).map(|n| spawn(format!("/{n}"))).collect();
    while started.load(Ordering::SeqCst) < 33 {
        tokio::task::yield_now().await;
    }
    assert_eq!(store.revision(), 1, "nothing is seen before it is durable");
    assert!(!first.is_finished(), "nothing is acknowledged before it is durable");
    drop(go);
    first.await.expect("no panic");
    for other in others {
        other.await.expect("no panic");
    }
    // One group was made ready meanwhile, one is all that waited behind it, and two threads may have been late.
    assert!(tells.try_iter().count() <= 4, "the others share");
    assert_eq!(store.revision(), 34);
}

#[tokio::test]
async fn a_writer_has_its_answer_before_any_watcher_is_woken() {
    let (script, tells) = script(Failpoint::CommitAnswered);
    let (go, gate) = sync_channel(8);
    let store = start(&SimDisk::new(), Script { gate: Some(Mutex::new(gate)), ..script });
    let mut watch = store.watch("/", store.revision()).expect("now");
    let woken = Arc::new(Woken::default());
    let mut waiting = Box::pin(watch.next());
    let waker = Waker::from(Arc::clone(&woken));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let committed = store.commit(put("/a")).await.expect("answered while the watcher sleeps");
    tells.recv().expect("the writer's thread has answered");
    assert_eq!(woken.0.load(Ordering::SeqCst), 0);
    drop(go);
    assert_eq!(waiting.await.expect("the watch goes on")[0].revision, committed.revision);
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn relaxed_writes_are_synced_without_being_asked() {
    let (script, tells) = script(Failpoint::Synced);
    let store = start(&SimDisk::new(), script);
    for key in ["/a", "/b"] {
        store.commit(put(key).durability(Durability::Relaxed)).await.expect("runs");
    }
    tells.recv().expect("within a second");
}

#[tokio::test]
async fn a_failed_sync_of_relaxed_writes_stops_the_store() {
    let (script, tells) = script(Failpoint::SyncDue);
    let store = start(&SimDisk::new(), Script { fail_from: 0, ..script });
    for key in ["/a", "/b"] {
        store.commit(put(key).durability(Durability::Relaxed)).await.expect("runs");
    }
    tells.recv().expect("within a second");
    while store.health().is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(matches!(store.commit(put("/c")).await, Err(CommitError::Stopped { .. })));
}

#[tokio::test]
async fn a_revision_is_not_given_out_twice_when_relaxed_writes_are_lost() {
    let disk = SimDisk::new();
    let open = |disk: &SimDisk| FileStore::open_on(Arc::new(disk.clone()), Options::default(), None);
    let store = open(&disk).expect("an empty disk");
    for key in ["/a", "/b", "/c"] {
        store.commit(put(key).durability(Durability::Relaxed)).await.expect("runs");
    }
    // The seed loses all that was not synced: the first was, with the reservation.
    let lost = disk.after_power_cut(&mut crate::chance::Chance::seeded(0));
    let store = open(&lost).expect("what is left");
    assert!(store.get("/a").await.expect("readable").is_some());
    assert_eq!(store.revision(), 10_002);
    assert_eq!(store.watch("/", 4).err(), Some(ReadError::Compacted { oldest: 10_002 }), "who saw the lost ones");
    assert_eq!(store.commit(put("/d")).await.expect("runs").revision, 10_003);
    drop(store);
    assert_eq!(open(&lost).expect("closed in order").revision(), 10_003);
}

#[tokio::test]
async fn a_fork_of_a_store_on_disk_leaves_it_alone() {
    let store = FileStore::open_on(Arc::new(SimDisk::new()), Options::default(), None).expect("an empty disk");
    store.commit(put("/a")).await.expect("runs");
    let fork = store.fork();
    fork.commit(Txn::new().delete("/a")).await.expect("runs");
    assert!(store.get("/a").await.expect("readable").is_some());
    assert_eq!((store.revision(), fork.revision()), (2, 3));
}
