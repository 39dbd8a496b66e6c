//! What a watcher may rely on.

use std::collections::HashSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use super::{commit, delete, events, keys, put, revisions, text};
use crate::{EventKind, ReadError, Splice, Store, Txn};

pub async fn a_watch_from_now_sees_what_follows(store: Arc<dyn Store>) {
    put(&*store, "/a", "before").await;
    let mut watch = store.watch("/", store.revision()).expect("now");
    let writer = Arc::clone(&store);
    let write = tokio::spawn(async move { put(&*writer, "/a", "after").await });
    let seen = events(&mut watch, 1).await;
    assert_eq!(text(&seen[0].entry.value), "after");
    let previous = seen[0].previous.as_ref().expect("it was there before");
    assert_eq!(text(&previous.value), "before");
    let committed = write.await.expect("no panic");
    assert_eq!(seen[0].revision, committed.revision);
    assert!(store.revision() >= seen[0].revision);
}

pub async fn a_watch_from_the_past_misses_nothing(store: Arc<dyn Store>) {
    for n in 0..20 {
        put(&*store, &format!("/k/{n}"), "x").await;
    }
    let mut first = store.watch("/k/", 1).expect("all is kept");
    assert_eq!(revisions(&events(&mut first, 20).await), (2..=21).collect::<Vec<_>>());
    let mut middle = store.watch("/k/", 11).expect("all is kept");
    put(&*store, "/k/more", "x").await;
    assert_eq!(revisions(&events(&mut middle, 11).await), (12..=22).collect::<Vec<_>>());
    assert_eq!(revisions(&events(&mut first, 1).await), [22]);
}

pub async fn a_watch_is_refused_where_history_ends(store: Arc<dyn Store>) {
    for n in 0..5 {
        put(&*store, "/a", &n.to_string()).await;
    }
    store.compact(4);
    assert_eq!(store.watch("/", 3).err(), Some(ReadError::Compacted { oldest: 4 }));
    assert_eq!(store.watch("/", 7).err(), Some(ReadError::Future { current: 6 }));
    let mut watch = store.watch("/", 4).expect("kept");
    assert_eq!(revisions(&events(&mut watch, 2).await), [5, 6]);
}

pub async fn changes_elsewhere_are_not_delivered(store: Arc<dyn Store>) {
    let mut pods = store.watch("/r/pods/", store.revision()).expect("now");
    let mut one = store.watch("/r/pods/a/", store.revision()).expect("now");
    for key in ["/r/nodes/n", "/r/pods/a/1", "/r/podsx/1", "/r/pods/b/1", "/r/pods", "/r/pods/a/2"] {
        put(&*store, key, "x").await;
    }
    assert_eq!(keys(&events(&mut pods, 3).await), ["/r/pods/a/1", "/r/pods/b/1", "/r/pods/a/2"]);
    assert_eq!(keys(&events(&mut one, 2).await), ["/r/pods/a/1", "/r/pods/a/2"]);
}

pub async fn a_prefix_need_not_end_in_a_slash(store: Arc<dyn Store>) {
    let watch = |prefix| store.watch(prefix, store.revision()).expect("now");
    let (mut all, mut part, mut key) = (watch(""), watch("/r/po"), watch("/r/pods/a"));
    for name in ["/q", "/r/pods/a", "/r/pods/b"] {
        put(&*store, name, "x").await;
    }
    assert_eq!(events(&mut all, 3).await.len(), 3);
    assert_eq!(keys(&events(&mut part, 2).await), ["/r/pods/a", "/r/pods/b"]);
    assert_eq!(keys(&events(&mut key, 1).await), ["/r/pods/a"]);
}

pub async fn deletes_carry_the_last_value_and_their_own_revision(store: Arc<dyn Store>) {
    commit(&*store, Txn::new().put("/a", Splice::new("rv=", Some(3)))).await;
    let mut watch = store.watch("/", store.revision()).expect("now");
    delete(&*store, "/a").await;
    let seen = events(&mut watch, 1).await;
    assert_eq!((seen[0].kind, seen[0].revision, seen[0].entry.mod_revision), (EventKind::Delete, 3, 3));
    assert_eq!(text(&seen[0].entry.value), "rv=3");
    assert_eq!(seen[0].previous.as_ref().map(|entry| text(&entry.value)), Some("rv=2".into()));
}

