//! What goes wrong in a cluster: members die, etcd restarts, history is compacted under a watcher.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pintle_store::{
    CommitError, EtcdStore, EventKind, Expect, Options, Range, ReadError, Revision, Splice, Store, Txn,
};
use tokio::time::{Instant, sleep, timeout};

use crate::gate::Gate;
use pintle_store::etcd::Config;
use pintle_store::etcd::testing::Etcd;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_dies_under_load_costs_seconds_and_no_acknowledged_write() {
    const WRITERS: usize = 4;
    let mut etcd = Etcd::start_with(3, None);
    let store = etcd.connect().await;
    let other = etcd.connect().await;
    let first = store.revision();
    let mut watch = store.watch("/w/", first).expect("now");
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..WRITERS).map(|writer| tokio::spawn(write(store.clone(), writer, stop.clone()))).collect();
    while store.revision() < first + 300 {
        sleep(Duration::from_millis(10)).await;
    }
    // The one that store and watch are at.
    etcd.members[0].kill();
    let killed = Instant::now();
    let at_death = other.revision();
    while other.revision() < at_death + 300 {
        assert!(killed.elapsed() < Duration::from_secs(15), "writes go on at {}", other.revision());
        sleep(Duration::from_millis(10)).await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut acknowledged: Vec<(String, Revision)> = Vec::new();
    for writer in writers {
        acknowledged.extend(writer.await.expect("no writer panics"));
    }
    let page = other.range(Range::prefix("/w/")).await.expect("readable");
    let stored: BTreeMap<String, Revision> =
        page.entries.iter().map(|entry| (entry.key.to_string(), entry.mod_revision)).collect();
    for (key, revision) in &acknowledged {
        assert_eq!(stored.get(key), Some(revision), "{key} was acknowledged");
    }
    let mut seen = Vec::new();
    while seen.len() < stored.len() {
        let events = timeout(Duration::from_secs(10), watch.next()).await.expect("in time").expect("the watch goes on");
        seen.extend(events.iter().map(|event| (event.entry.key.to_string(), event.revision)));
    }
    assert!(seen.is_sorted_by(|one, next| one.1 < next.1), "in order, once");
    assert_eq!(seen.into_iter().collect::<BTreeMap<_, _>>(), stored);
    assert_eq!(store.health(), Ok(()));
    println!(
        "{} acknowledged, {} stored, {:?} to 300 writes after the death",
        acknowledged.len(),
        stored.len(),
        killed.elapsed()
    );
}

