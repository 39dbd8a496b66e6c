//! Which loops are at work and how much they have to do, for tests, metrics and the page.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::key::Key;
use crate::queue::{Metrics, Queue};

/// The queues of every loop of a context. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<Mutex<Vec<Entry>>>);

#[derive(Debug)]
struct Entry {
    name: String,
    queue: Queue<Key>,
}

impl Board {
    /// What each loop has counted, in the order in which they started. Loops that have ended are not in it.
    pub fn loops(&self) -> Vec<(String, Metrics)> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| !entry.queue.is_shut_down());
        entries.iter().map(|entry| (entry.name.clone(), entry.queue.metrics())).collect()
    }

    /// Whether no loop has a key ready or in hand. Keys that wait for their time do not count.
    pub fn is_idle(&self) -> bool {
        self.loops().iter().all(|(_, metrics)| metrics.depth == 0 && metrics.working == 0)
    }

    /// Keys that have been worked on for longer than this, with their loops: their workers may never come back.
    pub fn stuck(&self, longer_than: Duration) -> Vec<(String, Key, Duration)> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let running = entries.iter().filter_map(|entry| {
            let (key, time) = entry.queue.longest_running()?;
            Some((entry.name.clone(), key, time))
        });
        running.filter(|(_, _, time)| *time > longer_than).collect()
    }

    pub(crate) fn enter(&self, name: &str, queue: Queue<Key>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Entry { name: name.to_owned(), queue });
    }
}
