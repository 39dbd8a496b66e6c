//! The contract over both engines, and what only the memory engine promises.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use crate::{
    CommitError, Durability, EventKind, Expect, FileStore, Index, Interest, MemoryStore, Options, Range, ReadError,
    Revision, Splice, Store, Txn,
};

mod memory {
    use super::*;
    crate::store_contract!(((), Arc::new(MemoryStore::new()) as Arc<dyn Store>));
}

mod file {
    use super::*;

    fn open() -> (tempfile::TempDir, Arc<dyn Store>) {
        let dir = tempfile::tempdir().expect("a directory");
        let store = FileStore::open(dir.path(), Options::default()).expect("an empty directory");
        (dir, Arc::new(store))
    }

    crate::store_contract!(open());
}

#[tokio::test]
async fn history_stays_within_its_bounds() {
    let bounds = [
        Options { history_events: 10, ..Options::default() },
        Options { history_bytes: 10 * 340, ..Options::default() },
    ];
    for options in bounds {
        let store = MemoryStore::with_options(options);
        let mut slow = store.watch("/", 1).expect("now");
        for _ in 0..3000 {
            let txn = Txn::new().put("/a", Splice::plain("x".repeat(40)));
            store.commit(txn).await.expect("runs");
        }
        let Err(ReadError::Compacted { oldest }) = slow.next().await else {
            panic!("a watcher that far behind is cut off");
        };
        assert!((2980..3000).contains(&oldest), "{oldest}");
        assert!(store.range(Range::prefix("/").at(oldest)).await.is_ok());
        assert!(store.range(Range::prefix("/").at(oldest - 1)).await.is_err());
    }
}

/// Reads the first page of three keys, then writes them over and over.
async fn page_and_overwrite(store: &MemoryStore, writes: usize) -> Revision {
    for key in ["/p/a", "/p/b", "/p/c"] {
        store.commit(Txn::new().put(key, Splice::plain("before"))).await.expect("runs");
    }
    let first = store.range(Range::prefix("/p/").limit(1)).await.expect("now");
    for n in 0..writes {
        let key = ["/p/a", "/p/b", "/p/c"][n % 3];
        store.commit(Txn::new().put(key, Splice::plain("after".repeat(8)))).await.expect("runs");
    }
    first.revision
}

fn next_page(revision: Revision) -> Range {
    Range::prefix("/p/").after("/p/a").limit(1).at(revision)
}

#[tokio::test]
async fn a_list_goes_on_after_the_history_of_its_revision_is_gone() {
    let store = MemoryStore::with_options(Options { history_events: 10, ..Options::default() });
    let revision = page_and_overwrite(&store, 100).await;
    assert!(store.watch("/p/", revision).is_err(), "the history does not reach back");
    let page = store.range(next_page(revision)).await.expect("pinned");
    assert_eq!((page.entries[0].value.as_ref(), page.revision, page.remaining), (&b"before"[..], revision, 1));
    store.compact(revision);
    assert!(store.range(next_page(revision)).await.is_ok(), "its revision is kept");
    store.compact(revision + 1);
    assert!(matches!(store.range(next_page(revision)).await, Err(ReadError::Compacted { .. })));
    assert_eq!(store.pin_count(), 0);
}

#[tokio::test]
async fn pinned_lists_are_bounded_and_the_history_stands_in_for_them() {
    let store = MemoryStore::with_options(Options { pinned_bytes: 1000, ..Options::default() });
    let revision = page_and_overwrite(&store, 100).await;
    assert_eq!(store.pin_count(), 0, "too much was written since");
    let page = store.range(next_page(revision)).await.expect("the history has it");
    assert_eq!(page.entries[0].value.as_ref(), b"before");
    let store = MemoryStore::new();
    for _ in 0..100 {
        page_and_overwrite(&store, 1).await;
    }
    assert_eq!(store.pin_count(), 64);
    store.compact(store.revision());
    assert_eq!(store.pin_count(), 0);
}

#[tokio::test]
async fn what_a_writer_has_derived_is_not_computed_again() {
    let store = MemoryStore::new();
    let value = Splice::new("four", Some(0)).deriving(4_usize);
    let committed = store.commit(Txn::new().put("/a", value)).await.expect("runs");
    let entry = committed.entries[0].as_ref().expect("a put");
    assert_eq!(*entry.derive::<usize>(|_| panic!("it is there")), 4);
}

#[tokio::test]
async fn a_fork_and_its_origin_do_not_see_each_other() {
    let origin = MemoryStore::new();
    let put = |value: &str| Txn::new().put("/a", Splice::plain(value));
    origin.commit(put("shared")).await.expect("runs");
    let fork = origin.fork();
    let mut watch = fork.watch("/", 1).expect("the history is shared");
    origin.commit(put("origin")).await.expect("runs");
    fork.commit(put("fork")).await.expect("runs");
    let values: Vec<_> = watch.next().await.expect("events").iter().map(|event| event.entry.value.clone()).collect();
    assert_eq!(values, ["shared", "fork"]);
    let entry = origin.get("/a").await.expect("readable").expect("present");
    assert_eq!(entry.value, "origin");
}

