//! What a loop has done and its informers do not show yet: a key waits until they do.
//!
//! A loop that has created a Pod and is woken before its cache shows the Pod would create another; one that has deleted a Pod
//! would delete one more. So what an attempt wrote is noted, and the next attempt on that key starts when every informer of
//! the loop over those collections shows it:
//!
//! - what was created or changed: the informer has come as far as the answer's revision;
//! - what was deleted: the object is gone, on its way out, or another one has its name. An object may be seen to go twice
//!   (marked, then removed); it is awaited once, by its UID.
//! - Only informers over everything are waited for: one with a selection may never be told of a write. Those of one namespace are
//!   waited for too: a loop that watches one namespace writes there.
//! - A view that must be listed again and cannot be has missed an unknown number of events: until it is back no key is looked at.
//! - No worker waits: the key comes back after a moment, and after a longer one each time. After [`PATIENCE`] the views that are behind
//!   are listed anew. What such a list does not show is not there, as after a store was restored from a backup: then the loop goes on and
//!   says so. Until the list is there the key waits, however long that takes: no time that has passed makes a stale view true
//!   (kubernetes/kubernetes#129795).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::attempt::{Collection, Gone, Written};
use crate::backoff::Backoff;
use crate::informer::Mirror;
use crate::key::Key;

/// When a key whose writes are not shown yet is looked at again: a watch in this process needs no longer than the first.
const AGAIN: Backoff = Backoff { first: Duration::from_millis(2), longest: Duration::from_millis(500) };

/// How long a key waits for the watches.
const PATIENCE: Duration = Duration::from_secs(60);

/// So many keys may be noted before those that no longer wait are looked for.
const FEW: usize = 64;

pub(super) struct Expectations {
    /// With what they are whole views of.
    views: Vec<(Option<Collection>, Arc<Mirror>)>,
    awaited: Mutex<BTreeMap<Key, Awaited>>,
    /// Since when a view is known to be behind.
    lost_since: Mutex<Option<Instant>>,
}

struct Awaited {
    since: Instant,
    written: Written,
    looks: u32,
}

/// What the caches show of a key's last writes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown {
    All,
    /// Look again after this time.
    NotYet(Duration),
    /// A list that was made since does not show it.
    Never,
}

impl Expectations {
    pub(super) fn new(views: Vec<Arc<Mirror>>) -> Self {
        let views = views.into_iter().map(|view| (collection_of(&view), view)).collect();
        Expectations { views, awaited: Mutex::default(), lost_since: Mutex::default() }
    }

    /// When to look again, if a view is known to be behind: acting on it repeats what others have undone.
    pub(super) fn lost(&self) -> Option<Duration> {
        let mut since = self.lost_since.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.views.iter().any(|(_, view)| view.is_lost()) {
            *since = None;
            return None;
        }
        let since = since.get_or_insert_with(Instant::now);
        (since.elapsed() < PATIENCE).then_some(AGAIN.longest)
    }

    /// Notes what an attempt wrote.
    pub(super) fn note(&self, key: &Key, mut written: Written) {
        let watched = |collection: &Collection| self.views.iter().any(|(of, _)| of.as_ref() == Some(collection));
        written.versions.retain(|collection, _| watched(collection));
        written.gone.retain(|gone| watched(&gone.collection));
        if written.is_empty() {
            return;
        }
        let mut all = self.awaited();
        // Keys of objects that are gone are never looked at again: their notes would stay.
        if all.len() >= FEW && all.len().is_power_of_two() {
            all.retain(|_, awaited| !self.to_wait_for(awaited).is_empty());
        }
        all.insert(key.clone(), Awaited { since: Instant::now(), written, looks: 0 });
    }

    /// Whether the caches show what was written for the key.
    pub(super) fn shown(&self, key: &Key) -> Shown {
        let mut all = self.awaited();
        let Some(awaited) = all.get_mut(key) else { return Shown::All };
        let wait_for = self.to_wait_for(awaited);
        let is_behind = self.behind(&awaited.written).next().is_some();
        if !wait_for.is_empty() {
            awaited.looks += 1;
            if awaited.since.elapsed() >= PATIENCE {
                wait_for.iter().for_each(|view| view.list_anew());
            }
            return Shown::NotYet(AGAIN.after(awaited.looks - 1));
        }
        all.remove(key);
        if is_behind { Shown::Never } else { Shown::All }
    }

    /// The views that may still come to show what was written: after a while those alone that were not listed since. A list that was
    /// asked for before the write may lack it.
    fn to_wait_for(&self, awaited: &Awaited) -> Vec<&Mirror> {
        let is_patient = awaited.since.elapsed() < PATIENCE;
        let may_come = |view: &&Mirror| is_patient || view.covers().is_none_or(|at| at <= awaited.since);
        self.behind(&awaited.written).filter(may_come).collect()
    }

    /// The views that do not show what was written.
    fn behind<'a, 'b>(&'a self, written: &'b Written) -> impl Iterator<Item = &'a Mirror> + use<'a, 'b> {
        let is_behind = move |(of, view): &&(Option<Collection>, Arc<Mirror>)| {
            let Some(of) = of else { return false };
            let behind = written.versions.get(of).is_some_and(|version| view.version() < *version);
            behind || written.gone.iter().any(|gone| gone.collection == *of && !shows_gone(view, gone))
        };
        self.views.iter().filter(is_behind).map(|(_, view)| view.as_ref())
    }

    fn awaited(&self) -> MutexGuard<'_, BTreeMap<Key, Awaited>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The cluster and its collection, if all of that is here.
fn collection_of(view: &Mirror) -> Option<Collection> {
    view.is_whole().then(|| (view.cluster(), view.collection().to_owned()))
}

/// Whether this object is gone or going.
fn shows_gone(view: &Mirror, gone: &Gone) -> bool {
    view.get(&gone.key).is_none_or(|object| {
        let meta = object.metadata();
        meta.deletion_timestamp.is_some() || meta.uid.as_ref() != Some(&gone.uid)
    })
}
