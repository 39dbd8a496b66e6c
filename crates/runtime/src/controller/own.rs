//! Reading one's own writes: a key waits until the caches show what the last attempt wrote for it.
//!
//! A loop that has created a Pod and is woken before its cache shows the Pod would create another. So the highest revision
//! that an attempt wrote is noted by collection, and the next attempt on that key starts when every informer of the loop
//! over that collection has come as far.
//!
//! - Only informers over everything are waited for: one with a selection may never be told of a write.
//! - A deletion that the server answers with a bare Status has no revision; deleting twice is harmless.
//! - A worker waits a moment, then turns to other keys. After [`PATIENCE`] the loop goes on with what it has and says so:
//!   a store that was restored from a backup never comes as far.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::attempt::Written;
use crate::informer::Informer;
use crate::key::Key;

/// How long a worker stands by before it does something else.
const MOMENT: Duration = Duration::from_millis(100);

/// How long a key waits in all.
const PATIENCE: Duration = Duration::from_secs(60);

/// An informer of any kind, as far as versions go.
pub(super) trait View: Send + Sync {
    /// The collection, if all of it is here.
    fn collection(&self) -> Option<&str>;
    fn has_reached(&self, version: u64) -> bool;
    fn reached(&self, version: u64) -> BoxFuture<'_, ()>;
}

impl<K> View for Informer<K>
where
    K: Resource + DeserializeOwned + Clone + Debug + Send + Sync + 'static,
{
    fn collection(&self) -> Option<&str> {
        self.is_whole().then(|| self.path())
    }

    fn has_reached(&self, version: u64) -> bool {
        self.version() >= version
    }

    fn reached(&self, version: u64) -> BoxFuture<'_, ()> {
        Informer::reached(self, version).boxed()
    }
}

pub(super) struct OwnWrites {
    views: Vec<Box<dyn View>>,
    pending: Mutex<BTreeMap<Key, (Instant, Written)>>,
}

/// What the caches show of a key's last writes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown {
    All,
    NotYet,
    /// Not after all this time.
    Never,
}

impl OwnWrites {
    pub(super) fn new(views: Vec<Box<dyn View>>) -> Self {
        OwnWrites { views, pending: Mutex::default() }
    }

    /// Notes what an attempt wrote.
    pub(super) fn note(&self, key: &Key, written: Written) {
        let watched = |collection: &str| self.views.iter().any(|view| view.collection() == Some(collection));
        let written: Written = written.into_iter().filter(|(collection, _)| watched(collection)).collect();
        if !written.is_empty() {
            self.pending().insert(key.clone(), (Instant::now(), written));
        }
    }

    /// Waits a moment for the caches to show what was written for the key.
    pub(super) async fn shown(&self, key: &Key) -> Shown {
        let Some((since, written)) = self.pending().get(key).cloned() else { return Shown::All };
        let behind: Vec<_> = self.behind(&written).collect();
        if !behind.is_empty() {
            let caught_up = join_all(behind.into_iter().map(|(view, version)| view.reached(version)));
            if tokio::time::timeout(MOMENT, caught_up).await.is_err() && since.elapsed() < PATIENCE {
                return Shown::NotYet;
            }
        }
        self.pending().remove(key);
        if self.behind(&written).next().is_none() { Shown::All } else { Shown::Never }
    }

    fn behind<'a>(&'a self, written: &'a Written) -> impl Iterator<Item = (&'a dyn View, u64)> {
        let of = |view: &'a dyn View| view.collection().and_then(|path| written.get(path)).copied();
        self.views.iter().filter_map(move |view| {
            let version = of(view.as_ref())?;
            (!view.has_reached(version)).then_some((view.as_ref(), version))
        })
    }

    fn pending(&self) -> MutexGuard<'_, BTreeMap<Key, (Instant, Written)>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
