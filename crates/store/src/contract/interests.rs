//! What a watcher of one key, or of one value in an index, may rely on.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

use super::{delete, events, keys, put, revisions};
use crate::{Entry, Event, EventKind, Index, Interest, Store, Watch};

/// An index by the whole value.
fn by_value() -> Index {
    Index::new("value", value_of)
}

fn value_of(entry: &Entry) -> &str {
    std::str::from_utf8(&entry.value).unwrap_or_default()
}

fn under(prefix: &str, value: &str) -> Interest {
    Interest::Indexed { prefix: prefix.into(), index: by_value(), value: value.into() }
}

fn from_now(store: &dyn Store, interest: &Interest) -> Watch {
    store.subscribe(interest, store.revision()).expect("now")
}

pub async fn a_watch_of_one_key_sees_that_key_alone(store: Arc<dyn Store>) {
    let mut watch = from_now(&*store, &Interest::Key("/p/a".into()));
    for key in ["/p/a/b", "/p/ab", "/p/", "/p/a"] {
        put(&*store, key, "x").await;
    }
    delete(&*store, "/p/a").await;
    let seen = events(&mut watch, 2).await;
    assert_eq!(keys(&seen), ["/p/a", "/p/a"]);
    let mut late = store.subscribe(&Interest::Key("/p/a".into()), 1).expect("kept");
    assert_eq!(revisions(&events(&mut late, 2).await), revisions(&seen));
}

/// Puts and deletes that move keys between the values `a` and `b`.
async fn move_about(store: &dyn Store) {
    put(store, "/p/1", "a").await;
    put(store, "/p/2", "b").await;
    put(store, "/p/1", "a").await;
    put(store, "/p/1", "b").await;
    put(store, "/q/1", "a").await;
    delete(store, "/p/2").await;
    put(store, "/p/2", "a").await;
}

fn told(seen: &[Arc<Event>]) -> Vec<(&str, EventKind, Option<&str>, &str)> {
    let previous = |event: &Arc<Event>| event.previous.clone();
    assert!(seen.iter().all(|event| previous(event).is_none_or(|entry| entry.key == event.entry.key)));
    seen.iter()
        .map(|event| (&*event.entry.key, event.kind, event.previous.as_deref().map(value_of), value_of(&event.entry)))
        .collect()
}

const ABOUT_A: [(&str, EventKind, Option<&str>, &str); 4] = [
    ("/p/1", EventKind::Put, None, "a"),
    ("/p/1", EventKind::Put, Some("a"), "a"),
    ("/p/1", EventKind::Put, Some("a"), "b"),
    ("/p/2", EventKind::Put, None, "a"),
];

pub async fn a_watch_by_index_sees_what_enters_and_what_leaves(store: Arc<dyn Store>) {
    let mut a = from_now(&*store, &under("/p/", "a"));
    let mut b = from_now(&*store, &under("/p", "b"));
    let mut all = from_now(&*store, &Interest::prefix("/p/"));
    move_about(&*store).await;
    assert_eq!(told(&events(&mut a, 4).await), ABOUT_A);
    let about_b = [
        ("/p/2", EventKind::Put, None, "b"),
        ("/p/1", EventKind::Put, Some("a"), "b"),
        ("/p/2", EventKind::Delete, Some("b"), "b"),
    ];
    assert_eq!(told(&events(&mut b, 3).await), about_b);
    assert_eq!(events(&mut all, 6).await.len(), 6);
}

pub async fn a_watch_by_index_from_the_past_misses_nothing(store: Arc<dyn Store>) {
    move_about(&*store).await;
    let mut late = store.subscribe(&under("/p/", "a"), 1).expect("kept");
    assert_eq!(told(&events(&mut late, 4).await), ABOUT_A);
    put(&*store, "/p/3", "a").await;
    assert_eq!(keys(&events(&mut late, 1).await), ["/p/3"]);
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub async fn a_watch_is_not_woken_by_what_does_not_concern_it(store: Arc<dyn Store>) {
    let interests = [Interest::Key("/p/mine".into()), under("/p/", "mine"), Interest::prefix("/p/mine")];
    for interest in interests {
        let mut watch = from_now(&*store, &interest);
        let wakes = Arc::new(Wakes::default());
        {
            let waker = Waker::from(Arc::clone(&wakes));
            let mut waiting = pin!(watch.next());
            assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            for n in 0..50 {
                put(&*store, &format!("/p/other-{n}"), "theirs").await;
            }
            // Whoever watches all of it was woken, so this one would have been too.
            let mut all = store.watch("/p/", store.revision()).expect("now");
            put(&*store, "/p/other-0", "again").await;
            events(&mut all, 1).await;
        }
        assert_eq!(wakes.0.load(Ordering::SeqCst), 0, "{interest:?}");
        put(&*store, "/p/mine", "mine").await;
        assert_eq!(keys(&events(&mut watch, 1).await), ["/p/mine"]);
        delete(&*store, "/p/mine").await;
    }
}

pub async fn an_index_is_asked_only_while_somebody_watches_by_it(store: Arc<dyn Store>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let index = Index::new("counted", move |entry| {
        counter.fetch_add(1, Ordering::SeqCst);
        value_of(entry)
    });
    let interest = Interest::Indexed { prefix: "/p/".into(), index, value: "a".into() };
    let mut watch = from_now(&*store, &interest);
    put(&*store, "/q/1", "a").await;
    assert_eq!(asked.load(Ordering::SeqCst), 0, "no key under the prefix has changed");
    put(&*store, "/p/1", "a").await;
    events(&mut watch, 1).await;
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    drop(watch);
    put(&*store, "/p/1", "b").await;
    assert_eq!(asked.load(Ordering::SeqCst), 1, "nobody watches by it");
}

pub async fn progress_by_index_is_never_ahead_of_a_change(store: Arc<dyn Store>) {
    let mut watch = from_now(&*store, &under("/p/", "mine"));
    for n in 0..20 {
        put(&*store, &format!("/p/theirs-{n}"), "theirs").await;
        assert_eq!(watch.progress(), store.revision());
        let mine = put(&*store, &format!("/p/mine-{n}"), "mine").await.revision;
        put(&*store, "/p/other", "theirs").await;
        assert!(watch.progress() < mine, "what was not delivered is not behind us");
        assert_eq!(revisions(&events(&mut watch, 1).await), [mine]);
    }
}
