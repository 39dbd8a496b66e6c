//! The protection loop: storage that is deleted stays until nothing uses it.
//!
//! Watches PersistentVolumeClaims, PersistentVolumes and Pods. Keys are claims (`namespace/name`) and volumes (`name`).

mod apply;
mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use pintle_runtime::{Context, Controller, Key};

use apply::Protector;

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    let claims = context.informers.of::<PersistentVolumeClaim>();
    let (volumes, pods) = (context.informers.of::<PersistentVolume>(), context.informers.of::<Pod>());
    Controller::new("protection", &context)
        .watch(&claims, |change| vec![change.key()])
        .watch(&volumes, |change| vec![change.key()])
        .watch(&pods, |change| {
            // Only a Pod that is over, or gone, can set a claim free.
            let key = change.key();
            match change.is_deleted() || crate::pods::is_terminal(change.object()) {
                true => plan::claims_of(change.object()).map(|name| Key::new(key.namespace(), name)).collect(),
                false => Vec::new(),
            }
        })
        .run(Protector::new(&context, claims, volumes, pods))
        .await;
}
