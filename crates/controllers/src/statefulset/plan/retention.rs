//! Who owns a claim, so that it goes with the set or with its Pod, or stays.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use pintle_runtime::owner;

/// The Pod that a claim is for; it may not be there yet.
pub(super) struct Holder<'a> {
    pub(super) name: &'a str,
    /// Nothing if there is no such Pod.
    pub(super) pod: Option<&'a Pod>,
    /// Whether the set wants a Pod of this name.
    pub(super) is_wanted: bool,
}

/// Whether claims go with a Pod that is scaled away.
pub(super) fn goes_when_scaled(set: &StatefulSet) -> bool {
    is_delete(set, |policy| policy.when_scaled.as_deref())
}

fn goes_when_deleted(set: &StatefulSet) -> bool {
    is_delete(set, |policy| policy.when_deleted.as_deref())
}

type Policy = k8s_openapi::api::apps::v1::StatefulSetPersistentVolumeClaimRetentionPolicy;

fn is_delete(set: &StatefulSet, when: fn(&Policy) -> Option<&str>) -> bool {
    let policy = set.spec.as_ref().and_then(|spec| spec.persistent_volume_claim_retention_policy.as_ref());
    policy.and_then(when) == Some("Delete")
}

/// The owners that the claim should have, if it has others.
///
/// A claim that says it belongs to an earlier set or Pod of the same name is left to the garbage collector. One that another
/// controller manages is nobody else's: the set and the Pod are taken off.
pub(super) fn owners_to_write(
    claim: &PersistentVolumeClaim,
    set: &StatefulSet,
    holder: &Holder<'_>,
) -> Option<Vec<OwnerReference>> {
    let owners = claim.metadata.owner_references.as_deref().unwrap_or_default();
    if owners.iter().any(|owner| names_an_earlier(owner, set, holder)) {
        return None;
    }
    let has = |uid: Option<&str>| uid.is_some_and(|uid| owners.iter().any(|owner| owner.uid == uid));
    let (has_set, has_pod) = (has(set.metadata.uid.as_deref()), has(holder.uid()));
    let others = owners.iter().filter(|owner| !names_set(owner, set) && !names_pod(owner, holder)).cloned();
    if has_unexpected_controller(claim, set, holder) {
        return (has_set || has_pod).then(|| others.collect());
    }
    let (wants_set, wants_pod) = wanted_owners(set, holder);
    let is_ours = |owner: &&OwnerReference| {
        Some(owner.uid.as_str()) == set.metadata.uid.as_deref() || Some(owner.uid.as_str()) == holder.uid()
    };
    let all_control = owners.iter().filter(is_ours).all(|owner| owner.controller == Some(true));
    if (has_set, has_pod) == (wants_set, wants_pod) && all_control {
        return None;
    }
    let set = wants_set.then(|| owner::controller_reference(set));
    let pod = holder.pod.filter(|_| wants_pod).map(owner::controller_reference);
    Some(others.chain(set).chain(pod).collect())
}

/// The owners of a claim that is made for a Pod that is about to be made.
pub(super) fn first_owners(set: &StatefulSet) -> Option<Vec<OwnerReference>> {
    goes_when_deleted(set).then(|| vec![owner::controller_reference(set)])
}

/// Whether the set owns the claim, and whether the Pod does. Where both policies delete, a claim is the Pod's from when the
/// Pod is scaled away, and until then the set's.
fn wanted_owners(set: &StatefulSet, holder: &Holder<'_>) -> (bool, bool) {
    match (goes_when_scaled(set), goes_when_deleted(set)) {
        (false, deleted) => (deleted, false),
        (true, false) => (false, !holder.is_wanted),
        (true, true) => (holder.is_wanted, !holder.is_wanted),
    }
}

/// Whether somebody else manages the claim, which only matters if the policy deletes anything.
pub(super) fn has_unexpected_controller(claim: &PersistentVolumeClaim, set: &StatefulSet, holder: &Holder<'_>) -> bool {
    if !goes_when_scaled(set) && !goes_when_deleted(set) {
        return false;
    }
    let mut owners = claim.metadata.owner_references.iter().flatten();
    owners.any(|owner| match (names_set(owner, set), names_pod(owner, holder)) {
        (false, false) => owner.controller == Some(true),
        _ => names_an_earlier(owner, set, holder),
    })
}

/// Whether the claim belongs to an earlier Pod of this name: it is about to go, and no Pod is to mount it.
pub(super) fn is_stale(claim: &PersistentVolumeClaim, holder: &Holder<'_>) -> bool {
    let mut owners = claim.metadata.owner_references.iter().flatten();
    owners.any(|owner| names_pod(owner, holder) && Some(owner.uid.as_str()) != holder.uid())
}

fn names_an_earlier(owner: &OwnerReference, set: &StatefulSet, holder: &Holder<'_>) -> bool {
    let uid = Some(owner.uid.as_str());
    (names_set(owner, set) && uid != set.metadata.uid.as_deref()) || (names_pod(owner, holder) && uid != holder.uid())
}

fn names_set(owner: &OwnerReference, set: &StatefulSet) -> bool {
    owner.kind == StatefulSet::kind(&())
        && owner.api_version == StatefulSet::api_version(&())
        && Some(&owner.name) == set.metadata.name.as_ref()
}

fn names_pod(owner: &OwnerReference, holder: &Holder<'_>) -> bool {
    owner.kind == "Pod" && owner.api_version == "v1" && owner.name == holder.name
}

impl Holder<'_> {
    fn uid(&self) -> Option<&str> {
        self.pod.and_then(|pod| pod.metadata.uid.as_deref())
    }
}
