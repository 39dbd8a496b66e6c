//! What an informer knows: objects by key, and indexes over them.
//!
//! Worked example: with an index by a function that maps a Pod to its node's name, three Pods give
//!
//! ```text
//! objects   default/a → Pod a     default/b → Pod b     kube-system/c → Pod c
//! node      n1 → {default/a, kube-system/c}             n2 → {default/b}
//! ```
//!
//! A list that comes in pages is a round: each object of a page is marked with it, and at its end whatever has an older
//! mark is gone from the server.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pintle_kinds::Object;

use super::change::Change;
use super::keeping::{Form, Held, Keeping};
use super::retention::Projection;
use super::versions::number;
use super::writer::Writers;
use crate::key::Key;
use crate::reflector::{Delta, Seen};

/// What an index finds an object by.
pub(super) type ValuesOf = Box<dyn Fn(&dyn Object) -> Vec<String> + Send + Sync>;

/// A change, and who wrote it.
pub(super) type Told = (Change<dyn Object>, Option<Arc<str>>);

/// From so many objects on it is worth closing the gaps that a long list leaves in the map.
const MANY: usize = 1000;

pub(super) struct Store {
    objects: BTreeMap<Key, Slot>,
    /// By the address of the function that makes them.
    indexes: BTreeMap<usize, Index>,
    keeping: Keeping,
    projection: Option<Projection>,
    writers: Writers,
    round: u32,
}

struct Slot {
    held: Held,
    /// The number of its resourceVersion; 0 if that is none.
    version: u64,
    round: u32,
}

struct Index {
    values_of: ValuesOf,
    keys: BTreeMap<String, BTreeSet<Key>>,
}

impl Store {
    pub(super) fn new(keeping: Keeping, projection: Option<Projection>) -> Self {
        let (objects, indexes, writers) = (BTreeMap::new(), BTreeMap::new(), Writers::default());
        Store { objects, indexes, keeping, projection, writers, round: 0 }
    }

    pub(super) fn get(&self, key: &Key) -> Option<Arc<dyn Object>> {
        let (key, slot) = self.objects.get_key_value(key)?;
        self.keeping.read(key, &slot.held)
    }

    pub(super) fn all(&self) -> Vec<Arc<dyn Object>> {
        self.objects.iter().filter_map(|(key, slot)| self.keeping.peek(key, &slot.held)).collect()
    }

