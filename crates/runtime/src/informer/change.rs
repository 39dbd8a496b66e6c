//! What happened to an object, for those who know its kind and for those who do not.

use std::sync::Arc;

use kube::Resource;
use pintle_kinds::{Kind, Object, typed};

use crate::key::Key;

/// What happened to an object, as far as this informer knows.
#[derive(Debug)]
pub enum Change<K: ?Sized> {
    Added(Arc<K>),
    Updated {
        old: Arc<K>,
        new: Arc<K>,
    },
    /// The last state known.
    Deleted(Arc<K>),
    /// Nothing: the period has passed, and a loop may look again.
    Resync(Arc<K>),
}

impl<K: ?Sized> Change<K> {
    /// The object's latest state.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Change::Added(object) | Change::Deleted(object) | Change::Resync(object) => object,
            Change::Updated { new, .. } => new,
        }
    }

    /// The state before, where there was one.
    pub fn old(&self) -> Option<&Arc<K>> {
        match self {
            Change::Updated { old, .. } => Some(old),
            _ => None,
        }
    }

    pub fn is_deleted(&self) -> bool {
        matches!(self, Change::Deleted(_))
    }

    pub fn is_resync(&self) -> bool {
        matches!(self, Change::Resync(_))
    }
}

impl<K: Resource> Change<K> {
    pub fn key(&self) -> Key {
        Key::of(self.object().as_ref())
    }
}

impl Change<dyn Object> {
    /// The same of objects whose kind is known; nothing if it is another.
    pub(crate) fn typed<K: Kind>(&self) -> Option<Change<K>> {
        Some(match self {
            Change::Added(object) => Change::Added(typed(object)?),
            Change::Updated { old, new } => Change::Updated { old: typed(old)?, new: typed(new)? },
            Change::Deleted(object) => Change::Deleted(typed(object)?),
            Change::Resync(object) => Change::Resync(typed(object)?),
        })
    }
}
