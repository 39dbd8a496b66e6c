//! What keeps an informer from showing the world as it is: a list that fails, objects that cannot be decoded.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::key::Key;
use crate::reflector::Delta;

#[derive(Default)]
pub(super) struct Troubles(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Why the collection, which must be listed again, cannot be.
    lost: Option<String>,
    unreadable: BTreeMap<Key, String>,
}

impl Troubles {
    /// Notes what a change says of this; an object that cannot be decoded is logged.
    pub(super) fn note(&self, path: &str, delta: &Delta) {
        let mut known = self.known();
        match delta {
            Delta::Applied(object) | Delta::Deleted(object) => {
                if !known.unreadable.is_empty() {
                    known.unreadable.remove(&Key::of_meta(object.meta()));
                }
            }
            Delta::Gone(key) => drop(known.unreadable.remove(key)),
            Delta::Unreadable(object) => {
                let (key, error) = (&object.key, &object.error);
                tracing::error!(%path, object = %key, %error, "an object cannot be decoded; skipped until it is written anew");
                known.unreadable.insert(key.clone(), error.clone());
            }
            Delta::Listing(_) => known.unreadable.clear(),
            Delta::Replaced(_) => *known = Known::default(),
            Delta::Listed(_) => known.lost = None,
            Delta::Lost(why) => known.lost = Some(why.clone()),
            Delta::Page(_) | Delta::Bookmark(_) => {}
        }
    }

    pub(super) fn is_lost(&self) -> bool {
        self.known().lost.is_some()
    }

    pub(super) fn why_lost(&self) -> Option<String> {
        self.known().lost.clone()
    }

    pub(super) fn unreadable(&self) -> Vec<(Key, String)> {
        self.known().unreadable.iter().map(|(key, error)| (key.clone(), error.clone())).collect()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
