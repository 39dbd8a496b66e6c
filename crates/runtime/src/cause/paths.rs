//! Which fields of an object changed, two levels deep.
//!
//! Worked example: of two ReplicaSets that differ in their replicas and their labels
//!
//! ```text
//! metadata.labels → 3f…   spec.replicas → 91…   spec.selector → 07…
//! metadata.labels → a1…   spec.replicas → 5c…   spec.selector → 07…     changed: metadata.labels, spec.replicas
//! ```
//!
//! The object is written as JSON once, and only its first two levels are read again.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;

/// Fields that change with every write and say nothing.
const NOISE: [&str; 3] = ["metadata.resourceVersion", "metadata.managedFields", "metadata.generation"];

/// Paths and the hash of what is there.
pub(super) type Digest = BTreeMap<String, u64>;

type Fields<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// Empty for what is no object.
pub(super) fn digest(object: &impl Serialize) -> Digest {
    let mut digest = Digest::new();
    let Ok(json) = serde_json::to_vec(object) else { return digest };
    let Ok(fields) = serde_json::from_slice::<Fields<'_>>(&json) else { return digest };
    for (name, value) in fields {
        match serde_json::from_str::<Fields<'_>>(value.get()) {
            Ok(inner) => digest.extend(inner.iter().map(|(below, value)| (format!("{name}.{below}"), hash(value)))),
            Err(_) => drop(digest.insert(name.into_owned(), hash(value))),
        }
    }
    digest
}

/// Paths that are in one only, or not the same in both; sorted.
pub(super) fn changed(old: &Digest, new: &Digest) -> Vec<String> {
    let differs = |path: &&String| old.get(*path) != new.get(*path) && !NOISE.contains(&path.as_str());
    let mut paths: Vec<String> = old.keys().chain(new.keys()).filter(differs).cloned().collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Enough to tell two states apart.
fn hash(value: &RawValue) -> u64 {
    pintle_meta::hash::stable(value.get().as_bytes())
}
