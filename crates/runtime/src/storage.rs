//! Claims and the volumes that fit them: what the loop that binds them and a scheduler must agree on.
//!
//! A binding points both ways. The volume's `claimRef` is written first: the writer that succeeds at the version that was read has
//! the volume, and nobody else. The claim's `volumeName` follows.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Volume};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pintle_meta::quantity::Quantity;
use serde_json::{Value, json};

use crate::owner;

/// On a claim: both sides of its binding have been written once.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// On a claim or a volume: a loop chose the other side, so a loop may undo it.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// On a claim: the node that its first Pod goes to.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// On a claim: who is to make a volume for it.
pub const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// The same, as it was called before.
pub const BETA_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
/// On a volume: who made it.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The provisioner of classes whose volumes are made by people.
pub const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The class of a claim or a volume, as it was said before it was a field.
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

pub fn annotation<'a>(meta: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(name).map(String::as_str)
}

/// Nothing if the claim leaves the class to the cluster; an empty one wants a volume without a class.
pub fn said_class(claim: &PersistentVolumeClaim) -> Option<&str> {
    let field = || claim.spec.as_ref()?.storage_class_name.as_deref();
    annotation(&claim.metadata, BETA_CLASS).or_else(field)
}

pub fn class_of_claim(claim: &PersistentVolumeClaim) -> &str {
    said_class(claim).unwrap_or_default()
}

pub fn class_of_volume(volume: &PersistentVolume) -> &str {
    let field = || volume.spec.as_ref()?.storage_class_name.as_deref();
    annotation(&volume.metadata, BETA_CLASS).or_else(field).unwrap_or_default()
}

/// Whether claims of this class are bound only when a Pod that uses them has a node.
pub fn waits_for_consumer(class: &StorageClass) -> bool {
    class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
}

/// The volume that the claim names, if it names one.
pub fn volume_name(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.volume_name.as_deref().filter(|name| !name.is_empty())
}

/// Whether a Pod can use the claim: both sides have been written.
pub fn is_fully_bound(claim: &PersistentVolumeClaim) -> bool {
    volume_name(claim).is_some() && annotation(&claim.metadata, BIND_COMPLETED).is_some()
}

/// Whether a volume is bound to the claim or reserved for it. A reservation by name alone holds for any claim of the name.
pub fn is_held_by(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let Some(holder) = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) else { return false };
    let uid = holder.uid.as_deref().unwrap_or_default();
    holder.name == claim.metadata.name
        && holder.namespace == claim.metadata.namespace
        && (uid.is_empty() || claim.metadata.uid.as_deref() == Some(uid))
}

/// The claim that a volume of a Pod stands for: the one it names, or the one made for it.
pub fn claim_name(pod: &Pod, volume: &Volume) -> Option<String> {
    let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
    let made = || volume.ephemeral.as_ref().map(|_| format!("{pod_name}-{}", volume.name));
    volume.persistent_volume_claim.as_ref().map(|source| source.claim_name.clone()).or_else(made)
}

/// The volume that is held for the claim and serves it.
pub fn held<'a>(
    claim: &PersistentVolumeClaim,
    volumes: impl IntoIterator<Item = &'a PersistentVolume>,
) -> Option<&'a PersistentVolume> {
    volumes.into_iter().find(|volume| is_held_by(volume, claim) && serves(volume, claim))
}

/// The free volume that wastes least: with the fewest ways of access beside those asked for, then the smallest.
pub fn smallest<'a>(
    claim: &PersistentVolumeClaim,
    volumes: impl IntoIterator<Item = &'a PersistentVolume>,
) -> Option<&'a PersistentVolume> {
    let selector = claim.spec.as_ref().and_then(|spec| spec.selector.as_ref()).map(owner::parse_selector);
    let selector = selector.transpose().ok()?;
    let fits = |volume: &&PersistentVolume| {
        is_free(volume)
            && serves(volume, claim)
            && class_of_volume(volume) == class_of_claim(claim)
            && selector.as_ref().is_none_or(|selector| owner::matches(selector, &volume.metadata))
    };
    let order = |volume: &PersistentVolume| (access_modes(volume).len(), capacity(volume));
    volumes.into_iter().filter(fits).min_by(|a, b| {
        let ((a_modes, a_size), (b_modes, b_size)) = (order(a), order(b));
        let by_size = a_size.partial_cmp(&b_size).unwrap_or(std::cmp::Ordering::Equal);
        a_modes.cmp(&b_modes).then(by_size).then_with(|| a.metadata.name.cmp(&b.metadata.name))
    })
}

