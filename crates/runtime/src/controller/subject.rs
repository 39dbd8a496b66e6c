//! The kind whose objects a loop reconciles, and the keys of those that own a changed object.

use std::sync::{Arc, OnceLock};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pintle_kinds::Kind;

use crate::informer::{Change, Mirror};
use crate::key::Key;
use crate::owner::GroupKind;

/// What the keys of a loop name.
pub(super) struct Subject {
    pub(super) kind: GroupKind,
    /// Of a kind that does not say whether its objects are in namespaces: its informer, whose objects tell.
    pub(super) scope: Option<Arc<Mirror>>,
}

impl Subject {
    fn controller_key(&self, meta: &ObjectMeta) -> Option<Key> {
        let key = self.kind.controller_key(meta)?;
        let in_none = Key::new("", key.name());
        let is_in_none = self.scope.as_ref().is_some_and(|mirror| mirror.get(&in_none).is_some());
        Some(if is_in_none { in_none } else { key })
    }
}

/// The owner, and the one before if it changed.
pub(super) fn owners_of<K: Kind>(change: &Change<K>, subject: &OnceLock<Subject>) -> Vec<Key> {
    let Some(subject) = subject.get() else { return Vec::new() };
    let states = [change.old(), Some(change.object())].into_iter().flatten();
    let mut keys: Vec<Key> = states.filter_map(|state| subject.controller_key(state.meta())).collect();
    keys.dedup();
    keys
}
