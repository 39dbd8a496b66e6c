//! What a writer may rely on.

use std::sync::Arc;

use super::{commit, count, create, delete, put, text, value};
use crate::txn::{MAX_KEY, MAX_VALUE};
use crate::{CommitError, Expect, Range, Splice, Store, Txn};

pub async fn a_created_key_is_not_overwritten_by_another_create(store: Arc<dyn Store>) {
    let first = commit(&*store, create("/a", "one")).await;
    let refused = store.commit(create("/a", "two")).await;
    let Err(CommitError::Conflict { key, current: Some(current) }) = refused else {
        panic!("a second create gave {refused:?}");
    };
    assert_eq!((&*key, current.mod_revision), ("/a", first.revision));
    assert_eq!(value(&*store, "/a").await, "one");
}

pub async fn an_update_from_a_stale_read_is_refused(store: Arc<dyn Store>) {
    let update =
        |revision, value: &str| Txn::new().check("/a", Expect::Revision(revision)).put("/a", Splice::plain(value));
    let first = put(&*store, "/a", "one").await.revision;
    let second = commit(&*store, update(first, "two")).await;
    let entry = second.entries[0].as_ref().expect("a put has an entry");
    assert_eq!((entry.create_revision, entry.mod_revision, entry.version), (first, first + 1, 2));
    assert!(matches!(
        store.commit(update(first, "three")).await,
        Err(CommitError::Conflict { current: Some(current), .. }) if current.mod_revision == first + 1
    ));
    assert!(matches!(
        store.commit(Txn::new().check("/b", Expect::Present).delete("/a")).await,
        Err(CommitError::Conflict { current: None, .. })
    ));
    assert_eq!(value(&*store, "/a").await, "two");
}

pub async fn a_deleted_key_is_gone_and_its_last_value_is_returned(store: Arc<dyn Store>) {
    let put = put(&*store, "/a", "one").await;
    let txn = Txn::new().check("/a", Expect::Revision(put.revision)).delete("/a");
    let deleted = commit(&*store, txn).await;
    let last = deleted.entries[0].as_ref().expect("the key was there");
    assert_eq!(text(&last.value), "one");
    assert_eq!((last.create_revision, last.mod_revision), (put.revision, deleted.revision));
    assert!(store.get("/a").await.expect("readable").is_none());
    assert_eq!(count(&*store, "/").await, 0);
}

pub async fn a_refused_transaction_changes_nothing(store: Arc<dyn Store>) {
    let before = put(&*store, "/a", "one").await.revision;
    let txn = Txn::new()
        .check("/a", Expect::Present)
        .check("/b", Expect::Present)
        .put("/a", Splice::plain("two"))
        .put("/c", Splice::plain("new"));
    assert!(matches!(
        store.commit(txn).await,
        Err(CommitError::Conflict { key, current: None }) if &*key == "/b"
    ));
    assert_eq!(store.revision(), before);
    assert_eq!(value(&*store, "/a").await, "one");
    assert_eq!(count(&*store, "/").await, 1);
    assert_eq!(put(&*store, "/d", "next").await.revision, before + 1);
}

pub async fn a_transaction_takes_one_revision_for_all_it_changes(store: Arc<dyn Store>) {
    assert_eq!(store.revision(), 1);
    put(&*store, "/old", "gone soon").await;
    let txn = Txn::new().put("/a", Splice::plain("1")).put("/b", Splice::plain("2")).delete("/old");
    let committed = commit(&*store, txn).await;
    assert_eq!((committed.revision, store.revision()), (3, 3));
    for entry in &committed.entries {
        assert_eq!(entry.as_ref().map(|entry| entry.mod_revision), Some(3));
    }
    let page = store.range(Range::prefix("/")).await.expect("readable");
    let keys: Vec<&str> = page.entries.iter().map(|entry| &*entry.key).collect();
    assert_eq!(keys, ["/a", "/b"]);
    for next in 4..8 {
        assert_eq!(put(&*store, "/a", "again").await.revision, next);
    }
}

pub async fn a_transaction_that_changes_nothing_uses_no_revision(store: Arc<dyn Store>) {
    let before = put(&*store, "/a", "one").await.revision;
    let absent = delete(&*store, "/b").await;
    assert_eq!(absent.revision, before);
    assert!(absent.entries[0].is_none());
    let checked = commit(&*store, Txn::new().check("/a", Expect::Present)).await;
    assert_eq!((checked.revision, store.revision()), (before, before));
}

pub async fn a_key_that_comes_back_starts_over(store: Arc<dyn Store>) {
    put(&*store, "/a", "one").await;
    put(&*store, "/a", "two").await;
    delete(&*store, "/a").await;
    let back = commit(&*store, create("/a", "three")).await;
    let entry = back.entries[0].as_ref().expect("a put has an entry");
    assert_eq!((entry.version, entry.create_revision), (1, back.revision));
}

