//! The immutable state: the newest version of each key, and the events that led to it.
//!
//! A read at an older revision undoes the events after it. With `a` put at 2 and 3 and `b` put at 4,
//! a read at 2 starts from {a@3, b@4}, undoes the event at 4 (b was absent) and the one at 3 (a was
//! a@2), and finds {a@2}.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet, Vector};

use crate::interest::Interest;
use crate::watch::{Batch, Event, EventKind};
use crate::{Entry, Options, Page, Range, ReadError, Revision};

/// What an event costs beside its value; an estimate of its allocations.
const EVENT_OVERHEAD: usize = 256;

/// All of the store at one revision. Cloning shares everything.
#[derive(Clone)]
pub(crate) struct Snapshot {
    revision: Revision,
    /// The oldest revision that `history` reaches back to.
    oldest: Revision,
    entries: OrdMap<Arc<str>, Arc<Entry>>,
    /// Keys that expire, soonest first.
    expiring: OrdSet<(i64, Arc<str>)>,
    /// Every event after `oldest`, in order.
    history: Vector<Kept>,
    /// What all events that were dropped have cost.
    dropped: usize,
}

/// An event of the history, and what all events up to it have cost: dropping many is as cheap as dropping one.
#[derive(Clone)]
struct Kept {
    event: Arc<Event>,
    cost: usize,
}

