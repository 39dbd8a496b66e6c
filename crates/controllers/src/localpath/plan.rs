//! Which claims get a volume, what that volume is, and when it goes.

use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;
use pintle_meta::quantity::Quantity;
use pintle_runtime::plan::Note;
use pintle_runtime::{Key, Plan, Write, storage};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::LocalVolumes;

pub(super) const AGENT: &str = "local-path-provisioner";

/// The provisioner of classes whose volumes are made here.
pub(super) const PROVISIONER: &str = "pintle.dev/local-path";

/// The class that the cluster has by default.
const CLASS: &str = "local-path";
const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

/// On a volume: its directory has not been dealt with.
const FINALIZER: &str = "pintle.dev/local-path";

const HOSTNAME: &str = "kubernetes.io/hostname";

/// What volumes of simulated nodes say of where they are.
const NOWHERE: &str = "/var/lib/pintle/volumes";

/// What can be had on one machine.
const ACCESS_MODES: [&str; 2] = ["ReadWriteOnce", "ReadWriteOncePod"];

/// Puts the class in place, for volumes of this host alone if one is named. It is the default one unless there is one; who
/// changed it later has the last word, but for the host, without which no Pod with such a claim would find its node.
pub(super) fn class(all: &[Arc<StorageClass>], hostname: Option<String>) -> Plan {
    let present = all.iter().find(|class| class.name_any() == CLASS);
    let topologies =
        hostname.map(|hostname| json!([{"matchLabelExpressions": [{"key": HOSTNAME, "values": [hostname]}]}]));
    let mut writes = Vec::new();
    if let Some(present) = present {
        let said = serde_json::to_value(&present.allowed_topologies).unwrap_or_default();
        if present.provisioner != PROVISIONER || said == topologies.clone().unwrap_or_default() {
            return Plan::default();
        }
        // Where volumes are cannot be changed in a class.
        writes.push(Write::delete(present.as_ref()));
    }
    let is_default = |class: &&Arc<StorageClass>| storage::annotation(&class.metadata, IS_DEFAULT) == Some("true");
    let is_default = match present {
        Some(present) => is_default(&present),
        None => !all.iter().any(|class| is_default(&class)),
    };
    let class: Option<StorageClass> = made(json!({
        "metadata": {"name": CLASS, "annotations": {IS_DEFAULT: is_default.to_string()}},
        "provisioner": PROVISIONER, "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": true, "allowedTopologies": topologies}));
    writes.extend(class.map(|class| Write::create(&class).unless_there()));
    Plan::of(writes)
}

pub(super) fn hostname(node: &Node) -> String {
    node.labels().get(HOSTNAME).cloned().unwrap_or_else(|| node.name_any())
}

/// What a claim is judged by.
pub(super) struct Around<'a> {
    pub(super) place: &'a LocalVolumes,
    pub(super) class: Option<&'a StorageClass>,
    /// The volume that the claim names.
    pub(super) volume: Option<&'a PersistentVolume>,
    pub(super) nodes: &'a [Arc<Node>],
}

#[derive(Debug)]
pub(super) enum ClaimStep {
    Nothing,
    Do(Plan),
    /// Makes the directory of this volume first.
    Make {
        name: String,
        plan: Plan,
    },
}

