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

use serde_json::value::RawValue;

use crate::codec::Codec;
use crate::object::Object;

/// Fields that change with every write and say nothing.
const NOISE: [&str; 3] = ["metadata.resourceVersion", "metadata.managedFields", "metadata.generation"];

/// Paths and the hash of what is there.
type Digest = BTreeMap<String, u64>;

type Fields<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// The fields that are in one state only, or not the same in both; sorted.
pub fn paths(codec: &Codec, old: &dyn Object, new: &dyn Object) -> Vec<String> {
    let (old, new) = (digest(codec, old), digest(codec, new));
    let differs = |path: &&String| old.get(*path) != new.get(*path) && !NOISE.contains(&path.as_str());
    let mut paths: Vec<String> = old.keys().chain(new.keys()).filter(differs).cloned().collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Empty for what is no object.
fn digest(codec: &Codec, object: &dyn Object) -> Digest {
    let mut digest = Digest::new();
    let Some(json) = codec.encode(object) else { return digest };
    let Ok(fields) = serde_json::from_slice::<Fields<'_>>(&json) else { return digest };
    for (name, value) in fields {
        match serde_json::from_str::<Fields<'_>>(value.get()) {
            Ok(inner) => digest.extend(inner.iter().map(|(below, value)| (format!("{name}.{below}"), hash(value)))),
            Err(_) => drop(digest.insert(name.into_owned(), hash(value))),
        }
    }
    digest
}

/// Enough to tell two states apart.
fn hash(value: &RawValue) -> u64 {
    pintle_meta::hash::stable(value.get().as_bytes())
}