pub async fn concurrent_writers_are_seen_once_and_in_order(store: Arc<dyn Store>) {
    const WRITERS: usize = 8;
    const EACH: usize = 40;
    let watches = (0..4).map(|_| store.watch("/w/", store.revision()).expect("now"));
    let watchers: Vec<_> = watches
        .map(|mut watch| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut seen = Vec::new();
                while seen.len() < WRITERS * EACH {
                    let batch = watch.next().await.expect("the watch goes on");
                    let newest = batch.last().expect("never empty").revision;
                    assert!(store.revision() >= newest, "an event before readers may see it");
                    seen.extend(batch);
                }
                seen
            })
        })
        .collect();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for n in 0..EACH {
                    put(&*store, &format!("/w/{writer}/{n}"), "x").await;
                    put(&*store, &format!("/other/{writer}"), "x").await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("no writer panics");
    }
    for watcher in watchers {
        let seen = watcher.await.expect("no watcher panics");
        assert!(revisions(&seen).is_sorted_by(|one, next| one < next));
        assert_eq!(keys(&seen).into_iter().collect::<HashSet<_>>().len(), WRITERS * EACH);
    }
}

pub async fn a_transaction_larger_than_a_batch_arrives_whole(store: Arc<dyn Store>) {
    let large = || (0..1500).fold(Txn::new(), |txn, n| txn.put(format!("/k/{n}"), Splice::plain("x")));
    let live = store.watch("/k/", store.revision()).expect("now");
    commit(&*store, large()).await;
    commit(&*store, large()).await;
    let late = store.watch("/k/", 1).expect("kept");
    for mut watch in [live, late] {
        for revision in [2, 3] {
            let seen = watch.next().await.expect("the watch goes on");
            assert_eq!((seen.len(), seen[0].revision), (1500, revision));
        }
    }
}

pub async fn a_watcher_far_behind_catches_up(store: Arc<dyn Store>) {
    let mut watch = store.watch("/k/", store.revision()).expect("now");
    for n in 0..150 {
        let txn = (0..20).fold(Txn::new(), |txn, m| txn.put(format!("/k/{n}/{m}"), Splice::plain("x")));
        commit(&*store, txn).await;
    }
    let seen = events(&mut watch, 3000).await;
    assert_eq!(keys(&seen).into_iter().collect::<HashSet<_>>().len(), 3000);
    assert!(revisions(&seen).is_sorted());
    put(&*store, "/k/last", "x").await;
    assert_eq!(keys(&events(&mut watch, 1).await), ["/k/last"]);
}

pub async fn a_slow_watcher_is_cut_off(store: Arc<dyn Store>) {
    let mut slow = store.watch("/", store.revision()).expect("now");
    let mut quick = store.watch("/", store.revision()).expect("now");
    for n in 0..5 {
        put(&*store, "/a", &n.to_string()).await;
        assert_eq!(events(&mut quick, 1).await.len(), 1);
    }
    store.compact(4);
    assert_eq!(slow.next().await.err(), Some(ReadError::Compacted { oldest: 4 }));
    put(&*store, "/a", "more").await;
    assert_eq!(revisions(&events(&mut quick, 1).await), [7]);
}

pub async fn a_watcher_of_quiet_keys_is_not_cut_off(store: Arc<dyn Store>) {
    let mut quiet = store.watch("/quiet/", store.revision()).expect("now");
    for n in 0..5 {
        put(&*store, "/busy/a", &n.to_string()).await;
    }
    store.compact(store.revision());
    put(&*store, "/quiet/a", "x").await;
    assert_eq!(keys(&events(&mut quiet, 1).await), ["/quiet/a"]);
}

pub async fn progress_moves_on_when_other_keys_change(store: Arc<dyn Store>) {
    let mut watch = store.watch("/mine/", 1).expect("now");
    assert_eq!(watch.progress(), 1);
    put(&*store, "/theirs/a", "x").await;
    assert_eq!(watch.progress(), 2);
    put(&*store, "/mine/a", "x").await;
    put(&*store, "/theirs/a", "x").await;
    assert!(watch.progress() < 3, "what was not delivered is not behind us");
    events(&mut watch, 1).await;
    assert_eq!(watch.progress(), 4);
    let past = store.watch("/mine/", 1).expect("kept");
    assert_eq!(past.progress(), 1);
}

