//! What an informer knows: objects by key, and named indexes over them.
//!
//! Worked example: with an index `node` that maps a Pod to its node's name, three Pods give
//!
//! ```text
//! objects   default/a → Pod a     default/b → Pod b     kube-system/c → Pod c
//! node      n1 → {default/a, kube-system/c}             n2 → {default/b}
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::Resource;

use super::Change;
use crate::key::Key;
use crate::reflector::Delta;

pub(crate) type IndexFunction<K> = Arc<dyn Fn(&K) -> Vec<String> + Send + Sync>;

pub(crate) struct Store<K> {
    objects: BTreeMap<Key, Arc<K>>,
    indexes: BTreeMap<&'static str, Index<K>>,
}

struct Index<K> {
    values_of: IndexFunction<K>,
    keys: BTreeMap<String, BTreeSet<Key>>,
}

impl<K: Resource> Store<K> {
    pub(crate) fn new() -> Self {
        Store { objects: BTreeMap::new(), indexes: BTreeMap::new() }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.objects.get(key).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.objects.values().cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        // Keys sort by namespace first, and no name is empty, so one range holds the namespace.
        self.objects
            .range(Key::new(namespace, "")..)
            .take_while(|(key, _)| key.namespace == namespace)
            .map(|(_, object)| object.clone())
            .collect()
    }

    pub(crate) fn by_index(&self, index: &str, value: &str) -> Vec<Arc<K>> {
        let keys = self.indexes.get(index).and_then(|index| index.keys.get(value));
        keys.into_iter().flatten().filter_map(|key| self.get(key)).collect()
    }

    /// Adds an index unless one of that name is there.
    pub(crate) fn add_index(&mut self, name: &'static str, values_of: IndexFunction<K>) {
        if self.indexes.contains_key(name) {
            return;
        }
        let mut index = Index { values_of, keys: BTreeMap::new() };
        for (key, object) in &self.objects {
            index.insert(key, object);
        }
        self.indexes.insert(name, index);
    }

    /// Takes in what the server told, and says what that changed.
    pub(crate) fn take(&mut self, delta: Delta<K>) -> Vec<Change<K>> {
        match delta {
            Delta::Applied(object) => self.put(object),
            Delta::Deleted(object) => {
                let key = Key::of(&object);
                // The last state the server tells is newer than ours; both carry the same key.
                match self.remove(&key) {
                    Some(_) => vec![Change::Deleted(Arc::new(object))],
                    None => Vec::new(),
                }
            }
            Delta::Replaced(objects) => {
                let present: BTreeSet<Key> = objects.iter().map(Key::of).collect();
                let absent: Vec<Key> = self.objects.keys().filter(|key| !present.contains(*key)).cloned().collect();
                let mut changes: Vec<Change<K>> =
                    absent.iter().filter_map(|key| self.remove(key)).map(Change::Deleted).collect();
                changes.extend(objects.into_iter().flat_map(|object| self.put(object)));
                changes
            }
        }
    }

    fn put(&mut self, object: K) -> Vec<Change<K>> {
        let (key, new) = (Key::of(&object), Arc::new(object));
        let Some(old) = self.objects.get(&key).cloned() else {
            self.insert(key, new.clone());
            return vec![Change::Added(new)];
        };
        if old.meta().resource_version.is_some() && old.meta().resource_version == new.meta().resource_version {
            return Vec::new();
        }
        self.remove(&key);
        self.insert(key, new.clone());
        if old.meta().uid == new.meta().uid {
            vec![Change::Updated { old, new }]
        } else {
            // One name, two lives: whoever counts objects must see one end and the other begin.
            vec![Change::Deleted(old), Change::Added(new)]
        }
    }

    fn insert(&mut self, key: Key, object: Arc<K>) {
        for index in self.indexes.values_mut() {
            index.insert(&key, &object);
        }
        self.objects.insert(key, object);
    }

    fn remove(&mut self, key: &Key) -> Option<Arc<K>> {
        let object = self.objects.remove(key)?;
        for index in self.indexes.values_mut() {
            index.remove(key, &object);
        }
        Some(object)
    }
}

impl<K> Index<K> {
    fn insert(&mut self, key: &Key, object: &K) {
        for value in (self.values_of)(object) {
            self.keys.entry(value).or_default().insert(key.clone());
        }
    }

    fn remove(&mut self, key: &Key, object: &K) {
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
