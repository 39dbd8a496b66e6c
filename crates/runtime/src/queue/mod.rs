//! The keyed work queue between handlers and workers.
//!
//! - A key is in the queue at most once, however often it is added.
//! - A key is never handed to two workers: added while it is worked on, it comes back after `done`.
//! - Keys come out in the order in which they went in.
//! - `add_rate_limited` waits longer each time, until `forget`; plain `add` and `add_after` do not count as failures.
//! - After `shut_down` nothing goes in and nothing comes out; what is being worked on may finish.

mod state;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backoff::Backoff;
use state::State;

/// What a queue has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Keys ready to be worked on.
    pub depth: usize,
    /// Keys that wait for their time.
    pub delayed: usize,
    /// Keys in the hands of workers.
    pub working: usize,
    pub adds: u64,
    pub retries: u64,
}

/// A queue of keys. Cheap to clone; clones are the same queue.
#[derive(Debug)]
pub struct Queue<T> {
    shared: Arc<Shared<T>>,
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Notify,
    backoff: Backoff,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Queue { shared: self.shared.clone() }
    }
}

impl<T: Ord + Clone> Default for Queue<T> {
    fn default() -> Self {
        Queue::new(Backoff::KEY)
    }
}

impl<T: Ord + Clone> Queue<T> {
    pub fn new(backoff: Backoff) -> Self {
        let state = Mutex::new(State::new());
        Queue { shared: Arc::new(Shared { state, changed: Notify::new(), backoff }) }
    }

    pub fn add(&self, key: T) {
        if self.state().add(key) {
            self.shared.changed.notify_one();
        }
    }

    /// Adds the key once the time has passed; of two delays for one key the earlier holds.
    pub fn add_after(&self, key: T, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        self.state().add_at(key, Instant::now() + delay);
        self.shared.changed.notify_one();
    }

    /// Adds the key after a wait that doubles with every call until `forget`.
    pub fn add_rate_limited(&self, key: T) {
        let failures = self.state().fail(&key);
        self.add_after(key, self.shared.backoff.after(failures));
    }

    /// The key's work went well: its next failure waits the shortest time again.
    pub fn forget(&self, key: &T) {
        self.state().forget(key);
    }

    /// How often the key has failed since it was last forgotten.
    pub fn failures(&self, key: &T) -> u32 {
        self.state().failures(key)
    }

    /// The next key, which is this caller's alone until `done`; `None` after the shutdown.
    pub async fn get(&self) -> Option<T> {
        loop {
            let changed = self.shared.changed.notified();
            let next_due = {
                let mut state = self.state();
                if state.is_shut_down() {
                    // Pass it on: one wake-up reaches one worker.
                    self.shared.changed.notify_one();
                    return None;
                }
                state.release_due(Instant::now());
                if let Some(key) = state.take() {
                    if state.has_more() {
                        self.shared.changed.notify_one();
                    }
                    return Some(key);
                }
                state.next_due()
            };
            match next_due {
                Some(due) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = tokio::time::sleep_until(due) => {}
                },
                None => changed.await,
            }
        }
    }

    /// The work on a key is over, well or not.
    pub fn done(&self, key: &T) {
        if self.state().done(key) {
            self.shared.changed.notify_one();
        }
    }

    pub fn shut_down(&self) {
        self.state().shut_down();
        self.shared.changed.notify_one();
    }

    pub fn is_shut_down(&self) -> bool {
        self.state().is_shut_down()
    }

    pub fn metrics(&self) -> Metrics {
        self.state().metrics()
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
