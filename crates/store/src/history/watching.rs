//! What watchers are promised, one promise a test, under reconnects, compaction, slowness and crashes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::log::{Asked, Step};
use super::planted::{Fault, Machine};
use super::subjects::{FileSubject, MemorySubject};
use super::tests::on_one_thread;
use super::{History, Kind, Plan, Subject, check};
use crate::{EventKind, Options, Range, ReadError, Splice, Store, Txn};

/// A store that keeps its history over crashes, and one that loses it with all that was relaxed.
fn histories() -> [History; 2] {
    let plan = Plan::seeded(21);
    [
        on_one_thread(&mut MemorySubject::default(), &plan),
        on_one_thread(&mut Machine::new(Fault::None, plan.seed), &plan),
    ]
}

/// No watch broke a promise in one of these ways.
fn none_of(kinds: &[Kind]) {
    for history in histories() {
        let broken: Vec<_> = check(&history).into_iter().filter(|found| kinds.contains(&found.kind)).collect();
        assert!(broken.is_empty(), "seed {}: {broken:?}", history.seed);
    }
}

#[test]
fn the_histories_hold_reconnects_compactions_slow_watchers_and_restarts() {
    let mut counts = BTreeMap::<&str, usize>::new();
    for history in histories() {
        let mut count = |what, more| *counts.entry(what).or_default() += more;
        let mut bookmarks = BTreeMap::new();
        for watch in &history.watches {
            let last = bookmarks.get(&watch.client);
            count("resumed", usize::from(last == Some(&(watch.after, watch.life))));
            count(
                "resumed after a crash",
                usize::from(last.is_some_and(|last| *last == (watch.after, watch.life.wrapping_sub(1)))),
            );
            count("refused as compacted", usize::from(matches!(watch.refused, Some(ReadError::Compacted { .. }))));
            for (_, step) in &watch.steps {
                match step {
                    Step::Batch(events) => count("events", events.len()),
                    Step::Progress(at) => drop(bookmarks.insert(watch.client, (*at, watch.life))),
                    Step::Ended(error) => {
                        count("too slow", usize::from(matches!(error, ReadError::Compacted { .. })));
                    }
                    Step::Drained(_) => {}
                }
            }
        }
        let compactions = history.operations.iter().filter(|done| matches!(done.asked, Asked::Compact { .. }));
        count("compactions", compactions.count());
        count("crashes", history.lives.len() - 1);
    }
    println!("watches under: {counts:?}");
    assert_eq!(counts.len(), 7);
    assert!(counts.values().all(|count| *count > 0), "{counts:?}");
}

#[test]
fn watches_are_ordered() {
    none_of(&[Kind::WatchDisordered]);
}

#[test]
fn watches_are_unique() {
    none_of(&[Kind::WatchRepeated]);
}

#[test]
fn watches_are_reliable() {
    none_of(&[Kind::WatchMissed, Kind::WatchWrongEvent, Kind::FalseRefusal]);
}

#[test]
fn watches_are_atomic() {
    none_of(&[Kind::WatchTorn]);
}

#[test]
fn watches_are_bookmarked() {
    none_of(&[Kind::BookmarkAhead]);
}

/// A client's copy, kept by watching from bookmark to bookmark over restarts and listed again when
/// the watch is refused, is what the store has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_are_resumable() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = FileSubject::new(dir.path(), Options::default());
    let subjects: [Box<dyn Subject>; 3] =
        [Box::new(MemorySubject::default()), Box::new(file), Box::new(Machine::new(Fault::None, 5))];
    for mut subject in subjects {
        let mut copy = BTreeMap::new();
        let mut bookmark = 1;
        for life in 0..6 {
            let store = subject.open().await;
            for n in 0..20 {
                let key = format!("/k/{}", (n * 7 + life) % 5);
                let txn = match n % 4 {
                    3 => Txn::new().delete(key),
                    _ => Txn::new().put(key, Splice::plain(format!("{life}.{n}"))),
                };
                store.commit(txn).await.expect("runs");
                if n % 3 == life % 3 {
                    bookmark = follow(&store, &mut copy, bookmark).await;
                }
            }
            subject.crash().await;
        }
    }
}

/// Watches from a bookmark to the newest revision, or lists; returns the next bookmark.
async fn follow(store: &Arc<dyn Store>, copy: &mut BTreeMap<String, String>, bookmark: u64) -> u64 {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let page = store.range(Range::prefix("/k/")).await.expect("readable");
    let wanted = page.entries.iter().map(|entry| (entry.key.to_string(), text(&entry.value)));
    let wanted: BTreeMap<_, _> = wanted.collect();
    let Ok(mut watch) = store.watch("/k/", bookmark) else {
        *copy = wanted;
        return page.revision;
    };
    while watch.progress() < page.revision {
        for event in watch.next().await.expect("the watch goes on") {
            match event.kind {
                EventKind::Put => copy.insert(event.entry.key.to_string(), text(&event.entry.value)),
                EventKind::Delete => copy.remove(&*event.entry.key),
            };
        }
    }
    assert_eq!(*copy, wanted, "at revision {}", page.revision);
    watch.progress()
}
