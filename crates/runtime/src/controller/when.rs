//! Which changes count: small questions about a change, to be passed to the builder and put together.
//!
//! ```
//! use pintle_runtime::when;
//! use k8s_openapi::api::core::v1::Pod;
//! let counts = when::any::<Pod>(vec![Box::new(when::spec), Box::new(when::labels)]);
//! # let _ = counts;
//! ```
//!
//! A resync counts for every question here: it exists to find what was missed.

use kube::Resource;

use crate::informer::Change;

/// Every change.
pub fn anything<K>(_: &Change<K>) -> bool {
    true
}

/// The object is new, gone, going, or its generation moved: what people asked for is not what it was.
pub fn spec<K: Resource>(change: &Change<K>) -> bool {
    differs(change, |object| (object.meta().generation, object.meta().deletion_timestamp.clone()))
}

/// The object is new, gone, or its labels changed.
pub fn labels<K: Resource>(change: &Change<K>) -> bool {
    differs(change, |object| object.meta().labels.clone())
}

/// The object is new, gone, or its annotations changed.
pub fn annotations<K: Resource>(change: &Change<K>) -> bool {
    differs(change, |object| object.meta().annotations.clone())
}

/// The object is new, gone, or what the function sees of it changed.
pub fn differs<K, T: PartialEq>(change: &Change<K>, seen: impl Fn(&K) -> T) -> bool {
    match change {
        Change::Updated { old, new } => seen(old) != seen(new),
        _ => true,
    }
}

/// One question of several.
pub type Question<K> = Box<dyn Fn(&Change<K>) -> bool + Send + Sync>;

/// At least one answers yes.
pub fn any<K>(questions: Vec<Question<K>>) -> impl Fn(&Change<K>) -> bool + Send + Sync {
    move |change| questions.iter().any(|question| question(change))
}

/// Every one answers yes.
pub fn all<K>(questions: Vec<Question<K>>) -> impl Fn(&Change<K>) -> bool + Send + Sync {
    move |change| questions.iter().all(|question| question(change))
}
