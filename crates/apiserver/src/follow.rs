//! State derived from stored objects, brought up to date before it is used and never later.
//!
//! Rules of access, definitions of resources and the graph of nodes are read on every request but change rarely. A follower
//! watches their keys; before the state is used, changes are taken in. So a role that was bound
//! a moment ago counts for the next request; one that was bound through another server on the same store counts as
//! soon as this one has seen it.
//!
//! A change costs what the one object costs. The state is copied first, so it is made of maps that share what did not change.

use arc_swap::ArcSwap;
use futures::FutureExt;
use pintle_store::{Entry, EventKind, Range, ReadError, Store, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Mutex;

/// What is derived.
pub trait Followed: Clone + Send + Sync {
    /// An object is now this one, or gone.
    fn change(&mut self, key: &str, entry: Option<&Entry>);

    /// All changes of a batch were told.
    fn settle(&mut self) {}
}

pub struct Follower<S> {
    store: Arc<dyn Store>,
    prefixes: &'static [&'static str],
    /// The store's revision when nothing was pending; the fast path compares only this.
    settled: AtomicU64,
    watches: Mutex<Vec<Watch>>,
    /// What is derived from nothing.
    empty: ArcSwap<S>,
    state: ArcSwap<S>,
}

impl<S: Followed> Follower<S> {
    pub fn new(store: Arc<dyn Store>, prefixes: &'static [&'static str]) -> Self
    where
        S: Default,
    {
        Self::starting_with(store, prefixes, S::default())
    }

    pub fn starting_with(store: Arc<dyn Store>, prefixes: &'static [&'static str], empty: S) -> Self {
        Follower {
            store,
            prefixes,
            settled: AtomicU64::new(0),
            watches: Mutex::default(),
            state: ArcSwap::from_pointee(empty.clone()),
            empty: ArcSwap::from_pointee(empty),
        }
    }

    /// The state as it is now.
    pub async fn current(&self) -> Arc<S> {
        if self.settled.load(Ordering::Acquire) != self.store.revision() {
            self.follow().await;
        }
        self.state.load_full()
    }

    /// The state as it was when somebody last asked for it.
    pub fn latest(&self) -> Arc<S> {
        self.state.load_full()
    }

    /// Changes a part that is derived from no object: now, and for as long as there is a state.
    pub async fn amend(&self, change: impl Fn(&mut S)) {
        // Nobody follows meanwhile, so no change is lost.
        let _watches = self.watches.lock().await;
        for place in [&self.empty, &self.state] {
            let mut next = S::clone(&place.load());
            change(&mut next);
            place.store(Arc::new(next));
        }
    }

    async fn follow(&self) {
        let mut watches = self.watches.lock().await;
        let now = self.store.revision();
        if self.settled.load(Ordering::Acquire) == now {
            return;
        }
        let mut next = None;
        if watches.is_empty() || self.drain(&mut watches, &mut next).is_err() {
            watches.clear();
            match self.reload(&mut watches).await {
                Ok(state) => next = Some(state),
                // The state stays what it was, and the next request tries again.
                Err(error) => {
                    tracing::warn!(%error, prefixes = ?self.prefixes, "stored objects cannot be read");
                    return;
                }
            }
        }
        if let Some(mut state) = next {
            state.settle();
            self.state.store(Arc::new(state));
        }
        self.settled.store(now, Ordering::Release);
    }

    /// Takes all that is pending.
    fn drain(&self, watches: &mut [Watch], next: &mut Option<S>) -> Result<(), ReadError> {
        for watch in watches {
            while let Some(events) = watch.next().now_or_never() {
                let state = next.get_or_insert_with(|| S::clone(&self.state.load()));
                for event in events? {
                    let entry = Some(&*event.entry).filter(|_| event.kind == EventKind::Put);
                    state.change(&event.entry.key, entry);
                }
            }
        }
        Ok(())
    }

    /// Reads everything. The watches are opened before: what changes in between is told again.
    async fn reload(&self, watches: &mut Vec<Watch>) -> Result<S, ReadError> {
        let after = self.store.revision();
        for prefix in self.prefixes {
            watches.push(self.store.watch(prefix, after)?);
        }
        let mut state = S::clone(&self.empty.load());
        for prefix in self.prefixes {
            let page = self.store.range(Range::prefix(*prefix).cached()).await?;
            page.entries.iter().for_each(|entry| state.change(&entry.key, Some(entry)));
        }
        Ok(state)
    }
}
