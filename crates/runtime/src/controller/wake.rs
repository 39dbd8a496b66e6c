//! Waking a key and remembering why, until a worker takes both.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::board::Record;
use crate::cause::{Cause, Causes, Wake};
use crate::key::Key;
use crate::queue::{Class, Queue};

/// A loop's queue together with the causes of the keys in it. Cheap to clone; clones are the same.
#[derive(Clone)]
pub struct Waker {
    queue: Queue<Key>,
    record: Arc<Record>,
    causes: Arc<Mutex<BTreeMap<Key, Causes>>>,
    class_of: ClassOf,
}

pub(super) type ClassOf = Arc<dyn Fn(&Key, Wake) -> Class + Send + Sync>;

impl fmt::Debug for Waker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Waker").field("queue", &self.queue.metrics()).finish_non_exhaustive()
    }
}

impl Waker {
    pub(super) fn new((queue, record): (Queue<Key>, Arc<Record>), class_of: ClassOf) -> Self {
        Waker { queue, record, causes: Arc::default(), class_of }
    }

    /// Where the loop's workers note what comes of its keys.
    pub(super) fn record(&self) -> &Record {
        &self.record
    }

    pub(super) fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    /// The key is to be looked at, because of this.
    pub fn wake(&self, key: Key, cause: Cause) {
        let class = (self.class_of)(&key, cause.wake());
        self.note(&key, cause);
        self.queue.add_in(key, class);
    }

    /// The key is to be looked at, for a reason that is no object.
    pub fn add(&self, key: Key) {
        self.queue.add(key);
    }

    /// The key is to be looked at after this time.
    pub fn add_after(&self, key: Key, delay: Duration) {
        self.queue.add_after(key, delay);
    }

    /// The attempt failed: the next one has the same causes, and one more.
    pub(super) fn retry(&self, key: Key, causes: &Causes) {
        for cause in causes.iter() {
            self.note(&key, cause.clone());
        }
        self.note(&key, Cause::retry());
        self.queue.add_rate_limited(key);
    }

    /// All that was noted for the key until now. What is noted later belongs to the next attempt, which comes: whoever
    /// notes adds the key afterwards.
    pub(super) fn take(&self, key: &Key) -> Causes {
        self.causes().remove(key).unwrap_or_default()
    }

    /// The key comes back with its causes, and does not count as failed.
    pub(super) fn put_back(&self, key: Key, causes: &Causes, delay: Duration) {
        for cause in causes.iter() {
            self.note(&key, cause.clone());
        }
        self.queue.add_after(key, delay);
    }

    fn note(&self, key: &Key, cause: Cause) {
        if self.queue.is_shut_down() {
            return;
        }
        let mut causes = self.causes();
        match causes.get_mut(key) {
            Some(known) => known.add(cause),
            None => causes.entry(key.clone()).or_default().add(cause),
        }
    }

    fn causes(&self) -> MutexGuard<'_, BTreeMap<Key, Causes>> {
        self.causes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