impl Snapshot {
    /// A state without history.
    pub(crate) fn new(revision: Revision, loaded: impl IntoIterator<Item = Arc<Entry>>) -> Self {
        let mut entries = OrdMap::new();
        let mut expiring = OrdSet::new();
        for entry in loaded {
            if let Some(at) = entry.expires_at {
                expiring.insert((at, Arc::clone(&entry.key)));
            }
            entries.insert(Arc::clone(&entry.key), entry);
        }
        let history = Vector::new();
        Self { revision, oldest: revision, entries, expiring, history, dropped: 0 }
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// Goes on at a later revision, without the history: what happened in between is not known.
    pub(crate) fn jump(&mut self, revision: Revision) {
        if revision > self.revision {
            self.revision = revision;
            self.compact(revision);
        }
    }

    /// The same keys; the history is let go.
    pub(crate) fn without_history(&self) -> Self {
        Self { history: Vector::new(), dropped: self.cost(), oldest: self.revision, ..self.clone() }
    }

    /// What all events up to here have cost, those that were dropped too.
    pub(crate) fn cost(&self) -> usize {
        self.history.back().map_or(self.dropped, |kept| kept.cost)
    }

    /// The entries whose keys come after `key`, in order.
    pub(crate) fn entries_after(&self, key: &str) -> impl Iterator<Item = &Arc<Entry>> {
        let after = self.entries.range::<_, str>((Bound::Excluded(key), Bound::Unbounded));
        after.map(|(_, entry)| entry)
    }

    pub(crate) fn oldest(&self) -> Revision {
        self.oldest
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Entry>> {
        self.entries.get(key)
    }

    pub(crate) fn page(&self, range: &Range) -> Result<Page, ReadError> {
        let revision = range.at.unwrap_or(self.revision);
        self.check(revision)?;
        let entries = self.entries_at(revision, range);
        let mut found = keys_from(&entries, &range.start).take_while(|(key, _)| range.contains(key));
        let limit = if range.limit == 0 { usize::MAX } else { range.limit };
        let page: Vec<_> = found.by_ref().take(limit).map(|(_, entry)| Arc::clone(entry)).collect();
        let remaining = match range.total {
            Some(total) => total.saturating_sub(page.len()),
            None => found.count(),
        };
        Ok(Page { entries: page, revision, remaining })
    }

    /// The key due soonest, if its time has come.
    pub(crate) fn due(&self, now_ms: i64) -> Option<Arc<str>> {
        self.expiring.get_min().filter(|(at, _)| *at <= now_ms).map(|(_, key)| Arc::clone(key))
    }

    /// Every key whose time has come, soonest first.
    pub(crate) fn all_due(&self, now_ms: i64) -> impl Iterator<Item = &Arc<Entry>> {
        let due = self.expiring.iter().take_while(move |(at, _)| *at <= now_ms);
        due.filter_map(|(_, key)| self.entries.get(key))
    }

    /// The events that concern an interest after a revision, from the history.
    pub(crate) fn batch(&self, interest: &Interest, after: Revision, room: usize) -> Result<Batch, ReadError> {
        self.check(after)?;
        let pending = self.history.skip(self.first_after(after));
        let matching = pending.iter().map(|kept| &kept.event).filter(|event| interest.concerns(event));
        Ok(Batch::collect(matching, room))
    }

    /// Whether a revision can be read and watched from.
    pub(crate) fn check(&self, revision: Revision) -> Result<(), ReadError> {
        if revision < self.oldest {
            return Err(ReadError::Compacted { oldest: self.oldest });
        }
        if revision > self.revision {
            return Err(ReadError::Future { current: self.revision });
        }
        Ok(())
    }

    /// Records one change, at this snapshot's revision or the next.
    pub(crate) fn apply(&mut self, event: &Arc<Event>, options: &Options) {
        self.revision = event.revision;
        let key = &event.entry.key;
        if let Some(at) = event.previous.as_ref().and_then(|previous| previous.expires_at) {
            self.expiring.remove(&(at, Arc::clone(key)));
        }
        match event.kind {
            EventKind::Put => {
                if let Some(at) = event.entry.expires_at {
                    self.expiring.insert((at, Arc::clone(key)));
                }
                self.entries.insert(Arc::clone(key), Arc::clone(&event.entry));
            }
            EventKind::Delete => {
                self.entries.remove(key);
            }
        }
        let cost = self.cost() + cost(event);
        self.history.push_back(Kept { event: Arc::clone(event), cost });
        while self.history.len() > options.history_events || cost - self.dropped > options.history_bytes {
            let Some(oldest) = self.history.pop_front() else { break };
            (self.oldest, self.dropped) = (oldest.event.revision, oldest.cost);
        }
    }

    /// Moves to a revision that changed nothing here.
    pub(crate) fn advance(&mut self, revision: Revision) {
        self.revision = self.revision.max(revision);
    }

    /// Drops the events at or below a revision.
    pub(crate) fn compact(&mut self, keep_after: Revision) {
        if self.history.front().is_some_and(|kept| kept.event.revision <= keep_after) {
            let kept = self.history.split_off(self.first_after(keep_after));
            let dropped = std::mem::replace(&mut self.history, kept);
            if let Some(last) = dropped.back() {
                (self.oldest, self.dropped) = (last.event.revision, last.cost);
            }
        }
        self.oldest = self.oldest.max(keep_after.min(self.revision));
    }

    /// Where in the history the events after a revision begin.
    fn first_after(&self, revision: Revision) -> usize {
        let before = |kept: &Kept| if kept.event.revision <= revision { Ordering::Less } else { Ordering::Greater };
        self.history.binary_search_by(before).unwrap_or_else(|at| at)
    }

    fn entries_at(&self, revision: Revision, range: &Range) -> OrdMap<Arc<str>, Arc<Entry>> {
        let mut entries = self.entries.clone();
        let later = self.history.iter().rev().map(|kept| &kept.event).take_while(|event| event.revision > revision);
        for event in later.filter(|event| range.contains(&event.entry.key)) {
            match &event.previous {
                Some(previous) => entries.insert(Arc::clone(&previous.key), Arc::clone(previous)),
                None => entries.remove(&event.entry.key),
            };
        }
        entries
    }
}

/// Sizes only: a store in a log line must not print all of its bytes.
impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("revision", &self.revision)
            .field("oldest", &self.oldest)
            .field("entries", &self.entries.len())
            .field("history", &self.history.len())
            .finish_non_exhaustive()
    }
}

fn keys_from<'a>(
    entries: &'a OrdMap<Arc<str>, Arc<Entry>>,
    start: &str,
) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<Entry>)> {
    entries.range::<_, str>((Bound::Included(start), Bound::Unbounded))
}

/// A version counts with the event that made it and again with the one that replaced it: either may
/// be the last to hold on to it.
fn cost(event: &Event) -> usize {
    let previous = event.previous.as_ref().map_or(0, |previous| previous.value.len());
    event.entry.value.len() + previous + EVENT_OVERHEAD
}
