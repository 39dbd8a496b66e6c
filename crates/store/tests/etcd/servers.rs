//! Several servers over one etcd behave as one store.

use std::sync::Arc;
use std::time::Duration;

use pintle_store::etcd::Config;
use pintle_store::{EventKind, Expect, Options, Range, ReadError, Splice, Store, Txn};

use pintle_store::etcd::testing::Etcd;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_through_one_server_is_read_through_the_other_at_once() {
    const WRITES: u64 = 1000;
    let etcd = Etcd::start();
    let (a, b) = (etcd.connect().await, etcd.connect().await);
    let mut watch = b.watch("/n/", b.revision()).expect("now");
    for n in 0..WRITES {
        let committed = a.commit(put(&format!("/n/{}", n % 7), &n.to_string())).await.expect("written");
        let entry = b.get(&format!("/n/{}", n % 7)).await.expect("readable").expect("written before");
        assert_eq!((&*entry.value, entry.mod_revision), (n.to_string().as_bytes(), committed.revision));
    }
    let mut seen = Vec::new();
    while seen.len() < WRITES as usize {
        seen.extend(watch.next().await.expect("the watch goes on"));
    }
    for (n, event) in seen.iter().enumerate() {
        assert_eq!(&*event.entry.value, n.to_string().as_bytes(), "each once, in order");
        assert_eq!(event.entry.version, 1 + n as u64 / 7);
    }
    assert_eq!(seen.len() as u64, WRITES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_do_not_expire_a_key_twice_nor_one_that_the_other_renewed() {
    let etcd = Etcd::start();
    let (a, b) = (etcd.connect().await, etcd.connect().await);
    let until = |key: &str, at| Txn::new().put_until(key, Splice::plain("x"), Some(at));
    for n in 0..20 {
        a.commit(until(&format!("/e/{n:02}"), 1000)).await.expect("written");
    }
    let last = a.commit(until("/e/00", 5000)).await.expect("renewed").revision;
    b.reach(last).await.expect("soon");
    let (by_a, by_b) = tokio::join!(a.expire(2000), b.expire(2000));
    assert_eq!(by_a.expect("runs") + by_b.expect("runs"), 19);
    let left = b.range(Range::prefix("/e/")).await.expect("readable");
    assert_eq!(left.entries.iter().map(|entry| &*entry.key).collect::<Vec<_>>(), ["/e/00"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_starts_later_reads_pages_of_older_revisions() {
    let etcd = Etcd::start();
    let a = etcd.connect_with(etcd.config("/mine"), Options::default()).await;
    for n in 0..25 {
        a.commit(put(&format!("/p/{n:02}"), "before")).await.expect("written");
    }
    let at = a.revision();
    for n in 0..25 {
        a.commit(put(&format!("/p/{n:02}"), "after")).await.expect("written");
    }
    let b = etcd.connect_with(etcd.config("/mine"), Options::default()).await;
    let mut range = Range::prefix("/p/").at(at).limit(10);
    let mut seen = Vec::new();
    loop {
        let page = b.range(range.clone()).await.expect("etcd keeps it");
        assert_eq!((page.revision, page.remaining), (at, 25 - seen.len() - page.entries.len()));
        assert!(page.entries.iter().all(|entry| &*entry.value == b"before"));
        seen.extend(page.entries.iter().map(|entry| entry.key.to_string()));
        if page.remaining == 0 {
            break;
        }
        range = range.after(seen.last().expect("a page has entries"));
    }
    assert_eq!(seen, (0..25).map(|n| format!("/p/{n:02}")).collect::<Vec<_>>());
    assert!(matches!(b.range(Range::prefix("/p/").at(0)).await, Err(ReadError::Compacted { .. })));
    assert!(matches!(b.range(Range::prefix("/p/").at(u64::MAX)).await, Err(ReadError::Future { .. })));
    assert!(matches!(b.watch("/p/", at), Err(ReadError::Compacted { .. })), "its events are not here");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_elses_writes_do_not_hang_reads_nor_show_in_them() {
    let etcd = Etcd::start();
    let ours = etcd.connect_with(etcd.config("/ours"), Options::default()).await;
    let theirs = etcd.connect_with(etcd.config("/theirs"), Options::default()).await;
    let mut watch = ours.watch("", ours.revision()).expect("now");
    ours.commit(put("/a", "one")).await.expect("written");
    for n in 0..5 {
        let foreign = theirs.commit(put("/a", &n.to_string())).await.expect("written").revision;
        let page = ours.range(Range::prefix("")).await.expect("readable");
        assert_eq!(page.entries.len(), 1, "{:?}", page.entries);
        assert!(page.revision >= foreign && ours.revision() >= foreign);
        assert!(watch.progress() <= ours.revision());
    }
    let last = ours.commit(put("/a", "two")).await.expect("written").revision;
    let mut seen = Vec::new();
    while seen.last() != Some(&last) {
        seen.extend(watch.next().await.expect("the watch goes on").iter().map(|event| {
            assert_eq!(&*event.entry.key, "/a");
            event.revision
        }));
    }
    assert_eq!(seen.len(), 2);
    // A check alone changes nothing, and still says a revision that can be read.
    theirs.commit(put("/a", "last")).await.expect("written");
    let checked = ours.commit(Txn::new().check("/a", Expect::Revision(last))).await.expect("it holds");
    assert!(checked.revision > last && ours.range(Range::prefix("").at(checked.revision)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_goes_when_its_time_has_come_though_nobody_expires_it() {
    let etcd = Etcd::start();
    let store = etcd.connect().await;
    let now = clock_ms();
    let txn = Txn::new().put_until("/event", Splice::plain("soon"), Some(now + 2000)).put_until(
        "/other",
        Splice::plain("later"),
        Some(now + 600_000),
    );
    let before = store.commit(txn).await.expect("written").revision;
    let mut watch = store.watch("/", before).expect("now");
    let gone = tokio::time::timeout(Duration::from_secs(15), watch.next()).await.expect("in time").expect("an event");
    assert!(clock_ms() >= now + 2000, "not before its time");
    assert_eq!((gone.len(), gone[0].kind, &*gone[0].entry.key), (1, EventKind::Delete, "/event"));
    assert_eq!(&*gone[0].entry.value, b"soon");
    assert!(store.get("/other").await.expect("readable").is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_etcd_cannot_take_is_refused_and_says_why() {
    let etcd = Etcd::start();
    let store = etcd.connect().await;
    let many = (0..2001).fold(Txn::new(), |txn, n| txn.put(format!("/k/{n}"), Splice::plain("x")));
    let refused = store.commit(many).await.expect_err("more than the 2,000 it was started with").to_string();
    assert!(refused.contains("2001 operations"), "{refused}");
    for size in [1_600_000, 4_000_000] {
        let large = Txn::new().put("/large", Splice::plain(vec![b'x'; size]));
        let refused = store.commit(large).await.expect_err("more than 1.5 MiB").to_string();
        assert!(refused.contains("whole transaction of key /large"), "{refused}");
    }
    assert_eq!(store.revision(), 1);
    store.commit(Txn::new().put("/large", Splice::plain(vec![b'x'; 1_400_000]))).await.expect("fits");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_changes_of_one_key_in_a_transaction_count_as_the_last() {
    let etcd = Etcd::start();
    let store = etcd.connect().await;
    let twice =
        Txn::new().put("/a", Splice::plain("one")).put("/b", Splice::plain("b")).put("/a", Splice::plain("two"));
    let committed = store.commit(twice).await.expect("written");
    assert_eq!((committed.entries.len(), committed.revision), (3, 2));
    let gone = Txn::new().put("/a", Splice::plain("three")).delete("/a");
    let committed = store.commit(gone).await.expect("written");
    assert_eq!(committed.entries[1].as_ref().map(|entry| entry.value.clone()), Some("two".into()));
    let left = store.range(Range::prefix("/")).await.expect("readable");
    assert_eq!(left.entries.iter().map(|entry| &*entry.value).collect::<Vec<_>>(), [b"b"]);
    let zero = store.commit(Txn::new().check("/a", Expect::Revision(0)).put("/a", Splice::plain("x"))).await;
    assert!(zero.is_err(), "an absent key has no revision, not revision 0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_that_is_not_there_is_named_within_seconds() {
    let nobody = Config { endpoints: vec!["127.0.0.1:1".into(), "127.0.0.1:2".into()], ..Config::default() };
    let started = tokio::time::Instant::now();
    let error = pintle_store::EtcdStore::connect(nobody, Options::default()).await.expect_err("nobody is there");
    assert!(started.elapsed() < Duration::from_secs(12));
    let text = error.to_string();
    assert!(text.contains("127.0.0.1:1, 127.0.0.1:2") && text.contains("refused"), "{text}");
}

fn put(key: &str, value: &str) -> Txn {
    Txn::new().put(key, Splice::plain(value))
}

#[expect(clippy::disallowed_methods, reason = "etcd's leases run by the real clock")]
fn clock_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    since.as_millis().try_into().expect("before the year 292 million")
}

/// Whoever writes through a server that has closed hears so, while the other goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_closes_does_not_take_the_others_with_it() {
    let etcd = Etcd::start();
    let (a, b) = (etcd.connect().await, etcd.connect().await);
    a.close().await;
    assert!(a.commit(put("/a", "one")).await.is_err());
    drop(Arc::clone(&a));
    b.commit(put("/a", "two")).await.expect("written");
    assert_eq!(b.get("/a").await.expect("readable").map(|entry| entry.value.clone()), Some("two".into()));
}