pub(super) fn claim(claim: &PersistentVolumeClaim, around: &Around<'_>) -> ClaimStep {
    if claim.metadata.deletion_timestamp.is_some() {
        return ClaimStep::Nothing;
    }
    if storage::volume_name(claim).is_some() {
        return around.volume.map_or(ClaimStep::Nothing, |volume| expand(claim, volume));
    }
    let asked = storage::annotation(&claim.metadata, storage::PROVISIONER) == Some(PROVISIONER);
    let class = around.class.filter(|class| asked && class.provisioner == PROVISIONER);
    let Some(class) = class else { return ClaimStep::Nothing };
    let selected = storage::annotation(&claim.metadata, storage::SELECTED_NODE);
    if storage::waits_for_consumer(class) && selected.is_none() {
        return ClaimStep::Nothing;
    }
    let node = match node(around, selected) {
        Some(Ok(node)) => node,
        Some(Err(why)) => return ClaimStep::Do(Plan::telling(not_made(claim, &why))),
        // It is not seen yet, or gone: the scheduler chooses another.
        None => return ClaimStep::Nothing,
    };
    if let Some(why) = unsupported(claim) {
        return ClaimStep::Do(Plan::telling(not_made(claim, &why)));
    }
    let name = format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default());
    let Some(volume) = volume_for(claim, class, &name, &path(around.place, &name), &hostname(node)) else {
        return ClaimStep::Nothing;
    };
    let create = Write::create(&volume)
        .unless_there()
        .saying("ProvisioningSucceeded", format!("Successfully provisioned volume {name}"))
        .warning("ProvisioningFailed", "the volume cannot be saved: {error}");
    // A claim that is gone must not get one: nobody would ever remove it.
    ClaimStep::Make { name, plan: Plan::of(vec![Write::still_there(claim), create]) }
}

/// Where the volume is to be; an error if volumes cannot be there.
fn node<'a>(around: &Around<'a>, selected: Option<&str>) -> Option<Result<&'a Node, String>> {
    let named = |name: &str| around.nodes.iter().find(|node| node.name_any() == name).map(|node| Ok(node.as_ref()));
    match (around.place, selected) {
        (LocalVolumes::Below { node, .. }, Some(selected)) if node != selected => {
            Some(Err(format!("volumes are made on node {node:?} alone, and the Pod goes to {selected:?}")))
        }
        (LocalVolumes::Below { node, .. }, _) => named(node),
        (LocalVolumes::Simulated, Some(selected)) => named(selected),
        (LocalVolumes::Simulated, None) => {
            around.nodes.iter().min_by_key(|node| node.name_any()).map(|node| Ok(node.as_ref()))
        }
    }
}

/// Why a directory cannot be what is asked for.
fn unsupported(claim: &PersistentVolumeClaim) -> Option<String> {
    let spec = claim.spec.as_ref()?;
    if spec.volume_mode.as_deref() == Some("Block") {
        return Some("a directory is no block device".to_owned());
    }
    let data_source = spec.data_source.is_some() || spec.data_source_ref.is_some();
    if data_source {
        return Some("volumes cannot be filled from snapshots or other claims".to_owned());
    }
    if spec.selector.is_some() {
        return Some("claim.spec.selector is not supported".to_owned());
    }
    let mut modes = spec.access_modes.iter().flatten();
    let other = modes.find(|mode| !ACCESS_MODES.contains(&mode.as_str()))?;
    Some(format!("a directory of one node supports {} alone, not {other}", ACCESS_MODES.join(" and ")))
}

fn path(place: &LocalVolumes, name: &str) -> String {
    let directory = match place {
        LocalVolumes::Simulated => PathBuf::from(NOWHERE),
        LocalVolumes::Below { directory, .. } => directory.clone(),
    };
    directory.join(name).display().to_string()
}

fn volume_for(
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    name: &str,
    path: &str,
    hostname: &str,
) -> Option<PersistentVolume> {
    let spec = claim.spec.as_ref()?;
    let term = json!([{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [hostname]}]}]);
    let metadata = &claim.metadata;
    made(json!({
        "metadata": {"name": name, "annotations": {storage::PROVISIONED_BY: PROVISIONER}, "finalizers": [FINALIZER]},
        "spec": {
            "capacity": spec.resources.as_ref().and_then(|resources| resources.requests.clone()),
            "accessModes": spec.access_modes,
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": metadata.namespace,
                "name": metadata.name, "uid": metadata.uid},
            "persistentVolumeReclaimPolicy": class.reclaim_policy.as_deref().unwrap_or("Delete"),
            "storageClassName": class.name_any(), "volumeMode": "Filesystem", "local": {"path": path},
            "nodeAffinity": {"required": {"nodeSelectorTerms": term}}}}))
}

