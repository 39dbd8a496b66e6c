//! State derived from stored objects, brought up to date before it is used and never later.
//!
//! Rules of access and definitions of resources are read on every request but change rarely. A follower watches
//! their keys; whoever is about to use the state asks it first whether something changed. So a role that was bound
//! a moment ago counts for the next request; one that was bound through another server on the same store counts as
//! soon as this one has seen it.

use futures::FutureExt;
use pintle_store::{Revision, Store, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Mutex;

pub struct Follower {
    store: Arc<dyn Store>,
    prefixes: &'static [&'static str],
    /// The store's revision when nothing was pending; the fast path compares only this.
    settled: AtomicU64,
    watches: Mutex<Vec<Watch>>,
}

impl Follower {
    pub fn new(store: Arc<dyn Store>, prefixes: &'static [&'static str]) -> Self {
        Follower { store, prefixes, settled: AtomicU64::new(0), watches: Mutex::new(Vec::new()) }
    }

    /// Runs `rebuild` if anything under the prefixes changed since the last time. Others wait for it.
    pub async fn follow<F: Future<Output = ()>>(&self, rebuild: impl FnOnce() -> F) {
        if self.settled.load(Ordering::Acquire) == self.store.revision() {
            return;
        }
        let mut watches = self.watches.lock().await;
        let now = self.store.revision();
        if self.settled.load(Ordering::Acquire) == now {
            return;
        }
        if self.drain(&mut watches, now) {
            rebuild().await;
        }
        self.settled.store(now, Ordering::Release);
    }

    /// Takes all that is pending; true when there was something, or when the watches had to be opened anew.
    fn drain(&self, watches: &mut Vec<Watch>, now: Revision) -> bool {
        let mut changed = watches.is_empty();
        for watch in watches.iter_mut() {
            while let Some(next) = watch.next().now_or_never() {
                changed = true;
                if next.is_err() {
                    break;
                }
            }
        }
        if changed {
            // Opened at the revision that the rebuild reads at or before: nothing falls between.
            watches.clear();
            watches.extend(self.prefixes.iter().filter_map(|p| self.store.watch(p, now).ok()));
        }
        changed
    }
}
