//! Gives a Pod the volumes that were chosen with its node, and waits until it has them.
//!
//! The volumes' side of each binding is written here; the loop that binds claims does the rest, and an outside provisioner
//! makes what is asked for. Until then the Pod keeps its place on the node, and nobody else is held up.

use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::{Patch, PatchParams};
use pintle_runtime::{ApiError, Key, Objects, storage};

use crate::cache::Cache;
use crate::pod::PodInfo;
use crate::scheduler::Shared;
use crate::storage::{Choice, reaches};

/// How long a Pod waits for its volumes before another node is looked for.
const PATIENCE: Duration = Duration::from_secs(600);

/// Why a Pod does not have its volumes.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Someone else was faster; what is chosen next is chosen from what there is then.
    Overtaken,
    Said(String),
}

/// A claim that is waited for, and the versions from which on its state counts.
struct Awaited {
    claim: Key,
    uid: Option<String>,
    /// The volume that was given to it, and when; without one the claim was marked with the node, and when.
    volume: Option<String>,
    version: u64,
}

pub(crate) async fn provide(shared: &Shared, pod: &PodInfo, node: &str, choice: &Choice) -> Result<(), Failure> {
    let mut awaited = Vec::new();
    for (volume, claim) in &choice.bindings {
        awaited.push(give(shared, volume, claim).await.map_err(failure)?);
    }
    for claim in &choice.provisions {
        awaited.push(ask(shared, claim, node).await.map_err(failure)?);
    }
    let all_there = async {
        loop {
            let changed = shared.storage_changed.notified();
            tokio::pin!(changed);
            // A change between the look and the wait must not be missed.
            changed.as_mut().enable();
            if are_there(&shared.cache(), pod, node, &awaited)? {
                return Ok(());
            }
            changed.await;
        }
    };
    tokio::select! {
        biased;
        there = all_there => there.map_err(Failure::Said),
        () = shared.context.shutdown.fired() => Err(Failure::Overtaken),
        () = tokio::time::sleep(PATIENCE) => {
            Err(Failure::Said(format!("they are not there after {} s", PATIENCE.as_secs())))
        }
    }
}

fn failure(error: kube::Error) -> Failure {
    if error.is_conflict() || error.is_not_found() { Failure::Overtaken } else { Failure::Said(error.to_string()) }
}

async fn give(
    shared: &Shared,
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
) -> Result<Awaited, kube::Error> {
    let name = volume.metadata.name.clone().unwrap_or_default();
    let version = match storage::reservation(volume, claim) {
        None => 0,
        Some(patch) => {
            let api: Objects<PersistentVolume> = Objects::all(shared.context.client.clone());
            let written = api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
            version(written.metadata.resource_version.as_deref())
        }
    };
    Ok(Awaited { claim: Key::of(claim), uid: claim.metadata.uid.clone(), volume: Some(name), version })
}

async fn ask(shared: &Shared, claim: &PersistentVolumeClaim, node: &str) -> Result<Awaited, kube::Error> {
    let key = Key::of(claim);
    let mut marked = 0;
    if storage::annotation(&claim.metadata, storage::SELECTED_NODE) != Some(node) {
        let mut patch = storage::at_version(&claim.metadata);
        patch["metadata"]["annotations"][storage::SELECTED_NODE] = node.into();
        let api: Objects<PersistentVolumeClaim> = Objects::namespaced(shared.context.client.clone(), key.namespace());
        let written = api.patch(key.name(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        marked = version(written.metadata.resource_version.as_deref());
    }
    Ok(Awaited { claim: key, uid: claim.metadata.uid.clone(), volume: None, version: marked })
}

fn version(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Whether all claims are bound to volumes that the node reaches; an error if they never will be.
fn are_there(cache: &Cache, pod: &PodInfo, node: &str, awaited: &[Awaited]) -> Result<bool, String> {
    if !cache.is_placed(&pod.uid) {
        return Err("the Pod is gone".to_owned());
    }
    let mut all = true;
    for one in awaited {
        all &= is_there(cache, node, one)?;
    }
    Ok(all)
}

fn is_there(cache: &Cache, node: &str, awaited: &Awaited) -> Result<bool, String> {
    let key = &awaited.claim;
    let claim = cache.storage.claims.get(key).filter(|claim| claim.metadata.uid == awaited.uid);
    let claim = claim.ok_or_else(|| format!("persistentvolumeclaim {:?} not found", key.name()))?;
    match &awaited.volume {
        Some(name) => {
            let volume = cache.storage.volumes.get(name);
            let volume = volume.ok_or_else(|| format!("persistentvolume {name:?} not found"))?;
            if version(volume.metadata.resource_version.as_deref()) < awaited.version {
                return Ok(false);
            }
            if !storage::is_held_by(volume, claim) {
                return Err(format!("persistentvolume {name:?} was given to another claim"));
            }
        }
        None => {
            if version(claim.metadata.resource_version.as_deref()) < awaited.version {
                return Ok(false);
            }
            if storage::annotation(&claim.metadata, storage::SELECTED_NODE) != Some(node) {
                return Err(format!("provisioning failed for PVC {:?}", key.name()));
            }
        }
    }
    if !storage::is_fully_bound(claim) {
        return Ok(false);
    }
    let volume = storage::volume_name(claim).and_then(|name| cache.storage.volumes.get(name));
    match (volume, cache.node(node)) {
        (Some(volume), Some(info)) if reaches(volume, info) => Ok(true),
        (Some(volume), Some(_)) => {
            let name = volume.metadata.name.as_deref().unwrap_or_default();
            Err(format!("pv {name:?} node affinity doesn't match node {node:?}"))
        }
        // Not seen yet.
        (None, _) => Ok(false),
        (_, None) => Err(format!("node {node:?} not found")),
    }
}
