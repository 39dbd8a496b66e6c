//! The queue's books, without waiting: which keys are ready, delayed, in work and failed.
//!
//! Worked example: `a` is in work and is added again, `b` and `c` are added, `d` is added for noon.
//!
//! ```text
//! order  [b, c]      dirty  {a, b, c}      working  {a}      delayed  {(noon, d)}
//! ```
//!
//! `a` is dirty but not in the order: `done(a)` puts it there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tokio::time::Instant;

use super::Metrics;

#[derive(Debug)]
pub(super) struct State<T> {
    order: VecDeque<T>,
    dirty: BTreeSet<T>,
    working: BTreeSet<T>,
    delayed: BTreeSet<(Instant, T)>,
    due_of: BTreeMap<T, Instant>,
    failures: BTreeMap<T, u32>,
    adds: u64,
    retries: u64,
    shut_down: bool,
}

impl<T: Ord + Clone> State<T> {
    pub(super) fn new() -> Self {
        State {
            order: VecDeque::new(),
            dirty: BTreeSet::new(),
            working: BTreeSet::new(),
            delayed: BTreeSet::new(),
            due_of: BTreeMap::new(),
            failures: BTreeMap::new(),
            adds: 0,
            retries: 0,
            shut_down: false,
        }
    }

    /// True if there is now more to take.
    pub(super) fn add(&mut self, key: T) -> bool {
        if self.shut_down || !self.dirty.insert(key.clone()) {
            return false;
        }
        self.adds += 1;
        if self.working.contains(&key) {
            return false;
        }
        self.order.push_back(key);
        true
    }

    pub(super) fn add_at(&mut self, key: T, due: Instant) {
        if self.shut_down {
            return;
        }
        match self.due_of.get(&key) {
            Some(earlier) if *earlier <= due => return,
            Some(later) => {
                self.delayed.remove(&(*later, key.clone()));
            }
            None => {}
        }
        self.due_of.insert(key.clone(), due);
        self.delayed.insert((due, key));
    }

    pub(super) fn release_due(&mut self, now: Instant) {
        while self.delayed.first().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, key)) = self.delayed.pop_first() {
                self.due_of.remove(&key);
                self.add(key);
            }
        }
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.delayed.first().map(|(due, _)| *due)
    }

    pub(super) fn take(&mut self) -> Option<T> {
        let key = self.order.pop_front()?;
        self.dirty.remove(&key);
        self.working.insert(key.clone());
        Some(key)
    }

    /// True if another worker has a reason to wake: a key is ready, or a timer must be watched.
    pub(super) fn has_more(&self) -> bool {
        !self.order.is_empty() || !self.delayed.is_empty()
    }

    /// True if the key came back into the order.
    pub(super) fn done(&mut self, key: &T) -> bool {
        let was_working = self.working.remove(key);
        let again = was_working && self.dirty.contains(key);
        if again {
            self.order.push_back(key.clone());
        }
        again
    }

    /// Counts a failure and returns how many there were before.
    pub(super) fn fail(&mut self, key: &T) -> u32 {
        self.retries += 1;
        let failures = self.failures.entry(key.clone()).or_default();
        let before = *failures;
        *failures = before.saturating_add(1);
        before
    }

    pub(super) fn forget(&mut self, key: &T) {
        self.failures.remove(key);
    }

    pub(super) fn failures(&self, key: &T) -> u32 {
        self.failures.get(key).copied().unwrap_or(0)
    }

    pub(super) fn shut_down(&mut self) {
        self.shut_down = true;
        self.order.clear();
        self.dirty.clear();
        self.delayed.clear();
        self.due_of.clear();
    }

    pub(super) fn is_shut_down(&self) -> bool {
        self.shut_down
    }

    pub(super) fn metrics(&self) -> Metrics {
        Metrics {
            depth: self.order.len(),
            delayed: self.delayed.len(),
            working: self.working.len(),
            adds: self.adds,
            retries: self.retries,
        }
    }
}