pub async fn a_bookmark_never_goes_back(store: Arc<dyn Store>) {
    let mut watch = store.watch("/mine/", store.revision()).expect("now");
    let mut bookmark = watch.progress();
    for n in 0..5 {
        for key in ["/theirs/a", "/mine/a"] {
            put(&*store, key, &n.to_string()).await;
            let next = watch.progress();
            assert!(next >= bookmark, "{next} after {bookmark}");
            bookmark = next;
        }
        let seen = events(&mut watch, 1).await;
        assert!(seen[0].revision > bookmark, "the bookmark was ahead of a change not delivered");
        assert!(watch.progress() >= seen[0].revision);
    }
}

pub async fn a_watcher_that_reconnects_at_its_bookmark_misses_and_repeats_nothing(store: Arc<dyn Store>) {
    const WRITERS: usize = 4;
    const EACH: usize = 50;
    let start = store.revision();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for n in 0..EACH {
                    let both = ["a", "b"].map(|part| format!("/w/{writer}/{n}/{part}"));
                    let txn = both.iter().fold(Txn::new(), |txn, key| txn.put(key.as_str(), Splice::plain("x")));
                    commit(&*store, txn).await;
                    put(&*store, "/other", "x").await;
                }
            })
        })
        .collect();
    let mut bookmark = start;
    let mut seen = Vec::new();
    while seen.len() < WRITERS * EACH * 2 {
        // A new connection for each batch, and now and then one that ends before it has read any.
        drop(store.watch("/w/", bookmark).expect("kept"));
        let mut watch = store.watch("/w/", bookmark).expect("kept");
        seen.extend(watch.next().await.expect("the watch goes on"));
        bookmark = watch.progress();
    }
    for writer in writers {
        writer.await.expect("no writer panics");
    }
    assert_eq!(keys(&seen).into_iter().collect::<HashSet<_>>().len(), WRITERS * EACH * 2);
    assert!(revisions(&seen).is_sorted());
    for both in seen.chunks(2) {
        assert_eq!(both[0].revision, both[1].revision, "a transaction came whole");
    }
}

pub async fn compaction_does_not_disturb_a_watcher_that_keeps_up(store: Arc<dyn Store>) {
    let mut watch = store.watch("/k/", store.revision()).expect("now");
    let mut resumed = store.watch("/k/", store.revision()).expect("now");
    for n in 0..50 {
        let written = put(&*store, "/k/a", &n.to_string()).await.revision;
        assert_eq!(revisions(&events(&mut watch, 1).await), [written]);
        assert_eq!(revisions(&events(&mut resumed, 1).await), [written]);
        store.compact(watch.progress());
        resumed = store.watch("/k/", resumed.progress()).expect("what was dropped lies behind the bookmark");
    }
}

pub async fn a_watcher_that_reads_nothing_delays_nobody(store: Arc<dyn Store>) {
    // More than a topic keeps at hand, so that the slow watcher depends on the history alone.
    const WRITES: usize = 1200;
    let mut slow = store.watch("/k/", store.revision()).expect("now");
    let mut quick = store.watch("/k/", store.revision()).expect("now");
    for n in 0..WRITES {
        let written = put(&*store, "/k/a", &n.to_string()).await.revision;
        assert_eq!(revisions(&events(&mut quick, 1).await), [written]);
    }
    store.compact(quick.progress());
    assert!(matches!(slow.next().await, Err(ReadError::Compacted { .. })));
    let written = put(&*store, "/k/a", "more").await.revision;
    assert_eq!(revisions(&events(&mut quick, 1).await), [written]);
}

pub async fn a_cancelled_wait_loses_nothing(store: Arc<dyn Store>) {
    let mut watch = store.watch("/", store.revision()).expect("now");
    for n in 0..10 {
        {
            let mut waiting = pin!(watch.next());
            let mut context = Context::from_waker(Waker::noop());
            assert!(waiting.as_mut().poll(&mut context).is_pending());
            put(&*store, "/a", &n.to_string()).await;
        }
        assert_eq!(text(&events(&mut watch, 1).await[0].entry.value), n.to_string());
    }
}

pub async fn a_watch_ends_when_the_store_closes(store: Arc<dyn Store>) {
    let mut watch = store.watch("/", store.revision()).expect("now");
    put(&*store, "/a", "last").await;
    let closer = Arc::clone(&store);
    assert_eq!(events(&mut watch, 1).await.len(), 1);
    let close = tokio::spawn(async move { closer.close().await });
    assert!(matches!(watch.next().await, Err(ReadError::Stopped { .. })));
    close.await.expect("no panic");
    assert!(matches!(store.watch("/", store.revision()), Err(ReadError::Stopped { .. })));
}