    /// Up to `most` objects that come after the key in order, and the key to go on from if there may be more.
    pub(super) fn after(&self, key: Option<&Key>, most: usize) -> (Vec<Arc<dyn Object>>, Option<Key>) {
        let start = key.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.objects.range::<Key, _>((start, Bound::Unbounded)).take(most);
        let (count, last) = range.clone().fold((0, None), |(count, _), (key, _)| (count + 1, Some(key)));
        let objects = range.filter_map(|(key, slot)| self.keeping.peek(key, &slot.held)).collect();
        (objects, last.filter(|_| count == most).cloned())
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Arc<dyn Object>> {
        // Keys sort by namespace first, and no name is empty, so one range holds the namespace.
        self.objects
            .range::<Key, _>(Key::new(namespace, "")..)
            .take_while(|(key, _)| key.namespace() == namespace)
            .filter_map(|(key, slot)| self.keeping.peek(key, &slot.held))
            .collect()
    }

    /// Nothing if there is no such index yet.
    pub(super) fn by(&self, index: usize, value: &str) -> Option<Vec<Arc<dyn Object>>> {
        let keys = self.indexes.get(&index)?.keys.get(value);
        Some(keys.into_iter().flatten().filter_map(|key| self.get(key)).collect())
    }

    /// Adds an index unless it is there.
    pub(super) fn index(&mut self, name: usize, values_of: ValuesOf) {
        if self.indexes.contains_key(&name) {
            return;
        }
        let mut index = Index { values_of, keys: BTreeMap::new() };
        for (key, slot) in &self.objects {
            if let Some(object) = self.keeping.peek(key, &slot.held) {
                index.insert(key, object.as_ref());
            }
        }
        self.indexes.insert(name, index);
    }

    #[cfg(test)]
    pub(super) fn decoded(&self) -> usize {
        self.objects.values().filter(|slot| matches!(slot.held.form, Form::Decoded(_))).count()
    }

    /// Counted bytes of what is retained.
    pub(super) fn bytes(&self) -> usize {
        self.keeping.bytes()
    }

    /// The smallest form for everything, now and from now on. False if that is how it was.
    pub(super) fn pack_all(&mut self) -> bool {
        if self.keeping.packs_all() {
            return false;
        }
        self.keeping.pack_all();
        for (key, slot) in &mut self.objects {
            if let Form::Decoded(object) = &slot.held.form {
                let object = object.clone();
                self.keeping.release(key, &slot.held);
                slot.held = self.keeping.hold(key, &object, true);
            }
        }
        true
    }

    /// Takes in what the server told, and says what that changed. Nobody is told if nobody listens.
    pub(super) fn take(&mut self, delta: Delta, listening: bool) -> Vec<Told> {
        let mut told = Vec::new();
        match delta {
            Delta::Applied(seen) => self.put(seen, false, listening, &mut told),
            Delta::Deleted(seen) => {
                let writer = self.writers.shared(seen.writer.as_deref());
                let object = self.projected(seen.object);
                // The last state the server tells is newer than ours; both carry the same key.
                let key = Key::of_meta(object.metadata());
                if self.objects.contains_key(&key) {
                    self.remove_for(&key, false);
                    told.push((Change::Deleted(object), writer));
                }
            }
            Delta::Replaced(objects) => {
                let present: BTreeSet<Key> = objects.iter().map(|seen| Key::of_meta(seen.meta())).collect();
                self.remove_where(|key, _| !present.contains(key), &mut told);
                self.keeping.expect(objects.len());
                objects.into_iter().for_each(|seen| self.put(seen, true, listening, &mut told));
            }
            Delta::Listing(count) => {
                self.round = self.round.wrapping_add(1);
                self.keeping.expect(count);
            }
            Delta::Page(objects) => objects.into_iter().for_each(|seen| self.put(seen, true, listening, &mut told)),
            Delta::Listed(_) => {
                let round = self.round;
                self.remove_where(|_, slot| slot.round != round, &mut told);
                if self.objects.len() >= MANY {
                    self.objects = std::mem::take(&mut self.objects).into_iter().collect();
                }
            }
            // What is known of it stays, also through a list.
            Delta::Unreadable(unreadable) => {
                if let Some(slot) = self.objects.get_mut(&unreadable.key) {
                    slot.round = self.round;
                }
            }
            Delta::Gone(key) => {
                told.extend(self.remove_for(&key, true).map(|object| (Change::Deleted(object), None)));
            }
            Delta::Bookmark(_) | Delta::Lost(_) => {}
        }
        told
    }

    fn remove_where(&mut self, mut gone: impl FnMut(&Key, &Slot) -> bool, told: &mut Vec<Told>) {
        let absent: Vec<Key> =
            self.objects.iter().filter(|(key, slot)| gone(key, slot)).map(|(key, _)| key.clone()).collect();
        for key in absent {
            if let Some(object) = self.remove_for(&key, true) {
                told.push((Change::Deleted(object), None));
            }
        }
    }

    fn projected(&self, object: Arc<dyn Object>) -> Arc<dyn Object> {
        match &self.projection {
            Some(project) => project(object),
            None => object,
        }
    }

    fn put(&mut self, seen: Seen, of_many: bool, listening: bool, told: &mut Vec<Told>) {
        let meta = seen.meta();
        let (key, version) = (Key::of_meta(meta), number(meta.resource_version.as_deref()));
        let known = self.objects.get_key_value(&key).map(|(key, slot)| (key.clone(), slot.version));
        if known.as_ref().is_some_and(|(_, before)| self.is_same(&key, *before, version, meta)) {
            if let Some(slot) = self.objects.get_mut(&key) {
                slot.round = self.round;
            }
            return;
        }
        let writer = if listening { self.writers.shared(seen.writer.as_deref()) } else { None };
        let new = self.projected(seen.object);
        let Some((key, _)) = known else {
            self.insert(key, &new, version, of_many);
            told.push((Change::Added(new), writer));
            return;
        };
        let old = self.remove_for(&key, listening);
        self.insert(key, &new, version, of_many);
        match old {
            Some(old) if old.metadata().uid == new.metadata().uid => {
                told.push((Change::Updated { old, new }, writer));
            }
            Some(old) => {
                // One name, two lives: a handler that counts objects must see one end and the other begin.
                told.push((Change::Deleted(old), None));
                told.push((Change::Added(new), writer));
            }
            None => told.push((Change::Added(new), writer)),
        }
    }

    /// Whether the object is the one that is known already.
    fn is_same(&self, key: &Key, before: u64, version: u64, new: &ObjectMeta) -> bool {
        if before != 0 || version != 0 {
            return before == version;
        }
        let new = &new.resource_version;
        new.is_some() && self.get(key).is_some_and(|old| old.metadata().resource_version == *new)
    }

    fn insert(&mut self, key: Key, object: &Arc<dyn Object>, version: u64, of_many: bool) {
        for index in self.indexes.values_mut() {
            index.insert(&key, object.as_ref());
        }
        let held = self.keeping.hold(&key, object, of_many);
        self.objects.insert(key, Slot { held, version, round: self.round });
    }

    /// Takes the object out. It is decoded only if someone needs it.
    fn remove_for(&mut self, key: &Key, needed: bool) -> Option<Arc<dyn Object>> {
        let (key, slot) = self.objects.remove_entry(key)?;
        let needed = needed || !self.indexes.is_empty();
        let object = needed.then(|| self.keeping.peek(&key, &slot.held)).flatten();
        self.keeping.release(&key, &slot.held);
        if let Some(object) = &object {
            for index in self.indexes.values_mut() {
                index.remove(&key, object.as_ref());
            }
        }
        object
    }
}

impl Index {
    fn insert(&mut self, key: &Key, object: &dyn Object) {
        for value in (self.values_of)(object) {
            self.keys.entry(value).or_default().insert(key.clone());
        }
    }

    fn remove(&mut self, key: &Key, object: &dyn Object) {
        for value in (self.values_of)(object) {
            if let Some(keys) = self.keys.get_mut(&value) {
                keys.remove(key);
                if keys.is_empty() {
                    self.keys.remove(&value);
                }
            }
        }
    }
}
