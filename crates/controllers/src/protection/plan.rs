//! When storage may go: it is being deleted, and nothing uses it any more.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use pintle_runtime::{Plan, Write, owner};
use serde_json::json;

use crate::pods;

pub(super) const CLAIM: &str = "kubernetes.io/pvc-protection";
pub(super) const VOLUME: &str = "kubernetes.io/pv-protection";

/// The claims that a Pod uses, those of its ephemeral volumes included.
pub(super) fn claims_of(pod: &Pod) -> impl Iterator<Item = String> {
    let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(move |volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(claim), _) => Some(claim.claim_name.clone()),
        (None, Some(_)) => Some(format!("{pod_name}-{}", volume.name)),
        (None, None) => None,
    })
}

/// Puts the finalizer on a claim in use, and takes it off one that is deleted and that no Pod uses.
pub(super) fn of_claim<'a>(claim: &PersistentVolumeClaim, mut pods: impl Iterator<Item = &'a Pod>) -> Plan {
    let is_used = is_going(&claim.metadata) && pods.any(|pod| uses(pod, claim));
    Plan::of(protect(claim, CLAIM, is_used).into_iter().collect())
}

/// The same for a volume: one that is bound is in use.
pub(super) fn of_volume(volume: &PersistentVolume) -> Plan {
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    Plan::of(protect(volume, VOLUME, phase == Some("Bound")).into_iter().collect())
}

fn protect<K: Resource<DynamicType = ()>>(object: &K, finalizer: &str, is_used: bool) -> Option<Write> {
    let meta = object.meta();
    let mut finalizers = meta.finalizers.clone().unwrap_or_default();
    let is_held = finalizers.iter().any(|name| name == finalizer);
    match (is_going(meta), is_held) {
        (true, true) if !is_used => finalizers.retain(|name| name != finalizer),
        (false, false) => finalizers.push(finalizer.to_owned()),
        _ => return None,
    }
    Some(Write::merge_at_version(object, json!({"metadata": {"finalizers": finalizers}})))
}

/// Whether a Pod may have the claim mounted. One without a node is not started while the claim is going; one that has ended
/// still has its volumes until it is gone.
fn uses(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let mut uses = volumes.map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(mounted), _) => mounted.claim_name == name,
        (None, Some(_)) => {
            let is_its_claim = owner::is_controlled_by(&claim.metadata, pod.metadata.uid.as_deref());
            !is_shut_down(pod) && is_its_claim && claims_of(pod).any(|used| used == name)
        }
        (None, None) => false,
    });
    !pods::node_name(pod).is_empty() && uses.any(|uses| uses)
}

/// The node agent is done with the Pod, or it was deleted by force.
pub(super) fn is_shut_down(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some() && pod.metadata.deletion_grace_period_seconds == Some(0)
}

pub(super) fn is_going(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
}
