//! Which changes count: small questions about a change, to be passed to the builder and put together.
//!
//! ```
//! use pintle_runtime::when;
//! use k8s_openapi::api::core::v1::Pod;
//! use pintle_runtime::when::Combine;
//! let counts = when::spec::<Pod>.or(when::labels);
//! # let _: &dyn Fn(&pintle_runtime::Change<Pod>) -> bool = &counts;
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

/// Questions that are put together: `when::spec::<Pod>.or(when::labels)`.
pub trait Combine<K>: Fn(&Change<K>) -> bool + Send + Sync + Sized + 'static {
    /// Both answer yes.
    fn and(self, other: impl Combine<K>) -> impl Fn(&Change<K>) -> bool + Send + Sync + 'static {
        move |change| self(change) && other(change)
    }

    /// At least one answers yes.
    fn or(self, other: impl Combine<K>) -> impl Fn(&Change<K>) -> bool + Send + Sync + 'static {
        move |change| self(change) || other(change)
    }

    /// This one answers no. A resync counts all the same.
    fn not(self) -> impl Fn(&Change<K>) -> bool + Send + Sync + 'static {
        move |change| change.is_resync() || !self(change)
    }
}

impl<K, F: Fn(&Change<K>) -> bool + Send + Sync + 'static> Combine<K> for F {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_counts_if_the_questions_together_say_so() {
        let map = |generation: i64, label: &str| -> Arc<ConfigMap> {
            let meta = json!({"name": "a", "generation": generation, "labels": {"l": label}});
            Arc::new(serde_json::from_value(json!({"metadata": meta})).unwrap())
        };
        let change = |generation, label| Change::Updated { old: map(1, "x"), new: map(generation, label) };
        let cases = [(change(2, "y"), [true, true, false]), (change(2, "x"), [true, false, true])];
        let cases = cases.into_iter().chain([
            (change(1, "y"), [true, false, false]),
            (change(1, "x"), [false, false, true]),
            (Change::Resync(map(1, "x")), [true, true, true]),
        ]);
        for (change, expected) in cases {
            let answers = [
                spec::<ConfigMap>.or(labels)(&change),
                spec::<ConfigMap>.and(labels)(&change),
                labels::<ConfigMap>.not()(&change),
            ];
            assert_eq!(answers, expected, "{change:?}");
        }
    }
}
