//! What is to become of a volume.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use pintle_runtime::{Key, storage};

use super::Note;

#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum VolumeVerdict {
    /// All is well, if it says so.
    Phase(&'static str),
    /// Its claim is gone, or never needed it: what it holds is nobody's.
    Release,
    /// Its claim has another.
    Unbind,
    /// Its claim is next; if it cannot be, the volume and the claim are told why.
    Await(Option<[Note; 2]>),
}

/// The claim that a volume names.
pub(in super::super) fn holder(volume: &PersistentVolume) -> Option<Key> {
    let holder = volume.spec.as_ref()?.claim_ref.as_ref()?;
    Some(Key::new(holder.namespace.as_deref()?, holder.name.as_deref()?))
}

pub(in super::super) fn phase(volume: &PersistentVolume) -> &str {
    volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// `claim` is the one of the name that the volume holds, if there is one.
pub(in super::super) fn judge_volume(
    volume: &PersistentVolume,
    claim: Option<&PersistentVolumeClaim>,
) -> VolumeVerdict {
    let holder = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    let uid = holder.and_then(|holder| holder.uid.as_deref()).unwrap_or_default();
    if uid.is_empty() {
        return VolumeVerdict::Phase("Available");
    }
    let Some(claim) = claim.filter(|claim| claim.metadata.uid.as_deref() == Some(uid)) else {
        return VolumeVerdict::Release;
    };
    match storage::volume_name(claim) {
        None if storage::same_mode(volume, claim) => VolumeVerdict::Await(None),
        None => VolumeVerdict::Await(Some(mismatch(volume, claim))),
        Some(name) if volume.metadata.name.as_deref() == Some(name) => VolumeVerdict::Phase("Bound"),
        // It was made for this claim, which found another in the meantime.
        Some(_) if was_provisioned(volume) && deletes(volume) => VolumeVerdict::Release,
        Some(_) => VolumeVerdict::Unbind,
    }
}

fn was_provisioned(volume: &PersistentVolume) -> bool {
    storage::annotation(&volume.metadata, storage::PROVISIONED_BY).is_some()
}

fn deletes(volume: &PersistentVolume) -> bool {
    let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    policy == Some("Delete")
}

fn mismatch(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> [Note; 2] {
    let (volume, claim) = (volume.metadata.name.as_deref(), claim.metadata.name.as_deref());
    let (volume, claim) = (volume.unwrap_or_default(), claim.unwrap_or_default());
    let why = "due to incompatible volumeMode.";
    [
        format!("Cannot bind PersistentVolume to requested PersistentVolumeClaim {claim:?} {why}"),
        format!("Cannot bind PersistentVolume {volume:?} to requested PersistentVolumeClaim {why}"),
    ]
    .map(|message| Note::warning("VolumeMismatch", message))
}
