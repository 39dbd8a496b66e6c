//! The states that lists by pages are reading: kept whole, so that the next page undoes no history.
//!
//! A page with more to follow pins the state it was read from. A state is a persistent map, so a pin costs only the
//! versions that were replaced since. For example, with a page read at 7 and `a` put at 8 and 9, the pin of 7 keeps `a`
//! as it was before 8; everything else it shares with the newest state.
//!
//! A pin goes when newer ones need its place, when the writes since have cost more than it may hold on to, and with the
//! compaction that gives up its revision: the caller's clock drives compaction, so that is also the bound of its age.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Revision;
use crate::snapshot::Snapshot;

/// States kept at most.
const MAX_PINS: usize = 64;

#[derive(Debug)]
pub(crate) struct Pins {
    /// Bytes of replaced versions that one pin may hold on to.
    max_bytes: usize,
    /// Nothing else is locked while it is held.
    pinned: Mutex<Pinned>,
}

#[derive(Debug, Default)]
struct Pinned {
    /// The least recently read first.
    pins: VecDeque<Pin>,
    /// Revisions before this were given up: a state that was read before that is not pinned after it.
    oldest: Revision,
}

#[derive(Debug)]
struct Pin {
    /// Without its history.
    snapshot: Snapshot,
    /// What all events up to it have cost.
    cost: usize,
}

impl Pins {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, pinned: Mutex::default() }
    }

    /// Keeps a state, once however often it is asked to.
    pub(crate) fn add(&self, snapshot: &Snapshot) {
        let mut pinned = self.pinned();
        if snapshot.revision() < pinned.oldest || pinned.touch(snapshot.revision()).is_some() {
            return;
        }
        pinned.pins.push_back(Pin { snapshot: snapshot.without_history(), cost: snapshot.cost() });
        let evicted = (pinned.pins.len() > MAX_PINS).then(|| pinned.pins.pop_front());
        drop(pinned);
        // What only it held is freed when nobody waits for it.
        drop(evicted);
    }

    pub(crate) fn get(&self, revision: Revision) -> Option<Snapshot> {
        self.pinned().touch(revision).map(|pin| pin.snapshot.clone())
    }

    /// Lets go of the states that have come to hold on to too much since.
    pub(crate) fn trim(&self, newest: &Snapshot) {
        let max_bytes = self.max_bytes;
        self.pinned().pins.retain(|pin| newest.cost().saturating_sub(pin.cost) <= max_bytes);
    }

    /// Lets go of the states before a revision.
    pub(crate) fn forget(&self, oldest: Revision) {
        let mut pinned = self.pinned();
        pinned.oldest = pinned.oldest.max(oldest);
        pinned.pins.retain(|pin| pin.snapshot.revision() >= oldest);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.pinned().pins.len()
    }

    fn pinned(&self) -> MutexGuard<'_, Pinned> {
        self.pinned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pinned {
    /// The pin of a revision, which is now the one read last.
    fn touch(&mut self, revision: Revision) -> Option<&Pin> {
        let at = self.pins.iter().position(|pin| pin.snapshot.revision() == revision)?;
        let pin = self.pins.remove(at)?;
        self.pins.push_back(pin);
        self.pins.back()
    }
}
