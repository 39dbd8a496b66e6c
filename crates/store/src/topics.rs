//! Watchers grouped by what they are interested in, so that a commit touches only the groups it concerns.
//!
//! A put of `/registry/pods/default/web` looks up the topic of that key, then the prefixes `/`, `/registry/`,
//! `/registry/pods/` and `/registry/pods/default/`, and beside these one name for each length that a prefix without a
//! slash at its end has. Under `/registry/pods/` are the topic of those who watch all of it and one for each value that
//! is watched in an index: with the Pod on node `a`, the topic of `a` gets the event, and those of 5,000 other nodes are
//! not looked at. It costs the same for one watcher as for a thousand: they share the topic and its events.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::Revision;
use crate::interest::{Index, Interest};
use crate::watch::{Batch, Event};

/// Events a topic keeps at hand. A watcher further behind reads the history, which is slower
/// because it holds every key's events.
const RING: usize = 1024;

/// The watchers with one interest.
#[derive(Debug)]
pub(crate) struct Topic {
    interest: Interest,
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
    fn new(interest: Interest, revision: Revision) -> Self {
        let ring = Ring { events: VecDeque::new(), complete_after: revision, last: revision };
        Self { interest, ring: Mutex::new(ring), changed: Notify::new() }
    }

    pub(crate) fn interest(&self) -> &Interest {
        &self.interest
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

/// Every topic that has watchers. Ordered maps: watchers are woken in the same order in every run.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    by_key: BTreeMap<Arc<str>, Joined>,
    by_prefix: BTreeMap<Arc<str>, Group>,
    /// How many groups there are of each length whose prefix does not end in a slash.
    odd_lengths: BTreeMap<usize, usize>,
}

/// A topic and how many watch it.
#[derive(Debug)]
struct Joined {
    topic: Arc<Topic>,
    watchers: usize,
}

/// The topics of one prefix.
#[derive(Debug, Default)]
struct Group {
    all: Option<Joined>,
    indexes: Vec<Indexed>,
}

/// The topics of one prefix and index.
#[derive(Debug)]
struct Indexed {
    index: Index,
    by_value: BTreeMap<Arc<str>, Joined>,
}

impl Topics {
    /// The topic of an interest with one more watcher; a new one is complete from `revision` on.
    pub(crate) fn join(&mut self, interest: &Interest, revision: Revision) -> Arc<Topic> {
        let joined = match interest {
            Interest::Key(key) => self.by_key.entry(Arc::clone(key)).or_insert_with(|| Joined::new(interest, revision)),
            Interest::Prefix(prefix) => self.group(prefix).all.get_or_insert_with(|| Joined::new(interest, revision)),
            Interest::Indexed { prefix, index, value } => {
                let indexed = self.group(prefix).index(index);
                indexed.by_value.entry(Arc::clone(value)).or_insert_with(|| Joined::new(interest, revision))
            }
        };
        joined.watchers += 1;
        Arc::clone(&joined.topic)
    }

    /// Takes one watcher from a topic, and the topic away with the last.
    pub(crate) fn leave(&mut self, topic: &Topic) {
        match &topic.interest {
            Interest::Key(key) => {
                if self.by_key.get_mut(key).is_some_and(Joined::leave) {
                    self.by_key.remove(key);
                }
            }
            Interest::Prefix(prefix) => {
                let Some(group) = self.by_prefix.get_mut(prefix) else { return };
                if group.all.as_mut().is_some_and(Joined::leave) {
                    group.all = None;
                    self.clear(prefix);
                }
            }
            Interest::Indexed { prefix, index, value } => {
                let Some(group) = self.by_prefix.get_mut(prefix) else { return };
                let indexed = group.index(index);
                if indexed.by_value.get_mut(value).is_some_and(Joined::leave) {
                    indexed.by_value.remove(value);
                    group.indexes.retain(|indexed| !indexed.by_value.is_empty());
                    self.clear(prefix);
                }
            }
        }
    }

