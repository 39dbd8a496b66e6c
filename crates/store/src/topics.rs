//! Watchers grouped by prefix, so that a commit touches only the groups its keys concern.
//!
//! A put of `/registry/pods/default/web` looks up the topics `/`, `/registry/`, `/registry/pods/`
//! and `/registry/pods/default/`, and beside these one name for each length that a prefix without a
//! slash at its end has. It costs the same for one watcher as for a thousand: they share the topic
//! and its events.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::Revision;
use crate::watch::{Batch, Event};

/// Events a topic keeps at hand. A watcher further behind reads the history, which is slower
/// because it holds every key's events.
const RING: usize = 1024;

/// The watchers of one prefix.
#[derive(Debug)]
pub(crate) struct Topic {
    prefix: Arc<str>,
    /// Last in the lock order: nothing else is locked while it is held.
    ring: Mutex<Ring>,
    changed: Notify,
}

#[derive(Debug)]
struct Ring {
    events: VecDeque<Arc<Event>>,
    /// No event of the topic after this revision is missing from `events`.
    complete_after: Revision,
    /// The newest event's revision, or the store's when the topic was made.
    last: Revision,
}

impl Topic {
    fn new(prefix: &str, revision: Revision) -> Self {
        let ring = Ring { events: VecDeque::new(), complete_after: revision, last: revision };
        Self { prefix: prefix.into(), ring: Mutex::new(ring), changed: Notify::new() }
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    pub(crate) fn wake(&self) {
        self.changed.notify_waiters();
    }

    pub(crate) fn last_revision(&self) -> Revision {
        self.ring().last
    }

    /// The events after `cursor` up to `visible`, or `None` if some are no longer at hand.
    pub(crate) fn batch(&self, cursor: Revision, visible: Revision, room: usize) -> Option<Batch> {
        let ring = self.ring();
        if cursor < ring.complete_after {
            return None;
        }
        let first = ring.events.partition_point(|event| event.revision <= cursor);
        let pending = ring.events.range(first..);
        Some(Batch::collect(pending.take_while(|event| event.revision <= visible), room))
    }

    /// Adds an event; true if it is the topic's first of the group that began at `group_start`.
    fn push(&self, event: &Arc<Event>, group_start: Revision) -> bool {
        let mut ring = self.ring();
        let first = ring.last < group_start;
        ring.events.push_back(Arc::clone(event));
        ring.last = event.revision;
        if ring.events.len() > RING {
            ring.pop();
        }
        first
    }

    /// Lets go of events the history has dropped, so that a quiet topic does not keep them alive.
    fn forget(&self, oldest: Revision) {
        let mut ring = self.ring();
        while ring.events.front().is_some_and(|event| event.revision <= oldest) {
            ring.pop();
        }
    }

    /// Lets go of all events: the store has come to `revision` by changes that are not known.
    fn restart(&self, revision: Revision) {
        let events = VecDeque::new();
        *self.ring() = Ring { events, complete_after: revision, last: revision };
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    /// Only an event that leaves moves `complete_after`: a watcher whose keys were quiet while
    /// others changed has missed nothing and is not cut off.
    fn pop(&mut self) {
        if let Some(event) = self.events.pop_front() {
            self.complete_after = event.revision;
        }
    }
}

/// Every topic that has watchers.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    /// Ordered, so that watchers are woken in the same order in every run.
    by_prefix: BTreeMap<Arc<str>, (Arc<Topic>, usize)>,
    /// How many topics there are of each length whose prefix does not end in a slash.
    odd_lengths: BTreeMap<usize, usize>,
}

impl Topics {
    /// The topic of a prefix with one more watcher; a new one is complete from `revision` on.
    pub(crate) fn join(&mut self, prefix: &str, revision: Revision) -> Arc<Topic> {
        if let Some((topic, watchers)) = self.by_prefix.get_mut(prefix) {
            *watchers += 1;
            return Arc::clone(topic);
        }
        let topic = Arc::new(Topic::new(prefix, revision));
        self.by_prefix.insert(Arc::clone(&topic.prefix), (Arc::clone(&topic), 1));
        if !prefix.ends_with('/') {
            *self.odd_lengths.entry(prefix.len()).or_default() += 1;
        }
        topic
    }

    /// Takes one watcher from a topic, and the topic away with the last.
    pub(crate) fn leave(&mut self, topic: &Topic) {
        let Some((_, watchers)) = self.by_prefix.get_mut(&topic.prefix) else { return };
        *watchers -= 1;
        if *watchers > 0 {
            return;
        }
        self.by_prefix.remove(&topic.prefix);
        let length = topic.prefix.len();
        if let Some(count) = self.odd_lengths.get_mut(&length)
            && !topic.prefix.ends_with('/')
        {
            *count -= 1;
            if *count == 0 {
                self.odd_lengths.remove(&length);
            }
        }
    }

    /// Hands a group's events to their topics, and returns the topics to wake once they are visible.
    pub(crate) fn deliver(&self, events: &[Arc<Event>]) -> Vec<Arc<Topic>> {
        let mut touched = Vec::new();
        let Some(group_start) = events.first().map(|event| event.revision) else { return touched };
        if self.by_prefix.is_empty() {
            return touched;
        }
        for event in events {
            for topic in self.of(&event.entry.key) {
                if topic.push(event, group_start) {
                    touched.push(Arc::clone(topic));
                }
            }
        }
        touched
    }

    pub(crate) fn forget(&self, oldest: Revision) {
        self.by_prefix.values().for_each(|(topic, _)| topic.forget(oldest));
    }

    pub(crate) fn restart(&self, revision: Revision) {
        self.by_prefix.values().for_each(|(topic, _)| topic.restart(revision));
    }

    pub(crate) fn wake_all(&self) {
        self.by_prefix.values().for_each(|(topic, _)| topic.wake());
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.by_prefix.len()
    }

    fn of<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Arc<Topic>> {
        let slashes = key.match_indices('/').map(|(at, _)| &key[..=at]);
        let odd = self.odd_lengths.keys().filter_map(|&length| key.get(..length));
        // A length may also cut the key behind a slash, where the first pass has been already.
        let odd = odd.filter(|prefix| !prefix.ends_with('/'));
        slashes.chain(odd).filter_map(|prefix| Some(&self.by_prefix.get(prefix)?.0))
    }
}