/// Nobody's, and not about to go.
fn is_free(volume: &PersistentVolume) -> bool {
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    phase == Some("Available") && volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_none())
}

/// Whether the volume is what the claim asks for, its class and labels aside: a person may reserve across those.
fn serves(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    is_large_enough(volume, claim)
        && same_mode(volume, claim)
        && same_attributes(volume, claim)
        && allows_access(volume, claim)
        && volume.metadata.deletion_timestamp.is_none()
}

/// Why a claim cannot have the very volume that it names.
pub fn mismatch(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<String> {
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    if volume.metadata.deletion_timestamp.is_some() {
        Some(format!("the volume is marked for deletion {name:?}"))
    } else if !is_large_enough(volume, claim) {
        Some("requested PV is too small".to_owned())
    } else if class_of_volume(volume) != class_of_claim(claim) {
        Some("storageClassName does not match".to_owned())
    } else if !same_attributes(volume, claim) {
        Some("volumeAttributesClassName does not match".to_owned())
    } else if !same_mode(volume, claim) {
        Some("incompatible volumeMode".to_owned())
    } else if !allows_access(volume, claim) {
        Some("incompatible accessMode".to_owned())
    } else {
        None
    }
}

fn is_large_enough(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let nothing = || Quantity::from_units(0);
    capacity(volume).unwrap_or_else(nothing) >= requested(claim).unwrap_or_else(nothing)
}

/// How much a claim asks for.
pub fn requested(claim: &PersistentVolumeClaim) -> Option<Quantity> {
    let requests = claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?;
    Quantity::parse(&requests.get("storage")?.0).ok()
}

fn capacity(volume: &PersistentVolume) -> Option<Quantity> {
    Quantity::parse(&volume.spec.as_ref()?.capacity.as_ref()?.get("storage")?.0).ok()
}

fn access_modes(volume: &PersistentVolume) -> &[String] {
    volume.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default()
}

/// Files or a bare device.
pub fn same_mode(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let mode = |mode: Option<&String>| mode.cloned().unwrap_or_else(|| "Filesystem".to_owned());
    mode(volume.spec.as_ref().and_then(|spec| spec.volume_mode.as_ref()))
        == mode(claim.spec.as_ref().and_then(|spec| spec.volume_mode.as_ref()))
}

fn same_attributes(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let of_volume = volume.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_deref());
    let of_claim = claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_deref());
    of_volume.unwrap_or_default() == of_claim.unwrap_or_default()
}

fn allows_access(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let asked = claim.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default();
    asked.iter().all(|mode| access_modes(volume).contains(mode))
}

/// A merge patch that gives the volume to the claim, at the version that was read; nothing if it has it already.
pub fn reservation(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<Value> {
    let held = is_held_by(volume, claim);
    let holder = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    let marked = held || annotation(&volume.metadata, BOUND_BY_CONTROLLER).is_some();
    if held && holder.is_some_and(|holder| holder.uid == claim.metadata.uid) {
        return None;
    }
    let mut patch = at_version(&volume.metadata);
    patch["spec"]["claimRef"] = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.metadata.namespace,
        "name": claim.metadata.name, "uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version,
    });
    if !marked {
        patch["metadata"]["annotations"][BOUND_BY_CONTROLLER] = "yes".into();
    }
    Some(patch)
}

/// The beginning of a merge patch that is refused if anyone has written in between.
pub fn at_version(meta: &ObjectMeta) -> Value {
    json!({"metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid}})
}

#[cfg(test)]
#[path = "storage_tests.rs"]
mod tests;
