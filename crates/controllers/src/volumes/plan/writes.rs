//! The patches that a binding is made of; each is nothing if all is as it should be.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use pintle_runtime::storage;
use serde_json::{Value, json};

/// How large the volume was before its file system has grown into it.
const PRE_RESIZE: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";

/// The claim's side of a binding.
pub(in super::super) fn completion(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<Value> {
    let mut patch = storage::at_version(&claim.metadata);
    let says = |name: &str| storage::annotation(&claim.metadata, name).is_some();
    let chosen = storage::volume_name(claim) != volume.metadata.name.as_deref();
    if chosen {
        patch["spec"]["volumeName"] = json!(volume.metadata.name);
        if !says(storage::BOUND_BY_CONTROLLER) {
            patch["metadata"]["annotations"][storage::BOUND_BY_CONTROLLER] = "yes".into();
        }
    }
    if !says(storage::BIND_COMPLETED) {
        patch["metadata"]["annotations"][storage::BIND_COMPLETED] = "yes".into();
    }
    (chosen || !says(storage::BIND_COMPLETED)).then_some(patch)
}

/// The status of a claim that has its volume. Its size is taken over once: later it grows by other hands.
pub(in super::super) fn bound_status(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<Value> {
    let old = claim.status.clone().unwrap_or_default();
    let spec = volume.spec.as_ref()?;
    let mut status = json!({});
    if old.access_modes != spec.access_modes {
        status["accessModes"] = json!(spec.access_modes);
    }
    if old.phase.as_deref() != Some("Bound") {
        status["phase"] = "Bound".into();
        status["capacity"] = match storage::annotation(&volume.metadata, PRE_RESIZE) {
            Some(before) => json!({"storage": before}),
            None => json!(spec.capacity),
        };
        if old.current_volume_attributes_class_name != spec.volume_attributes_class_name {
            status["currentVolumeAttributesClassName"] = json!(spec.volume_attributes_class_name);
        }
    }
    changed(claim, status)
}

/// The status of a claim that has no volume, or none any more.
pub(in super::super) fn unbound_status(claim: &PersistentVolumeClaim, phase: &str) -> Option<Value> {
    let old = claim.status.clone().unwrap_or_default();
    let mut status = json!({});
    if old.phase.as_deref() != Some(phase) {
        status["phase"] = phase.into();
    }
    if old.access_modes.is_some() {
        status["accessModes"] = Value::Null;
    }
    if old.capacity.is_some() {
        status["capacity"] = Value::Null;
    }
    if old.current_volume_attributes_class_name.is_some() {
        status["currentVolumeAttributesClassName"] = Value::Null;
    }
    changed(claim, status)
}

fn changed(claim: &PersistentVolumeClaim, status: Value) -> Option<Value> {
    let is_empty = status.as_object().is_some_and(serde_json::Map::is_empty);
    (!is_empty).then(|| {
        let mut patch = storage::at_version(&claim.metadata);
        patch["status"] = status;
        patch
    })
}

/// Names who is to make a volume for the claim.
pub(in super::super) fn provisioner(claim: &PersistentVolumeClaim, name: &str) -> Option<Value> {
    if storage::annotation(&claim.metadata, storage::PROVISIONER) == Some(name) {
        return None;
    }
    let mut patch = storage::at_version(&claim.metadata);
    patch["metadata"]["annotations"] = json!({storage::PROVISIONER: name, storage::BETA_PROVISIONER: name});
    Some(patch)
}

/// Takes back what a loop chose; what a person reserved stays reserved by name.
pub(in super::super) fn unbinding(volume: &PersistentVolume) -> Value {
    let mut patch = storage::at_version(&volume.metadata);
    if storage::annotation(&volume.metadata, storage::BOUND_BY_CONTROLLER).is_some() {
        patch["metadata"]["annotations"] = json!({storage::BOUND_BY_CONTROLLER: null});
        patch["spec"] = json!({"claimRef": null});
    } else {
        patch["spec"] = json!({"claimRef": {"uid": null}});
    }
    patch
}
