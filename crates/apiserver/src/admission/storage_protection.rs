//! Storage in use does not go away: it is held until nobody uses it, and a control loop takes the finalizer off.

use super::{Plugin, Review};
use futures::future::BoxFuture;
use pintle_meta::{Status, object};
use serde_json::{Value, json};

pub struct StorageProtection;

impl Plugin for StorageProtection {
    fn concerns(&self, review: &Review<'_>) -> bool {
        review.is_new("", "persistentvolumeclaims") || review.is_new("", "persistentvolumes")
    }

    fn changes(&self, _: &Review<'_>) -> bool {
        true
    }

    fn mutate<'a>(&'a self, review: &'a Review<'a>, object: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        protect(
            object,
            if review.resource.namespaced { "kubernetes.io/pvc-protection" } else { "kubernetes.io/pv-protection" },
        );
        Box::pin(std::future::ready(Ok(())))
    }
}

fn protect(object: &mut Value, finalizer: &str) {
    if object::finalizers(object).any(|f| f == finalizer) {
        return;
    }
    let finalizers = object::metadata(object).entry("finalizers").or_insert_with(|| json!([]));
    if let Some(finalizers) = finalizers.as_array_mut() {
        finalizers.push(finalizer.into());
    }
}