#[tokio::test]
async fn watchers_that_leave_leave_nothing_behind() {
    let store = MemoryStore::new();
    let index = Index::new("length", |entry| if entry.value.len() > 1 { "long" } else { "short" });
    let indexed = |value: &str| Interest::Indexed { prefix: "/a/".into(), index: index.clone(), value: value.into() };
    let prefixes = ["/a/", "/b", ""].map(Interest::prefix);
    let interests: Vec<_> =
        prefixes.into_iter().chain([Interest::Key("/a/b".into()), indexed("x"), indexed("y")]).collect();
    let watches: Vec<_> = (0..1000).map(|n| store.subscribe(&interests[n % 6], 1).expect("now")).collect();
    assert_eq!(store.topic_count(), 6);
    drop(watches);
    assert_eq!(store.topic_count(), 0);
    store.commit(Txn::new().put("/a/b", Splice::plain("x"))).await.expect("runs");
}

#[derive(Debug, Clone)]
enum Step {
    Put { key: u8, expires_at: Option<i64> },
    Delete { key: u8 },
    Update { key: u8, revision: u64 },
    Both { put: u8, delete: u8 },
    Expire { now: i64 },
    Compact { keep_after: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..6_u8;
    prop_oneof![
        4 => (key.clone(), prop::option::of(0..20_i64))
            .prop_map(|(key, expires_at)| Step::Put { key, expires_at }),
        2 => key.clone().prop_map(|key| Step::Delete { key }),
        2 => (key.clone(), 1..40_u64).prop_map(|(key, revision)| Step::Update { key, revision }),
        2 => (key.clone(), key).prop_map(|(put, delete)| Step::Both { put, delete }),
        1 => (0..20_i64).prop_map(|now| Step::Expire { now }),
        1 => (1..40_u64).prop_map(|keep_after| Step::Compact { keep_after }),
    ]
}

/// Each key's mod revision and expiry.
type Model = BTreeMap<String, (u64, Option<i64>)>;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_is_the_map_one_thinks_it_is(steps in prop::collection::vec(step(), 1..80)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(follow(steps));
    }
}

async fn follow(steps: Vec<Step>) {
    let store = MemoryStore::new();
    let mut watch = store.watch("/", 1).expect("now");
    let mut replayed: BTreeMap<String, u64> = BTreeMap::new();
    let mut model = Model::new();
    let mut kept = BTreeMap::from([(1, model.clone())]);
    for step in steps {
        let revision = store.revision();
        take(&store, &mut model, &mut kept, step).await;
        kept.insert(store.revision(), model.clone());
        if store.revision() > revision {
            for event in watch.next().await.expect("read at every step") {
                match event.kind {
                    EventKind::Put => replayed.insert(event.entry.key.to_string(), event.revision),
                    EventKind::Delete => replayed.remove(&*event.entry.key),
                };
            }
        }
        let newest: BTreeMap<_, _> = model.iter().map(|(key, value)| (key.clone(), value.0)).collect();
        assert_eq!(replayed, newest, "a watcher's copy after revision {}", store.revision());
        for (at, model) in &kept {
            let page = store.range(Range::prefix("/").at(*at)).await.expect("kept");
            let found: Model = page
                .entries
                .iter()
                .map(|entry| (entry.key.to_string(), (entry.mod_revision, entry.expires_at)))
                .collect();
            assert_eq!(&found, model, "read at {at} of {}", store.revision());
        }
    }
}

async fn take(store: &MemoryStore, model: &mut Model, kept: &mut BTreeMap<u64, Model>, step: Step) {
    let name = |key: u8| format!("/{key}");
    let next = store.revision() + 1;
    let value = || Splice::new("x", Some(0));
    match step {
        Step::Put { key, expires_at } => {
            let txn = Txn::new().put_until(name(key), value(), expires_at);
            store.commit(txn.durability(Durability::Relaxed)).await.expect("unconditional");
            model.insert(name(key), (next, expires_at));
        }
        Step::Delete { key } => {
            let committed = store.commit(Txn::new().delete(name(key))).await.expect("unconditional");
            assert_eq!(committed.entries[0].is_some(), model.remove(&name(key)).is_some());
        }
        Step::Update { key, revision } => {
            let txn = Txn::new().check(name(key), Expect::Revision(revision)).put(name(key), value());
            let holds = model.get(&name(key)).is_some_and(|(current, _)| *current == revision);
            match store.commit(txn).await {
                Ok(_) if holds => drop(model.insert(name(key), (next, None))),
                Err(CommitError::Conflict { .. }) if !holds => {}
                other => panic!("{other:?} where the check holds: {holds}"),
            }
        }
        Step::Both { put, delete } => {
            let txn = Txn::new().put(name(put), value()).delete(name(delete));
            store.commit(txn).await.expect("unconditional");
            model.insert(name(put), (next, None));
            model.remove(&name(delete));
        }
        Step::Expire { now } => {
            let before = model.len();
            let due = |expires_at: Option<i64>| expires_at.is_some_and(|at| at <= now);
            model.retain(|_, (_, expires_at)| !due(*expires_at));
            assert_eq!(store.expire(now).await.expect("runs"), before - model.len());
        }
        Step::Compact { keep_after } => {
            store.compact(keep_after);
            let oldest = keep_after.min(store.revision());
            kept.retain(|revision, _| *revision >= oldest);
        }
    }
}
