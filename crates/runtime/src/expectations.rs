//! What a loop has asked for and its informers have not shown yet.
//!
//! A loop that creates three Pods and is woken by the first must not take the other two for missing. It notes three
//! creations before it asks, and each Pod that shows up takes one off.
//!
//! - A key is satisfied when nothing is awaited, when nothing was ever expected, or after five minutes, in case an
//!   event was lost for good.
//! - Deletions are awaited by UID: an object may be seen to go twice (marked, then removed) but counts once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use pintle_meta::Clock;

use crate::key::Key;

const TIMEOUT: SignedDuration = SignedDuration::from_mins(5);

/// The expectations of one loop, by the key of the owner.
#[derive(Debug)]
pub struct Expectations {
    clock: Clock,
    awaited: Mutex<BTreeMap<Key, Awaited>>,
}

#[derive(Debug)]
struct Awaited {
    creations: usize,
    deletions: BTreeSet<String>,
    since: Timestamp,
}

impl Expectations {
    pub fn new(clock: Clock) -> Self {
        Expectations { clock, awaited: Mutex::default() }
    }

    /// True if the informers have caught up with what the loop did.
    pub fn satisfied(&self, key: &Key) -> bool {
        match self.awaited().get(key) {
            None => true,
            Some(awaited) => {
                let fulfilled = awaited.creations == 0 && awaited.deletions.is_empty();
                fulfilled || self.clock.now().duration_since(awaited.since) > TIMEOUT
            }
        }
    }

    /// Call before asking; takes the place of what was expected before.
    pub fn expect_creations(&self, key: &Key, count: usize) {
        self.set(key, count, BTreeSet::new());
    }

    /// Call before asking; takes the place of what was expected before.
    pub fn expect_deletions(&self, key: &Key, uids: impl IntoIterator<Item = String>) {
        self.set(key, 0, uids.into_iter().collect());
    }

    /// A creation was seen, or will never be: it was refused or not tried.
    pub fn creation_observed(&self, key: &Key) {
        if let Some(awaited) = self.awaited().get_mut(key) {
            awaited.creations = awaited.creations.saturating_sub(1);
        }
    }

    /// The object with this UID is on its way out, or its deletion failed.
    pub fn deletion_observed(&self, key: &Key, uid: &str) {
        if let Some(awaited) = self.awaited().get_mut(key) {
            awaited.deletions.remove(uid);
        }
    }

    /// The owner is gone.
    pub fn forget(&self, key: &Key) {
        self.awaited().remove(key);
    }

    fn set(&self, key: &Key, creations: usize, deletions: BTreeSet<String>) {
        let since = self.clock.now();
        self.awaited().insert(key.clone(), Awaited { creations, deletions, since });
    }

    fn awaited(&self) -> MutexGuard<'_, BTreeMap<Key, Awaited>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn fixture() -> (Expectations, Key) {
        (Expectations::new(Clock::virtual_from(Timestamp::UNIX_EPOCH)), Key::new("shop", "web"))
    }

    #[tokio::test(start_paused = true)]
    async fn pods_that_have_not_shown_up_yet_are_not_created_again() {
        let (expectations, key) = fixture();
        assert!(expectations.satisfied(&key));
        expectations.expect_creations(&key, 2);
        expectations.creation_observed(&key);
        assert!(!expectations.satisfied(&key));
        expectations.creation_observed(&key);
        assert!(expectations.satisfied(&key));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_seen_to_go_twice_counts_once() {
        let (expectations, key) = fixture();
        expectations.expect_deletions(&key, ["a".to_owned(), "b".to_owned()]);
        expectations.deletion_observed(&key, "a");
        expectations.deletion_observed(&key, "a");
        assert!(!expectations.satisfied(&key));
        expectations.deletion_observed(&key, "b");
        assert!(expectations.satisfied(&key));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_event_does_not_stop_a_loop_for_ever() {
        let (expectations, key) = fixture();
        expectations.expect_creations(&key, 1);
        tokio::time::advance(Duration::from_secs(300)).await;
        assert!(!expectations.satisfied(&key));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(expectations.satisfied(&key));
    }
}
