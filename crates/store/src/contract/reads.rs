//! What a reader may rely on.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{commit, count, delete, put, text};
use crate::{Page, Range, ReadError, Revision, Splice, Store, Txn};

pub async fn a_range_has_its_keys_in_order_and_no_others(store: Arc<dyn Store>) {
    for key in ["/pods/b", "/pods/a", "/pod", "/podsx", "/pods/c/d", "/pods0", "/q"] {
        put(&*store, key, key).await;
    }
    let page = read(&*store, Range::prefix("/pods/")).await;
    assert_eq!(names(&page), ["/pods/a", "/pods/b", "/pods/c/d"]);
    assert_eq!((page.revision, page.remaining), (store.revision(), 0));
    assert_eq!(count(&*store, "/pods/").await, 3);
    assert_eq!(count(&*store, "/pods").await, 5);
    assert_eq!(read(&*store, Range::prefix("")).await.entries.len(), 7);
    let between = Range { start: "/pods/b".into(), end: "/podsx".into(), ..Range::default() };
    assert_eq!(names(&read(&*store, between).await), ["/pods/b", "/pods/c/d", "/pods0"]);
    let nothing = read(&*store, Range::prefix("/none/")).await;
    assert!(nothing.entries.is_empty() && nothing.remaining == 0);
}

pub async fn pages_show_one_revision_while_writers_go_on(store: Arc<dyn Store>) {
    let all: Vec<String> = (0..25).map(|n| format!("/p/{n:02}")).collect();
    for key in &all {
        put(&*store, key, "before").await;
    }
    let mut page = read(&*store, Range::prefix("/p/").limit(10)).await;
    let at = page.revision;
    assert_eq!(page.remaining, 15);
    let mut seen = names(&page);
    while page.remaining > 0 {
        // Behind, at and ahead of where the reader is.
        put(&*store, "/p/00x", "new").await;
        put(&*store, "/p/12", "after").await;
        delete(&*store, "/p/24").await;
        put(&*store, "/p/99", "new").await;
        let last = seen.last().cloned().unwrap_or_default();
        page = read(&*store, Range::prefix("/p/").after(&last).limit(10).at(at)).await;
        assert_eq!(page.revision, at);
        assert!(page.entries.iter().all(|entry| &*entry.value == b"before"));
        seen.extend(names(&page));
    }
    assert_eq!(seen, all);
}

pub async fn every_kept_revision_can_be_read(store: Arc<dyn Store>) {
    type State = BTreeMap<String, (String, Revision)>;
    let mut state = State::new();
    let mut states = vec![(store.revision(), state.clone())];
    for step in 0..40_u64 {
        let key = format!("/k/{}", step * 7 % 5);
        if step % 3 == 2 {
            delete(&*store, &key).await;
            state.remove(&key);
        } else {
            let other = format!("/k/{}", step * 3 % 4);
            let text = step.to_string();
            let txn = Txn::new().put(&*key, Splice::plain(&*text)).put(&*other, Splice::plain(&*text));
            let revision = commit(&*store, txn).await.revision;
            state.insert(key, (text.clone(), revision));
            state.insert(other, (text, revision));
        }
        states.push((store.revision(), state.clone()));
    }
    for (revision, state) in states {
        let page = read(&*store, Range::prefix("/k/").at(revision)).await;
        let found: State = page
            .entries
            .iter()
            .map(|entry| (entry.key.to_string(), (text(&entry.value), entry.mod_revision)))
            .collect();
        assert_eq!(found, state, "at revision {revision}");
    }
}

pub async fn revisions_not_kept_are_refused(store: Arc<dyn Store>) {
    for n in 0..5 {
        put(&*store, "/a", &n.to_string()).await;
    }
    let at = |revision| store.range(Range::prefix("/").at(revision));
    assert!(matches!(at(7).await, Err(ReadError::Future { current: 6 })));
    store.compact(4);
    assert!(matches!(at(3).await, Err(ReadError::Compacted { oldest: 4 })));
    assert_eq!(text(&at(4).await.expect("kept").entries[0].value), "2");
    store.compact(2);
    assert!(matches!(at(3).await, Err(ReadError::Compacted { oldest: 4 })));
    store.compact(100);
    assert!(matches!(at(5).await, Err(ReadError::Compacted { oldest: 6 })));
    assert_eq!(text(&at(6).await.expect("the newest").entries[0].value), "4");
    put(&*store, "/a", "5").await;
    assert_eq!(text(&at(6).await.expect("kept").entries[0].value), "4");
}

pub async fn what_is_derived_is_computed_once(store: Arc<dyn Store>) {
    put(&*store, "/a", "four").await;
    let entry = store.get("/a").await.expect("readable").expect("present");
    assert_eq!(*entry.derive(|entry| entry.value.len()), 4);
    let again = store.get("/a").await.expect("readable").expect("present");
    assert_eq!(*again.derive::<usize>(|_| panic!("computed before")), 4);
    put(&*store, "/a", "seven").await;
    let changed = store.get("/a").await.expect("readable").expect("present");
    assert_eq!(*changed.derive(|entry| entry.value.len()), 5);
}

async fn read(store: &dyn Store, range: Range) -> Page {
    store.range(range).await.expect("the revision is kept")
}

fn names(page: &Page) -> Vec<String> {
    page.entries.iter().map(|entry| entry.key.to_string()).collect()
}