    /// Hands a group's events to their topics, and returns the topics to wake once they are visible.
    pub(crate) fn deliver(&self, events: &[Arc<Event>]) -> Vec<Arc<Topic>> {
        let mut touched = Vec::new();
        let Some(group_start) = events.first().map(|event| event.revision) else { return touched };
        for event in events {
            self.each_of(event, |topic| {
                if topic.push(event, group_start) {
                    touched.push(Arc::clone(topic));
                }
            });
        }
        touched
    }

    pub(crate) fn forget(&self, oldest: Revision) {
        self.all().for_each(|topic| topic.forget(oldest));
    }

    pub(crate) fn restart(&self, revision: Revision) {
        self.all().for_each(|topic| topic.restart(revision));
    }

    pub(crate) fn wake_all(&self) {
        self.all().for_each(|topic| topic.wake());
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.all().count()
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Topic>> {
        let groups = self.by_prefix.values().flat_map(|group| {
            let indexed = group.indexes.iter().flat_map(|indexed| indexed.by_value.values());
            group.all.iter().chain(indexed)
        });
        self.by_key.values().chain(groups).map(|joined| &joined.topic)
    }

    /// Calls `found` once with each topic that an event concerns.
    fn each_of(&self, event: &Event, mut found: impl FnMut(&Arc<Topic>)) {
        let key = &*event.entry.key;
        if let Some(joined) = self.by_key.get(key) {
            found(&joined.topic);
        }
        if self.by_prefix.is_empty() {
            return;
        }
        let slashes = key.match_indices('/').map(|(at, _)| &key[..=at]);
        let odd = self.odd_lengths.keys().filter_map(|&length| key.get(..length));
        // A length may also cut the key behind a slash, where the first pass has been already.
        let odd = odd.filter(|prefix| !prefix.ends_with('/'));
        for group in slashes.chain(odd).filter_map(|prefix| self.by_prefix.get(prefix)) {
            if let Some(joined) = &group.all {
                found(&joined.topic);
            }
            for indexed in &group.indexes {
                let joined = indexed.index.values(event).filter_map(|value| indexed.by_value.get(value));
                joined.for_each(|joined| found(&joined.topic));
            }
        }
    }

    fn group(&mut self, prefix: &Arc<str>) -> &mut Group {
        let (odd_lengths, length) = (&mut self.odd_lengths, prefix.len());
        self.by_prefix.entry(Arc::clone(prefix)).or_insert_with(|| {
            if !prefix.ends_with('/') {
                *odd_lengths.entry(length).or_default() += 1;
            }
            Group::default()
        })
    }

    /// Takes a group away that has no topics.
    fn clear(&mut self, prefix: &Arc<str>) {
        if self.by_prefix.get(prefix).is_none_or(|group| group.all.is_some() || !group.indexes.is_empty()) {
            return;
        }
        self.by_prefix.remove(prefix);
        let length = prefix.len();
        if let Some(count) = self.odd_lengths.get_mut(&length)
            && !prefix.ends_with('/')
        {
            *count -= 1;
            if *count == 0 {
                self.odd_lengths.remove(&length);
            }
        }
    }
}

impl Joined {
    fn new(interest: &Interest, revision: Revision) -> Self {
        Self { topic: Arc::new(Topic::new(interest.clone(), revision)), watchers: 0 }
    }

    /// One watcher less; true if it was the last.
    fn leave(&mut self) -> bool {
        self.watchers -= 1;
        self.watchers == 0
    }
}

impl Group {
    fn index(&mut self, index: &Index) -> &mut Indexed {
        let at = self.indexes.iter().position(|indexed| indexed.index.name() == index.name());
        let at = at.unwrap_or_else(|| {
            self.indexes.push(Indexed { index: index.clone(), by_value: BTreeMap::new() });
            self.indexes.len() - 1
        });
        &mut self.indexes[at]
    }
}