/// A directory is as large as its disk: a claim that asks for more has it as soon as both sides say so.
fn expand(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> ClaimStep {
    let capacity = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref()?.get("storage"));
    let capacity = capacity.and_then(|capacity| Quantity::parse(&capacity.0).ok());
    let (Some(wanted), Some(capacity)) = (storage::requested(claim), capacity) else { return ClaimStep::Nothing };
    if !is_ours(volume) || !storage::is_held_by(volume, claim) || !storage::is_fully_bound(claim) {
        return ClaimStep::Nothing;
    }
    let told = claim.status.as_ref().and_then(|status| status.capacity.as_ref()?.get("storage"));
    let told = told.and_then(|told| Quantity::parse(&told.0).ok());
    let (size, mut writes) = (wanted.to_string(), Vec::new());
    if wanted > capacity {
        writes.push(Write::merge_at_version(volume, json!({"spec": {"capacity": {"storage": size}}})));
    }
    if wanted > capacity || told.is_some_and(|told| told < wanted) {
        let status = json!({"status": {"capacity": {"storage": size}}});
        let told = Write::merge_at_version(claim, status).of("status");
        writes.push(told.saying("VolumeResizeSuccessful", "Resize volume succeeded"));
    }
    if writes.is_empty() { ClaimStep::Nothing } else { ClaimStep::Do(Plan::of(writes)) }
}

#[derive(Debug)]
pub(super) enum VolumeStep {
    Nothing,
    Do(Plan),
    /// Removes the directory of this volume first.
    Remove {
        name: String,
        plan: Plan,
    },
}

pub(super) fn volume(volume: &PersistentVolume, place: &LocalVolumes) -> VolumeStep {
    let finalizers = volume.metadata.finalizers.as_deref().unwrap_or_default();
    let is_held = finalizers.iter().any(|finalizer| finalizer == FINALIZER);
    let is_going = volume.metadata.deletion_timestamp.is_some();
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    let is_kept = policy != Some("Delete");
    // While it is bound a Pod may use it; `protection` keeps it until then.
    if !is_ours(volume) || phase == "Bound" {
        return VolumeStep::Nothing;
    }
    let name = volume.name_any();
    let then = match (is_going, is_held) {
        (true, true) => {
            let left: Vec<&String> = finalizers.iter().filter(|finalizer| *finalizer != FINALIZER).collect();
            Plan::of(vec![Write::merge_at_version(volume, json!({"metadata": {"finalizers": left}}))])
        }
        (false, _) if phase == "Released" && !is_kept => Plan::of(vec![Write::delete(volume)]),
        _ => return VolumeStep::Nothing,
    };
    if is_kept {
        return VolumeStep::Do(then);
    }
    let said = volume.spec.as_ref().and_then(|spec| Some(spec.local.as_ref()?.path.as_str())).unwrap_or_default();
    if said != path(place, &name) || !is_plain_name(&name) {
        let message = format!("the volume says that it is at {said:?}, where this loop makes none: nothing is removed");
        return VolumeStep::Do(Plan::telling(Note::warning("VolumeFailedDelete", message)));
    }
    VolumeStep::Remove { name, plan: then }
}

fn is_ours(volume: &PersistentVolume) -> bool {
    storage::annotation(&volume.metadata, storage::PROVISIONED_BY) == Some(PROVISIONER)
}

/// The claim that a volume is for.
pub(super) fn claim_of(volume: &PersistentVolume) -> Option<Key> {
    let holder = volume.spec.as_ref()?.claim_ref.as_ref()?;
    Some(Key::new(holder.namespace.clone()?, holder.name.clone()?))
}

/// A volume's name that leads nowhere else as a part of a path.
pub(super) fn is_plain_name(name: &str) -> bool {
    name.strip_prefix("pvc-")
        .is_some_and(|uid| !uid.is_empty() && uid.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'))
}

pub(super) fn not_made(claim: &PersistentVolumeClaim, why: &str) -> Note {
    let class = storage::class_of_claim(claim);
    Note::warning("ProvisioningFailed", format!("failed to provision volume with StorageClass {class:?}: {why}"))
}

pub(super) fn not_removed(why: &str) -> Note {
    Note::warning("VolumeFailedDelete", format!("the directory cannot be removed: {why}"))
}

/// Objects are written as they are read.
fn made<T: DeserializeOwned>(object: Value) -> Option<T> {
    serde_json::from_value(object).ok()
}
