//! What is to become of a claim.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use pintle_runtime::storage;

use super::Note;

const DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// What a claim is judged by.
pub(in super::super) struct Around<'a> {
    pub(in super::super) volumes: &'a [Arc<PersistentVolume>],
    pub(in super::super) classes: &'a [Arc<StorageClass>],
    /// Names of Pods that use the claim and have no node.
    pub(in super::super) waiting: &'a [String],
}

#[derive(Debug, PartialEq)]
pub(in super::super) enum ClaimVerdict<'a> {
    /// Write both sides, as far as they are not written.
    Bind(&'a PersistentVolume),
    /// It gets the cluster's default class, and is looked at again.
    Classify(String),
    /// Someone outside is asked for a volume.
    Provision(String),
    Wait(Option<Note>),
    /// It was bound, and is not any more.
    Lost(Note),
}

pub(in super::super) fn judge_claim<'a>(claim: &PersistentVolumeClaim, around: &Around<'a>) -> ClaimVerdict<'a> {
    let was_bound = storage::annotation(&claim.metadata, storage::BIND_COMPLETED).is_some();
    let named = |name: &str| around.volumes.iter().find(|volume| volume.metadata.name.as_deref() == Some(name));
    match (storage::volume_name(claim), was_bound) {
        (None, true) => {
            lost("ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
        }
        (Some(name), true) => match named(name) {
            None => lost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!"),
            Some(volume) => judge_bound(claim, volume),
        },
        (Some(name), false) => named(name).map_or(ClaimVerdict::Wait(None), |volume| judge_named(claim, volume)),
        (None, false) => judge_unbound(claim, around),
    }
}

fn lost<'a>(reason: &'static str, message: &str) -> ClaimVerdict<'a> {
    ClaimVerdict::Lost(Note::warning(reason, message))
}

fn judge_bound<'a>(claim: &PersistentVolumeClaim, volume: &'a PersistentVolume) -> ClaimVerdict<'a> {
    let holder = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    // A volume that names nobody was either robbed of its claim or is not yet seen as it was written: both are mended alike.
    if holder.is_none_or(|holder| holder.uid == claim.metadata.uid) {
        return ClaimVerdict::Bind(volume);
    }
    lost("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
}

/// A person wants this very volume.
fn judge_named<'a>(claim: &PersistentVolumeClaim, volume: &'a PersistentVolume) -> ClaimVerdict<'a> {
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    if volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_none()) {
        return match storage::mismatch(volume, claim) {
            None => ClaimVerdict::Bind(volume),
            Some(why) => {
                let message = format!("Cannot bind to requested volume {name:?}: {why}");
                ClaimVerdict::Wait(Some(Note::warning("VolumeMismatch", message)))
            }
        };
    }
    if storage::is_held_by(volume, claim) {
        return ClaimVerdict::Bind(volume);
    }
    let message = format!("volume {name:?} already bound to a different claim.");
    ClaimVerdict::Wait(Some(Note::warning("FailedBinding", message)))
}

fn judge_unbound<'a>(claim: &PersistentVolumeClaim, around: &Around<'a>) -> ClaimVerdict<'a> {
    let name = storage::class_of_claim(claim);
    let class = around.classes.iter().find(|class| class.metadata.name.as_deref() == Some(name));
    let delayed = class.is_some_and(|class| storage::waits_for_consumer(class));
    let volumes = || around.volumes.iter().map(AsRef::as_ref);
    // Where the first Pod goes decides over the volume; one that is held already was chosen with it.
    let free = || if delayed { None } else { storage::smallest(claim, volumes()) };
    if let Some(volume) = storage::held(claim, volumes()).or_else(free) {
        return ClaimVerdict::Bind(volume);
    }
    if let (None, Some(default)) = (storage::said_class(claim), default_class(around.classes)) {
        return ClaimVerdict::Classify(default.to_owned());
    }
    if delayed && storage::annotation(&claim.metadata, storage::SELECTED_NODE).is_none() {
        return ClaimVerdict::Wait(Some(awaited(around.waiting)));
    }
    if name.is_empty() {
        let message = "no persistent volumes available for this claim and no storage class is set";
        return ClaimVerdict::Wait(Some(Note::normal("FailedBinding", message)));
    }
    match class.map(|class| class.provisioner.as_str()) {
        None => failed(format!("storageclass.storage.k8s.io {name:?} not found")),
        // Such names are those of plugins inside the control plane, and there are none.
        Some(inside) if inside.starts_with("kubernetes.io/") => {
            failed(format!("no volume plugin matched name: {inside}"))
        }
        Some(outside) => ClaimVerdict::Provision(outside.to_owned()),
    }
}

fn failed<'a>(message: String) -> ClaimVerdict<'a> {
    ClaimVerdict::Wait(Some(Note::warning("ProvisioningFailed", message)))
}

/// Whom a claim waits for.
fn awaited(pods: &[String]) -> Note {
    match pods {
        [] => Note::normal("WaitForFirstConsumer", "waiting for first consumer to be created before binding"),
        [pod] => Note::normal("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled")),
        pods => Note::normal("WaitForPodScheduled", format!("waiting for pods {} to be scheduled", pods.join(","))),
    }
}

/// The newest of those that say so, and of two the first by name.
fn default_class(classes: &[Arc<StorageClass>]) -> Option<&str> {
    let says_so = |class: &&Arc<StorageClass>| {
        DEFAULT.iter().any(|name| storage::annotation(&class.metadata, name) == Some("true"))
    };
    let created = |class: &StorageClass| class.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let newest = classes
        .iter()
        .filter(says_so)
        .max_by(|a, b| created(a).cmp(&created(b)).then_with(|| b.metadata.name.cmp(&a.metadata.name)));
    newest?.metadata.name.as_deref()
}
