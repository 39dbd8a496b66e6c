//! A claim that names no storage class gets the cluster's default one; storage in use does not go away.

use crate::codec;
use crate::registry::Registry;
use pintle_meta::object;
use serde_json::{Value, json};

const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

pub(super) async fn default_class(registry: &Registry, claim: &mut Value) {
    if object::at(claim, &["spec", "storageClassName"]).is_some() {
        return;
    }
    let Ok(page) = registry.store.range(pintle_store::Range::prefix("/registry/storageclasses/")).await else { return };
    let classes = page.entries.iter().map(|e| codec::decode(&e.value));
    let newest = classes.filter(|c| object::text(c, &["metadata", "annotations", DEFAULT]) == "true").max_by(|a, b| {
        let created = |c: &Value| object::text(c, &["metadata", "creationTimestamp"]).to_owned();
        created(a).cmp(&created(b)).then_with(|| object::name(b).cmp(object::name(a)))
    });
    if let Some(class) = newest {
        object::map_at(claim, "spec").insert("storageClassName".into(), object::name(&class).into());
    }
}

/// Held until nobody uses it any more: a control loop takes the finalizer off.
pub(super) fn protect(object: &mut Value, finalizer: &str) {
    if object::finalizers(object).any(|f| f == finalizer) {
        return;
    }
    let finalizers = object::metadata(object).entry("finalizers").or_insert_with(|| json!([]));
    if let Some(finalizers) = finalizers.as_array_mut() {
        finalizers.push(finalizer.into());
    }
}
