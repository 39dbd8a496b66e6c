//! When storage may go: it is being deleted, and nothing uses it any more.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::pods;

pub(super) const CLAIM: &str = "kubernetes.io/pvc-protection";
pub(super) const VOLUME: &str = "kubernetes.io/pv-protection";

/// The claims that a Pod mounts.
pub(super) fn claims_of(pod: &Pod) -> impl Iterator<Item = &str> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref().map(|claim| claim.claim_name.as_str()))
}

pub(super) fn claim_may_go<'a>(claim: &PersistentVolumeClaim, mut in_namespace: impl Iterator<Item = &'a Pod>) -> bool {
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    is_held(&claim.metadata, CLAIM)
        && !in_namespace.any(|pod| !pods::is_terminal(pod) && claims_of(pod).any(|used| used == name))
}

pub(super) fn volume_may_go(volume: &PersistentVolume) -> bool {
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    is_held(&volume.metadata, VOLUME) && phase != Some("Bound")
}

/// Being deleted, and kept by this finalizer.
fn is_held(metadata: &ObjectMeta, finalizer: &str) -> bool {
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    metadata.deletion_timestamp.is_some() && finalizers.iter().any(|name| name == finalizer)
}
