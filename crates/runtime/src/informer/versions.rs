//! Up to which version of the collection an informer knows, and who waits until it knows more.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Waiters wake in the order of what they wait for, then of their coming.
#[derive(Debug, Default)]
pub(super) struct Versions {
    highest: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    count: u64,
    wakers: BTreeMap<(u64, u64), oneshot::Sender<()>>,
}

/// So many who left without an answer are worth a look.
const LEFT: usize = 64;

impl Versions {
    pub(super) fn highest(&self) -> u64 {
        self.highest.load(Ordering::Acquire)
    }

    pub(super) fn advance(&self, version: u64) {
        if self.highest.fetch_max(version, Ordering::AcqRel) >= version {
            return;
        }
        let reached = {
            let mut waiting = self.waiting();
            let later = waiting.wakers.split_off(&(version.saturating_add(1), 0));
            std::mem::replace(&mut waiting.wakers, later)
        };
        for waker in reached.into_values() {
            // Whoever no longer waits does not mind.
            let _ = waker.send(());
        }
    }

    pub(super) async fn reached(&self, version: u64) {
        let woken = {
            let mut waiting = self.waiting();
            // Looked at under the lock: who advances comes after us and finds us, or was before us.
            if self.highest() >= version {
                return;
            }
            if waiting.wakers.len() >= LEFT {
                waiting.wakers.retain(|_, waker| !waker.is_closed());
            }
            let (waker, woken) = oneshot::channel();
            waiting.count += 1;
            let place = (version, waiting.count);
            waiting.wakers.insert(place, waker);
            woken
        };
        let _ = woken.await;
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of a version; 0 if it is not one.
pub(super) fn number(version: Option<&str>) -> u64 {
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}