/// Creates keys until it is told to stop; what came back as unknown is left out.
async fn write(store: Arc<EtcdStore>, writer: usize, stop: Arc<AtomicBool>) -> Vec<(String, Revision)> {
    let mut acknowledged = Vec::new();
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let key = format!("/w/{writer}/{n}");
        let txn = Txn::new().check(&*key, Expect::Absent).put(&*key, Splice::plain("x"));
        match store.commit(txn).await {
            Ok(committed) => acknowledged.push((key, committed.revision)),
            Err(CommitError::Unavailable { .. }) => {}
            // Each key is asked for once, so it can only be there if a write was sent twice.
            Err(error) => panic!("{error}"),
        }
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_sees_everything_across_a_restart_of_etcd() {
    let mut etcd = Etcd::start();
    let store = etcd.connect().await;
    let mut watch = store.watch("/", store.revision()).expect("now");
    let put = |n: u32| Txn::new().put("/a", Splice::plain(n.to_string()));
    store.commit(put(0)).await.expect("written");
    etcd.members[0].kill();
    let cached = store.range(Range::prefix("/").cached()).await.expect("from memory");
    assert_eq!(cached.entries.len(), 1);
    assert!(matches!(store.commit(put(1)).await, Err(CommitError::Unavailable { .. })), "nobody is there");
    assert!(matches!(store.get("/a").await, Err(ReadError::Unavailable { .. })), "it may have changed");
    let unhealthy = store.health().expect_err("it was away for as long as two calls wait");
    assert!(unhealthy.contains("127.0.0.1"), "{unhealthy}");
    etcd.members[0].start();
    wait_until(|| store.health().is_ok()).await;
    store.commit(put(2)).await.expect("written");
    let mut seen = Vec::new();
    while seen.len() < 2 {
        seen.extend(watch.next().await.expect("the watch goes on").iter().map(|event| event.entry.value.clone()));
    }
    assert_eq!(seen, ["0", "2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_that_compaction_overtook_is_told_and_a_new_list_is_right() {
    let etcd = Etcd::start();
    let store = etcd.connect().await;
    for n in 0..10 {
        store.commit(Txn::new().put(format!("/k/{n}"), Splice::plain("before"))).await.expect("written");
    }
    let from = store.revision();
    let mut watch = store.watch("/k/", from).expect("now");
    // Changed and compacted by another while this server cannot see it: its connections go through
    // a proxy that holds them up.
    let endpoint = etcd.members[0].endpoint.clone();
    let mut config = etcd.config("");
    let gate = crate::gate::Gate::open(&endpoint).await;
    config.endpoints = vec![gate.endpoint.clone()];
    let behind = etcd.connect_with(config, Options::default()).await;
    let mut cut_off = behind.watch("/k/", behind.revision()).expect("now");
    gate.close();
    let mut last = 0;
    for n in 0..10 {
        let txn = Txn::new().put(format!("/k/{n}"), Splice::plain("after")).delete(format!("/k/{}", n + 1));
        last = store.commit(txn).await.expect("written").revision;
    }
    store.compact(last);
    // One that holds no history asks etcd itself.
    let late = etcd.connect().await;
    while !matches!(late.range(Range::prefix("/").at(from)).await, Err(ReadError::Compacted { .. })) {
        sleep(Duration::from_millis(10)).await;
    }
    gate.reopen();
    let told = timeout(Duration::from_secs(20), cut_off.next()).await.expect("in time");
    assert!(matches!(told, Err(ReadError::Compacted { oldest }) if oldest >= last), "{told:?}");
    let page = behind.range(Range::prefix("/k/")).await.expect("read again");
    let right = store.range(Range::prefix("/k/")).await.expect("readable");
    let shown = |page: &pintle_store::Page| -> Vec<(String, Vec<u8>, Revision)> {
        page.entries.iter().map(|e| (e.key.to_string(), e.value.to_vec(), e.mod_revision)).collect()
    };
    assert_eq!(shown(&page), shown(&right));
    assert!(page.entries.iter().all(|entry| &*entry.value == b"after"));
    // Whoever goes on from the new list misses nothing, and a watcher that did not read is told the same.
    let mut next = behind.watch("/k/", page.revision).expect("now");
    store.commit(Txn::new().put("/k/new", Splice::plain("x"))).await.expect("written");
    assert_eq!(&*next.next().await.expect("an event")[0].entry.key, "/k/new");
    let told = watch.next().await;
    assert!(matches!(told, Err(ReadError::Compacted { .. })), "{told:?}");
}

/// A store whose connection to etcd can be cut and held up.
async fn behind_a_gate(etcd: &Etcd) -> (Gate, Arc<EtcdStore>) {
    let gate = Gate::open(&etcd.members[0].endpoint).await;
    let config = Config { endpoints: vec![gate.endpoint.clone()], ..etcd.config("") };
    let store = etcd.connect_with(config, Options::default()).await;
    (gate, store)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_is_not_torn_when_a_watcher_catches_up_with_more_than_one_message() {
    const TRANSACTIONS: usize = 12;
    let etcd = Etcd::start();
    let direct = etcd.connect().await;
    let (gate, store) = behind_a_gate(&etcd).await;
    let mut watch = store.watch("/k/", store.revision()).expect("now");
    gate.close();
    // Together more than etcd sends in one piece; it cuts between events, not between transactions.
    let large = || Splice::plain(vec![b'x'; 450_000]);
    for n in 0..TRANSACTIONS {
        let txn = (0..3).fold(Txn::new(), |txn, part| txn.put(format!("/k/{n}/{part}"), large()));
        direct.commit(txn).await.expect("written");
    }
    gate.reopen();
    let mut revisions = Vec::new();
    while revisions.len() < TRANSACTIONS * 3 {
        let events = timeout(Duration::from_secs(10), watch.next()).await.expect("in time").expect("the watch goes on");
        assert_eq!(events.len() % 3, 0, "a transaction comes whole");
        revisions.extend(events.iter().map(|event| event.revision));
    }
    assert!(revisions.chunks(3).all(|one| one[0] == one[2]) && revisions.is_sorted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_hangs_is_noticed_and_taken_up_again() {
    let etcd = Etcd::start();
    let direct = etcd.connect().await;
    let (gate, store) = behind_a_gate(&etcd).await;
    let mut watch = store.watch("/", store.revision()).expect("now");
    gate.hold();
    direct.commit(Txn::new().put("/a", Splice::plain("x"))).await.expect("written");
    assert!(matches!(store.get("/a").await, Err(ReadError::Unavailable { .. })));
    wait_until(|| store.health().is_err()).await;
    gate.reopen();
    let seen = timeout(Duration::from_secs(10), watch.next()).await.expect("in time").expect("an event");
    assert_eq!((&*seen[0].entry.key, seen[0].kind), ("/a", EventKind::Put));
    assert_eq!(seen.iter().map(|event| event.revision).collect::<HashSet<_>>().len(), seen.len());
    wait_until(|| store.health().is_ok()).await;
}

async fn wait_until(holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(20), "it does not come");
        sleep(Duration::from_millis(20)).await;
    }
}
