//! The keyed work queue between handlers and workers.
//!
//! - A key is in the queue at most once, however often it is added.
//! - A key is never handed to two workers: added while it is worked on, it comes back after `done`.
//! - Keys of a class come out in the order in which they went in. A more urgent class goes first, but a key that has
//!   stood in its line for an ageing period counts as one class more urgent, so that none waits for ever.
//! - A key that is added again under a more urgent class is raised to it; nothing lowers it.
//! - `add_rate_limited` waits longer each time, until `forget`; plain `add` and `add_after` do not count as failures.
//!   Retries of all keys together share a token bucket.
//! - An `add` while a key waits for its time makes it ready at once; its time still comes, as in client-go.
//! - After `shut_down` nothing goes in and nothing comes out; what is being worked on may finish.

mod histogram;
mod limit;
mod lines;
#[cfg(test)]
mod model;
mod state;
mod sync;
#[cfg(test)]
mod tests;
mod waking;

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

pub use histogram::Histogram;
pub use limit::Rate;

use crate::backoff::Backoff;
use state::State;
use waking::Core;

/// How urgent a key is. `Urgent` is greater than `Low`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Nothing happened: a periodic look.
    Low,
    #[default]
    Normal,
    Urgent,
}

impl Class {
    /// Most urgent first.
    pub const ALL: [Class; 3] = [Class::Urgent, Class::Normal, Class::Low];

    fn line(self) -> usize {
        match self {
            Class::Urgent => 0,
            Class::Normal => 1,
            Class::Low => 2,
        }
    }
}

/// How a queue behaves.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// What a failed key waits.
    pub backoff: Backoff,
    /// How many retries of all keys together go through; `None` for any number.
    pub rate: Option<Rate>,
    /// After so long in its line a key counts as one class more urgent.
    pub ageing: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config { backoff: Backoff::KEY, rate: Some(Rate::RETRIES), ageing: Duration::from_secs(30) }
    }
}

/// What a queue has counted, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Keys ready to be worked on.
    pub depth: usize,
    /// The same, in the order of [`Class::ALL`].
    pub depth_by_class: [usize; 3],
    /// Keys that wait for their time.
    pub delayed: usize,
    /// Keys in the hands of workers.
    pub working: usize,
    pub adds: u64,
    pub retries: u64,
    /// How long the first key of a line has stood there; the longest of all lines.
    pub oldest_wait: Duration,
    /// How long the longest running work has been going on.
    pub longest_work: Duration,
    /// How long all running work has been going on, together.
    pub unfinished_work: Duration,
}

/// How long keys waited for a worker, and how long the work on them took, since the queue was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    pub wait: Histogram,
    pub work: Histogram,
}

impl Durations {
    /// Counts those of another queue too.
    pub(crate) fn add(&mut self, other: &Durations) {
        self.wait.add(&other.wait);
        self.work.add(&other.work);
    }
}

/// A queue of keys. Cheap to clone; clones are the same queue.
#[derive(Debug)]
pub struct Queue<T> {
    core: Arc<Core<T, Mutex<State<T>>, Notify>>,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Queue { core: self.core.clone() }
    }
}

impl<T: Hash + Eq + Clone> Default for Queue<T> {
    fn default() -> Self {
        Queue::with(Config::default())
    }
}

impl<T: Hash + Eq + Clone> Queue<T> {
    pub fn new(backoff: Backoff) -> Self {
        Queue::with(Config { backoff, ..Config::default() })
    }

    pub fn with(config: Config) -> Self {
        Queue { core: Arc::new(Core::new(config)) }
    }

    pub fn add(&self, key: T) {
        self.core.add(key, Class::Normal);
    }

    /// Adds the key, or raises it if it waits in a class that is less urgent.
    pub fn add_in(&self, key: T, class: Class) {
        self.core.add(key, class);
    }

    /// Adds the key once the time has passed; of two delays for one key the earlier holds.
    pub fn add_after(&self, key: T, delay: Duration) {
        self.core.add_after(key, delay);
    }

    /// Adds the key after a wait that doubles with every call until `forget`, and longer if all keys together are
    /// tried again too often.
    pub fn add_rate_limited(&self, key: T) {
        self.core.add_rate_limited(key);
    }

    /// The key's work went well: its next failure waits the shortest time again.
    pub fn forget(&self, key: &T) {
        self.core.read(|state| state.forget(key));
    }

    /// How often the key has failed since it was last forgotten.
    pub fn failures(&self, key: &T) -> u32 {
        self.core.read(|state| state.failures(key))
    }

    /// The next key, which is this caller's alone until `done`; `None` after the shutdown.
    pub async fn get(&self) -> Option<T> {
        self.core.get().await
    }

    /// The work on a key is over, well or not.
    pub fn done(&self, key: &T) {
        self.core.done(key);
    }

    pub fn shut_down(&self) {
        self.core.shut_down();
    }

    pub fn is_shut_down(&self) -> bool {
        self.core.read(|state| state.is_shut_down())
    }

    pub fn metrics(&self) -> Metrics {
        let now = self.core.now();
        self.core.read(|state| state.metrics(now))
    }

    pub fn durations(&self) -> Durations {
        self.core.read(|state| state.durations())
    }

    /// The key that has been worked on longest, to find work that is stuck.
    pub fn longest_running(&self) -> Option<(T, Duration)> {
        let now = self.core.now();
        self.core.read(|state| state.longest_running(now))
    }
}
