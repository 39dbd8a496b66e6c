//! What is to be done with what is on a volume whose claim is gone.

use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::PersistentVolume;
use pintle_runtime::storage;

use super::Note;

#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum Reclaim {
    /// A person decides.
    Keep,
    /// Whoever made it takes it away.
    LeaveToMaker,
    /// Removes a directory of this machine, then the volume.
    Remove(PathBuf),
    Fail(Note),
}

pub(in super::super) fn reclaim(volume: &PersistentVolume) -> Reclaim {
    let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    match policy {
        None | Some("Retain") => Reclaim::Keep,
        Some("Delete") => delete(volume),
        Some("Recycle") => {
            Reclaim::Fail(Note::warning("VolumeFailedRecycle", "No recycler plugin found for the volume!"))
        }
        Some(_) => {
            let message = "Volume has unrecognized PersistentVolumeReclaimPolicy";
            Reclaim::Fail(Note::warning("VolumeUnknownReclaimPolicy", message))
        }
    }
}

fn delete(volume: &PersistentVolume) -> Reclaim {
    let maker = storage::annotation(&volume.metadata, storage::PROVISIONED_BY).unwrap_or_default();
    let Some(spec) = &volume.spec else { return Reclaim::Keep };
    if spec.csi.is_some() || (!maker.is_empty() && !maker.starts_with("kubernetes.io/")) {
        return Reclaim::LeaveToMaker;
    }
    let failed = |message: String| Reclaim::Fail(Note::warning("VolumeFailedDelete", message));
    match &spec.host_path {
        Some(source) if is_disposable(Path::new(&source.path)) => Reclaim::Remove(source.path.clone().into()),
        Some(source) => {
            failed(format!("host_path deleter only supports /tmp/.+ but received provided {}", source.path))
        }
        None => {
            let name = volume.metadata.name.as_deref().unwrap_or_default();
            failed(format!(
                "error getting deleter volume plugin for volume {name:?}: no deletable volume plugin matched"
            ))
        }
    }
}

/// A directory of a machine is removed only where nothing is kept, and whatever its path says, nowhere else.
fn is_disposable(path: &Path) -> bool {
    path.parent().is_some_and(|parent| parent.starts_with("/tmp"))
        && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}
