//! A volume that a claim holds: a directory of this machine, by its path or as a local volume.

use k8s_openapi::api::core::v1::Volume;

use super::{Content, Sources, Wanted};
use crate::make::Facts;

/// The claim that a volume names, or that was made for it.
pub(super) fn name_of(facts: &Facts<'_>, volume: &Volume) -> Option<String> {
    let made = || volume.ephemeral.as_ref().map(|_| format!("{}-{}", facts.name(), volume.name));
    volume.persistent_volume_claim.as_ref().map(|source| source.claim_name.clone()).or_else(made)
}

pub(super) fn wanted(
    volume: &Volume,
    claim_name: &str,
    facts: &Facts<'_>,
    sources: &Sources,
) -> Result<Wanted, String> {
    let context = |message: String| format!("error processing PVC {}/{claim_name}: {message}", facts.namespace());
    let claim =
        sources.claim(claim_name).map_err(|error| context(format!("failed to fetch PVC from API server: {error}")))?;
    if volume.ephemeral.is_some() {
        let owners = claim.metadata.owner_references.iter().flatten();
        if !owners.into_iter().any(|owner| owner.uid == facts.uid()) {
            return Err(context("the PVC was not created for the pod".to_owned()));
        }
    }
    if claim.metadata.deletion_timestamp.is_some() {
        return Err(context("can't start pod because PVC is being deleted".to_owned()));
    }
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    let bound = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
    if phase != Some("Bound") || bound.is_empty() {
        return Err(context("PVC is not bound".to_owned()));
    }
    let held = sources.bound_volume(claim_name).map_err(context)?;
    let spec = held.spec.as_ref();
    let holder = spec.and_then(|spec| spec.claim_ref.as_ref()).and_then(|holder| holder.uid.as_deref());
    if holder.is_none() || holder != claim.metadata.uid.as_deref() {
        return Err(context(format!("the persistent volume {bound:?} is not bound to this claim")));
    }
    if spec.and_then(|spec| spec.volume_mode.as_deref()) == Some("Block") {
        return Err(context(format!(
            "the persistent volume {bound:?} is a block device, which this node cannot mount"
        )));
    }
    let wanted = match spec.map(|spec| (&spec.host_path, &spec.local)) {
        Some((Some(source), _)) => super::host_path::wanted(&volume.name, source),
        Some((_, Some(local))) => {
            let content = Content::Bind { source: local.path.clone().into() };
            Wanted { volume: volume.name.clone(), ..Wanted::new("local-volume", bound, content) }
        }
        _ => {
            return Err(context(format!(
                "the persistent volume {bound:?} is of a kind that this node cannot mount; it can mount hostPath and local"
            )));
        }
    };
    let read_only = volume.persistent_volume_claim.as_ref().and_then(|source| source.read_only) == Some(true);
    Ok(if read_only { wanted.read_only() } else { wanted })
}
