//! The volumes loop: claims and volumes find each other, and a volume whose claim is gone is dealt with.
//!
//! Watches PersistentVolumeClaims, PersistentVolumes, StorageClasses, and the Pods that claims wait for. Keys are claims
//! (`namespace/name`) and volumes (`name`). A volume that comes free wakes every claim that has none: one key is worked on at
//! a time, so that two claims do not reach for the same volume.

mod apply;
mod host_path;
mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use pintle_runtime::{Change, Context, Controller, Informer, Key, storage};

use crate::pods;
use apply::Binder;

/// In an index: no name and no key is empty.
const NONE: &str = "";

/// Index of claims: the volume that one names, or none.
fn volume_or_none(claim: &PersistentVolumeClaim) -> Vec<String> {
    vec![storage::volume_name(claim).unwrap_or(NONE).to_owned()]
}

/// Index of volumes: the claim that one names, or none.
fn holder_or_none(volume: &PersistentVolume) -> Vec<String> {
    vec![plan::holder(volume).map_or(NONE.to_owned(), |key| key.to_string())]
}

/// Index of Pods: the claims that one uses.
fn used_claims(pod: &Pod) -> Vec<String> {
    claims_of(pod).iter().map(ToString::to_string).collect()
}

/// Runs until the context's shutdown fires. Directories of this machine are removed only if it is the cluster's node.
pub(crate) async fn run(context: Context, is_node: bool) {
    let (claims, volumes) =
        (context.informers.of::<PersistentVolumeClaim>(), context.informers.of::<PersistentVolume>());
    let (classes, pods) = (context.informers.of::<StorageClass>(), context.informers.of::<Pod>());
    claims.index(volume_or_none);
    volumes.index(holder_or_none);
    pods.index(used_claims);

    let (of_claim, of_volume, of_class, of_pod) = (volumes.clone(), claims.clone(), claims.clone(), claims.clone());
    Controller::new("volumes", &context)
        .workers(1)
        .watch(&claims, move |change| {
            let key = change.key();
            let mut keys = volumes_of(change.object(), &key, &of_claim);
            keys.push(key);
            keys
        })
        .watch(&volumes, move |change| {
            let mut keys = claims_near(change, &of_volume);
            keys.push(change.key());
            keys
        })
        .watch(&classes, move |change| if change.is_resync() { Vec::new() } else { without_volume(&of_class) })
        .watch(&pods, move |change| {
            // What an unbound claim tells people depends on who waits for it.
            let counts = !change.is_resync() && pods::node_name(change.object()).is_empty();
            let waits = |key: &Key| of_pod.get(key).is_some_and(|claim| storage::volume_name(&claim).is_none());
            if counts { claims_of(change.object()).into_iter().filter(waits).collect() } else { Vec::new() }
        })
        .run(Binder::new(&context, is_node, claims, volumes, classes, pods))
        .await;
}

/// Volumes that the claim names, and those that name it.
fn volumes_of(claim: &PersistentVolumeClaim, key: &Key, volumes: &Informer<PersistentVolume>) -> Vec<Key> {
    let holding = volumes.by(holder_or_none, &key.to_string());
    let named = storage::volume_name(claim).map(Key::cluster);
    holding.iter().map(|volume| Key::of(volume.as_ref())).chain(named).collect()
}

/// Claims that the volume names and those that name it; all that have none if it may be had.
fn claims_near(change: &Change<PersistentVolume>, claims: &Informer<PersistentVolumeClaim>) -> Vec<Key> {
    let volume = change.object();
    let naming = claims.by(volume_or_none, change.key().name());
    let mut keys: Vec<Key> = naming.iter().map(|claim| Key::of(claim.as_ref())).collect();
    match plan::holder(volume) {
        Some(holder) => keys.push(holder),
        None if change.is_deleted() || change.is_resync() => {}
        None => keys.extend(without_volume(claims)),
    }
    keys
}

fn without_volume(claims: &Informer<PersistentVolumeClaim>) -> Vec<Key> {
    claims.by(volume_or_none, NONE).iter().map(|claim| Key::of(claim.as_ref())).collect()
}

fn claims_of(pod: &Pod) -> Vec<Key> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| Some(Key::new(namespace, storage::claim_name(pod, volume)?))).collect()
}
