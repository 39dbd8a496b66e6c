//! A claim that names no storage class gets the cluster's default one.

use crate::codec;
use crate::registry::Registry;
use pintle_meta::object;
use serde_json::Value;

const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

pub(super) async fn default_class(registry: &Registry, claim: &mut Value) {
    if object::at(claim, &["spec", "storageClassName"]).is_some() {
        return;
    }
    let Ok(page) = registry.store.range(pintle_store::Range::prefix("/registry/storageclasses/")).await else { return };
    let classes = page.entries.iter().map(|e| codec::decode(&e.value));
    let newest = classes
        .filter(|c| object::text(c, &["metadata", "annotations", DEFAULT]) == "true")
        .max_by(|a, b| {
            let created = |c: &Value| object::text(c, &["metadata", "creationTimestamp"]).to_owned();
            created(a).cmp(&created(b)).then_with(|| object::name(b).cmp(object::name(a)))
        });
    if let Some(class) = newest {
        object::map_at(claim, "spec").insert("storageClassName".into(), object::name(&class).into());
    }
}
