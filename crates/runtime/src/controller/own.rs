//! Reading one's own writes: a key waits until the caches show what the last attempt wrote for it.
//!
//! A loop that has created a Pod and is woken before its cache shows the Pod would create another. So the highest revision
//! that an attempt wrote is noted by collection, and the next attempt on that key starts when every informer of the loop
//! over that collection has come as far.
//!
//! - Only informers over everything are waited for: one with a selection may never be told of a write.
//! - A deletion that the server answers with a bare Status has no revision; deleting twice is harmless.
//! - A view that must be listed again and cannot be is behind by nobody knows how much: until it is back no key is looked at.
//! - Nobody waits: the key comes back after a moment, and after a longer one each time. After [`PATIENCE`] the loop goes on
//!   with what it has and says so: a store that was restored from a backup never comes as far.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::attempt::Written;
use crate::backoff::Backoff;
use crate::context::ClusterId;
use crate::informer::Informer;
use crate::key::Key;

/// When a key whose writes are not shown yet is looked at again: a watch in this process needs no longer than the first.
const AGAIN: Backoff = Backoff { first: Duration::from_millis(2), longest: Duration::from_millis(500) };

/// How long a key waits in all.
const PATIENCE: Duration = Duration::from_secs(60);

/// A collection of a cluster, by its path.
type Collection = (ClusterId, String);

/// An informer of any kind, as far as versions go.
pub(super) trait View: Send + Sync {
    /// The cluster and its collection, if all of that is here.
    fn collection(&self) -> Option<Collection>;
    fn has_reached(&self, version: u64) -> bool;
    /// Whether it is known to be behind, and nobody knows how far.
    fn is_lost(&self) -> bool;
}

impl<K> View for Informer<K>
where
    K: Resource + DeserializeOwned + Clone + Debug + Send + Sync + 'static,
{
    fn collection(&self) -> Option<Collection> {
        self.is_whole().then(|| (self.cluster(), self.path().to_owned()))
    }

    fn has_reached(&self, version: u64) -> bool {
        self.version() >= version
    }

    fn is_lost(&self) -> bool {
        Informer::is_lost(self)
    }
}

pub(super) struct OwnWrites {
    /// With what they are whole views of.
    views: Vec<(Option<Collection>, Box<dyn View>)>,
    pending: Mutex<BTreeMap<Key, Pending>>,
    /// Since when a view is known to be behind.
    lost_since: Mutex<Option<Instant>>,
}

struct Pending {
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
    /// Not after all this time.
    Never,
}

impl OwnWrites {
    pub(super) fn new(views: Vec<Box<dyn View>>) -> Self {
        let views = views.into_iter().map(|view| (view.collection(), view)).collect();
        OwnWrites { views, pending: Mutex::default(), lost_since: Mutex::default() }
    }

    /// When to look again, if a view is known to be behind: whoever acts on it does what others have undone.
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
    pub(super) fn note(&self, key: &Key, written: Written) {
        let watched = |collection: &Collection| self.views.iter().any(|(of, _)| of.as_ref() == Some(collection));
        let written: Written = written.into_iter().filter(|(collection, _)| watched(collection)).collect();
        if !written.is_empty() {
            self.pending().insert(key.clone(), Pending { since: Instant::now(), written, looks: 0 });
        }
    }

    /// Whether the caches show what was written for the key.
    pub(super) fn shown(&self, key: &Key) -> Shown {
        let mut all = self.pending();
        let Some(pending) = all.get_mut(key) else { return Shown::All };
        let behind = self.is_behind(&pending.written);
        if behind && pending.since.elapsed() < PATIENCE {
            pending.looks += 1;
            return Shown::NotYet(AGAIN.after(pending.looks - 1));
        }
        all.remove(key);
        if behind { Shown::Never } else { Shown::All }
    }

    fn is_behind(&self, written: &Written) -> bool {
        self.views.iter().any(|(of, view)| {
            let version = of.as_ref().and_then(|of| written.get(of));
            version.is_some_and(|version| !view.has_reached(*version))
        })
    }

    fn pending(&self) -> MutexGuard<'_, BTreeMap<Key, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