pub async fn the_revision_stands_in_the_bytes(store: Arc<dyn Store>) {
    let object = || Splice::new(r#"{"rv":"","n":1}"#, Some(7));
    let filled = |revision: u64| format!(r#"{{"rv":"{revision}","n":1}}"#);
    commit(&*store, Txn::new().put("/a", object())).await;
    assert_eq!(value(&*store, "/a").await, filled(2));
    // From one digit to two, so that the bytes move.
    for _ in 0..8 {
        put(&*store, "/other", "x").await;
    }
    let deleted = delete(&*store, "/a").await;
    let last = deleted.entries[0].as_ref().expect("the key was there");
    assert_eq!(text(&last.value), filled(11));
    assert_eq!(deleted.revision, 11);
    let ends = Txn::new().put("/b", Splice::new("", Some(0))).put("/c", Splice::new("rv ", Some(99)));
    commit(&*store, ends).await;
    assert_eq!(value(&*store, "/b").await, "12");
    assert_eq!(value(&*store, "/c").await, "rv 12");
}

pub async fn concurrent_increments_are_all_counted(store: Arc<dyn Store>) {
    const WRITERS: usize = 8;
    const EACH: usize = 25;
    put(&*store, "/n", "0").await;
    let increment = |store: Arc<dyn Store>| async move {
        for _ in 0..EACH {
            loop {
                let entry = store.get("/n").await.expect("readable").expect("present");
                let next = text(&entry.value).parse::<usize>().expect("a number") + 1;
                let txn = Txn::new()
                    .check("/n", Expect::Revision(entry.mod_revision))
                    .put("/n", Splice::plain(next.to_string()));
                match store.commit(txn).await {
                    Ok(_) => break,
                    Err(CommitError::Conflict { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    };
    let writers: Vec<_> = (0..WRITERS).map(|_| tokio::spawn(increment(Arc::clone(&store)))).collect();
    for writer in writers {
        writer.await.expect("no writer panics");
    }
    assert_eq!(value(&*store, "/n").await, (WRITERS * EACH).to_string());
    assert_eq!(store.revision(), 2 + (WRITERS * EACH) as u64);
}

pub async fn expired_keys_go_and_the_others_stay(store: Arc<dyn Store>) {
    let put_until = |key: &str, at| Txn::new().put_until(key, Splice::plain("x"), at);
    commit(&*store, put_until("/late", Some(3000))).await;
    commit(&*store, put_until("/soon", Some(1000))).await;
    commit(&*store, put_until("/due", Some(2000))).await;
    let before = commit(&*store, put_until("/ever", None)).await.revision;
    let mut watch = store.watch("/", before).expect("now");
    assert_eq!(store.expire(999).await.expect("runs"), 0);
    assert_eq!(store.revision(), before);
    assert_eq!(store.expire(2000).await.expect("runs"), 2);
    assert_eq!(store.revision(), before + 2);
    let gone = super::events(&mut watch, 2).await;
    assert_eq!(super::keys(&gone), ["/soon", "/due"]);
    assert_eq!(super::revisions(&gone), [before + 1, before + 2]);
    assert_eq!(count(&*store, "/").await, 2);
}

pub async fn a_renewed_key_does_not_expire(store: Arc<dyn Store>) {
    let put_until = |at| Txn::new().put_until("/a", Splice::plain("x"), at);
    commit(&*store, put_until(Some(1000))).await;
    commit(&*store, put_until(Some(5000))).await;
    assert_eq!(store.expire(2000).await.expect("runs"), 0);
    commit(&*store, put_until(None)).await;
    assert_eq!(store.expire(9000).await.expect("runs"), 0);
    commit(&*store, put_until(Some(1000))).await;
    delete(&*store, "/a").await;
    assert_eq!(store.expire(9000).await.expect("runs"), 0);
}

pub async fn names_and_values_that_cannot_be_stored_are_refused(store: Arc<dyn Store>) {
    let long = "k".repeat(MAX_KEY + 1);
    for key in ["", &long] {
        let refused = store.commit(Txn::new().put(key, Splice::plain("x"))).await;
        assert!(matches!(refused, Err(CommitError::TooLarge { what: "name", .. })));
    }
    let large = Txn::new().put("/a", Splice::plain(vec![0; MAX_VALUE + 1]));
    assert!(matches!(store.commit(large).await, Err(CommitError::TooLarge { what: "value", .. })));
    put(&*store, &long[1..], "fits").await;
    assert_eq!(store.revision(), 2);
}

pub async fn a_closed_store_takes_no_writes(store: Arc<dyn Store>) {
    put(&*store, "/a", "one").await;
    assert_eq!(store.health(), Ok(()));
    store.close().await;
    store.close().await;
    let refused = store.commit(create("/b", "two")).await;
    assert!(matches!(refused, Err(CommitError::Stopped { .. })));
    assert!(matches!(store.expire(0).await, Err(CommitError::Stopped { .. })));
    assert!(store.health().is_err());
    assert_eq!(value(&*store, "/a").await, "one");
}
