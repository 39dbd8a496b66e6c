//! Who is who: the names of a StatefulSet's Pods and claims, and what a Pod of such a name looks like.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pintle_runtime::owner;

use crate::history::POD_REVISION;

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// The name before the number of `<set>-<number>`.
pub(in super::super) fn parent(pod: &str) -> Option<&str> {
    let (parent, number) = pod.rsplit_once('-')?;
    is_number(number).then_some(parent)
}

/// The number of `<set>-<number>`; none if it is larger than any set's.
pub(super) fn ordinal(pod: &Pod) -> Option<i64> {
    let (_, number) = pod.metadata.name.as_deref()?.rsplit_once('-')?;
    number.parse::<i32>().ok().filter(|_| is_number(number)).map(i64::from)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|letter| letter.is_ascii_digit())
}

/// Whether a claim of this name is for one of the set's Pods.
pub(in super::super) fn has_claim_named(set: &StatefulSet, name: &str) -> bool {
    let Some(stem) = parent(name) else { return false };
    claim_templates(set).iter().any(|template| {
        let rest = stem.strip_prefix(template.metadata.name.as_deref().unwrap_or_default());
        rest.and_then(|rest| rest.strip_prefix('-')) == set.metadata.name.as_deref()
    })
}

pub(super) fn name_of(set: &StatefulSet) -> &str {
    set.metadata.name.as_deref().unwrap_or_default()
}

pub(super) fn pod_name(set: &StatefulSet, ordinal: i64) -> String {
    format!("{}-{ordinal}", name_of(set))
}

pub(super) fn claim_templates(set: &StatefulSet) -> &[PersistentVolumeClaim] {
    set.spec.as_ref().and_then(|spec| spec.volume_claim_templates.as_deref()).unwrap_or_default()
}

pub(super) fn claim_name(set: &StatefulSet, template: &PersistentVolumeClaim, ordinal: i64) -> String {
    format!("{}-{}-{ordinal}", template.metadata.name.as_deref().unwrap_or_default(), name_of(set))
}

/// The claims of one of the set's Pods, labelled with what the set selects.
pub(super) fn claims_of(set: &StatefulSet, ordinal: i64) -> Vec<PersistentVolumeClaim> {
    let selected = set.spec.as_ref().and_then(|spec| spec.selector.match_labels.clone()).unwrap_or_default();
    let claim = |template: &PersistentVolumeClaim| {
        let mut metadata = template.metadata.clone();
        metadata.name = Some(claim_name(set, template, ordinal));
        metadata.namespace.clone_from(&set.metadata.namespace);
        metadata.labels.get_or_insert_default().extend(selected.clone());
        PersistentVolumeClaim { metadata, spec: template.spec.clone(), status: None }
    };
    claim_templates(set).iter().map(claim).collect()
}

/// The Pod of this number, made from the template of a revision.
pub(super) fn pod(set: &StatefulSet, template: &PodTemplateSpec, revision: &str, ordinal: i64) -> Pod {
    let described = template.metadata.clone().unwrap_or_default();
    let name = pod_name(set, ordinal);
    let mut spec = template.spec.clone().unwrap_or_default();
    spec.hostname = Some(name.clone());
    spec.subdomain = set.spec.as_ref().and_then(|spec| spec.service_name.clone()).filter(|name| !name.is_empty());
    let mut pod = Pod {
        metadata: ObjectMeta {
            name: Some(name),
            generate_name: Some(format!("{}-", name_of(set))),
            namespace: set.metadata.namespace.clone(),
            labels: described.labels,
            annotations: described.annotations,
            finalizers: described.finalizers,
            owner_references: Some(vec![owner::controller_reference(set)]),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    };
    pod.metadata.labels.get_or_insert_default().insert(POD_REVISION.to_owned(), revision.to_owned());
    label(&mut pod, ordinal);
    mount_claims(set, &mut pod, ordinal);
    pod
}

/// Whether the Pod carries its own name in its labels, by which a Service finds one Pod alone.
pub(super) fn is_labelled(pod: &Pod) -> bool {
    let labels: Option<&BTreeMap<String, String>> = pod.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(POD_NAME)) == pod.metadata.name.as_ref()
}

pub(super) fn label(pod: &mut Pod, ordinal: i64) {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(POD_NAME.to_owned(), name);
    labels.insert(POD_INDEX.to_owned(), ordinal.to_string());
}

/// Whether the Pod mounts a claim of its own for each of the set's templates.
pub(super) fn mounts_claims(set: &StatefulSet, pod: &Pod, ordinal: i64) -> bool {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    claim_templates(set).iter().all(|template| {
        let volume = volumes.iter().find(|volume| Some(&volume.name) == template.metadata.name.as_ref());
        let mounted = volume.and_then(|volume| volume.persistent_volume_claim.as_ref());
        mounted.is_some_and(|mounted| mounted.claim_name == claim_name(set, template, ordinal))
    })
}

/// Puts the Pod's claims in the place of volumes of the same names.
pub(super) fn mount_claims(set: &StatefulSet, pod: &mut Pod, ordinal: i64) {
    let volume = |template: &PersistentVolumeClaim| Volume {
        name: template.metadata.name.clone().unwrap_or_default(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim_name(set, template, ordinal),
            read_only: None,
        }),
        ..Volume::default()
    };
    let mut volumes: Vec<Volume> = claim_templates(set).iter().map(volume).collect();
    if volumes.is_empty() {
        return;
    }
    let spec = pod.spec.get_or_insert_default();
    let others = spec.volumes.take().unwrap_or_default();
    let taken = volumes.len();
    for other in others {
        if !volumes[..taken].iter().any(|volume| volume.name == other.name) {
            volumes.push(other);
        }
    }
    spec.volumes = Some(volumes);
}
