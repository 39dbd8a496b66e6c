//! ControllerRevisions: the templates that a set has had, numbered, so that it can be told which of its Pods are old.
//!
//! A revision's data is a patch that puts its template back, in the text that Kubernetes' own controllers write: a set that
//! was theirs finds its revisions again, and theirs find ours.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::Resource;
use pintle_runtime::{Informer, Write, owner};
use serde_json::{Value, json};

/// The label of a Pod that names its revision; a DaemonSet's revisions carry it too.
pub(crate) const POD_REVISION: &str = "controller-revision-hash";

/// Revisions beside those in use that are kept, unless the set says otherwise.
pub(crate) const USUAL_LIMIT: i32 = 10;

/// So much of a set's name is part of the names of its revisions.
const LONGEST_PREFIX: usize = 223;

/// Index of revisions: the UID of the controller, or the namespace of one that has none.
fn controller(revision: &ControllerRevision) -> Vec<String> {
    vec![match owner::controller_of(&revision.metadata) {
        Some(owner) => owner.uid.clone(),
        None => orphans_of(revision.metadata.namespace.as_deref().unwrap_or_default()),
    }]
}

/// Makes `candidates` cheap from the start.
pub(crate) fn index_by_controller(revisions: &Informer<ControllerRevision>) {
    revisions.index(controller);
}

/// The revisions that are the controller's, and those of its namespace that are nobody's.
pub(crate) fn candidates(revisions: &Informer<ControllerRevision>, owner: &ObjectMeta) -> Vec<Arc<ControllerRevision>> {
    let mut found = revisions.by(controller, owner.uid.as_deref().unwrap_or_default());
    let orphans = orphans_of(owner.namespace.as_deref().unwrap_or_default());
    found.extend(revisions.by(controller, &orphans));
    found
}

/// A slash keeps it apart from every UID.
fn orphans_of(namespace: &str) -> String {
    format!("orphans/{namespace}")
}

/// Oldest first: by number, then by age, then by name.
pub(crate) fn sort(revisions: &mut [Arc<ControllerRevision>]) {
    revisions.sort_by(|a, b| {
        let age = |revision: &ControllerRevision| revision.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (a.revision, age(a), &a.metadata.name).cmp(&(b.revision, age(b), &b.metadata.name))
    });
}

pub(crate) fn name(revision: &ControllerRevision) -> &str {
    revision.metadata.name.as_deref().unwrap_or_default()
}

/// The number after the highest one.
pub(crate) fn next_number<'a>(revisions: impl IntoIterator<Item = &'a Arc<ControllerRevision>>) -> i64 {
    let highest = revisions.into_iter().map(|revision| revision.revision).max();
    highest.unwrap_or(0).max(0).saturating_add(1)
}

/// The patch that puts the template back.
fn data_of(template: &PodTemplateSpec) -> Value {
    let mut template = serde_json::to_value(template).unwrap_or_default();
    template["$patch"] = "replace".into();
    json!({"spec": {"template": template}})
}

/// The template that the revision puts back; nothing if its data cannot be read.
pub(crate) fn template_in(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision.data.as_ref()?.0.get("spec")?.get("template")?.clone();
    template.as_object_mut()?.remove("$patch");
    serde_json::from_value(template).ok()
}

/// Whether the revision is of this template. The types are compared: older versions of Kubernetes spell empty fields out.
pub(crate) fn is_of(revision: &ControllerRevision, template: &PodTemplateSpec) -> bool {
    revision.data.as_ref().is_some_and(|data| data.0 == data_of(template))
        || template_in(revision).as_ref() == Some(template)
}

/// The hash of a template's data with this count of collisions, as in the names of a StatefulSet's revisions.
pub(crate) fn data_hash(template: &PodTemplateSpec, collisions: i32) -> String {
    let text = escaped(&data_of(template).to_string());
    pintle_rules::hash::revision_hash(text.as_bytes(), Some(collisions))
}

/// Go writes these characters of a JSON text in another way, and the hash is over the text.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => escaped.push_str(&format!("\\u{:04x}", u32::from(letter))),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A revision that is to be made, and how often its hash met another's.
pub(crate) struct Proposal {
    pub(crate) hash: String,
    pub(crate) name: String,
    pub(crate) collisions: i32,
}

/// What stands under the name that a new revision would have.
pub(crate) enum Place {
    Free(Proposal),
    /// It is there already, though not among the set's.
    Taken(Arc<ControllerRevision>),
}

/// The first name, by rising counts of collisions, that is free or has this very template.
pub(crate) fn place(
    owner: &ObjectMeta,
    template: &PodTemplateSpec,
    mut collisions: i32,
    hash_of: impl Fn(i32) -> String,
    named: impl Fn(&str) -> Option<Arc<ControllerRevision>>,
) -> Place {
    loop {
        let hash = hash_of(collisions);
        let name = revision_name(owner.name.as_deref().unwrap_or_default(), &hash);
        match named(&name) {
            None => return Place::Free(Proposal { hash, name, collisions }),
            Some(revision) if is_of(&revision, template) => return Place::Taken(revision),
            Some(_) if collisions == i32::MAX => return Place::Free(Proposal { hash, name, collisions }),
            Some(_) => collisions += 1,
        }
    }
}

fn revision_name(prefix: &str, hash: &str) -> String {
    format!("{}-{hash}", prefix.get(..LONGEST_PREFIX).unwrap_or(prefix))
}

/// Makes the revision of a template, labelled like the template's Pods and with its hash.
pub(crate) fn creation<K>(
    owner: &K,
    template: &PodTemplateSpec,
    number: i64,
    proposal: &Proposal,
    hash_label: &str,
) -> Write
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let described = template.metadata.as_ref();
    let mut labels: BTreeMap<String, String> = described.and_then(|meta| meta.labels.clone()).unwrap_or_default();
    labels.insert(hash_label.to_owned(), proposal.hash.clone());
    Write::create(&ControllerRevision {
        metadata: ObjectMeta {
            name: Some(proposal.name.clone()),
            namespace: owner.meta().namespace.clone(),
            labels: Some(labels),
            annotations: owner.meta().annotations.clone(),
            owner_references: Some(vec![owner::controller_reference(owner)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data_of(template))),
        revision: number,
    })
}

/// Gives a revision that is in use again the number of the latest one.
pub(crate) fn renumbering(revision: &ControllerRevision, number: i64) -> Write {
    Write::merge_at_version(revision, json!({"revision": number}))
}

/// Those of the sorted revisions that go: the oldest ones that are not in use, beyond the limit. A limit below zero is none.
pub(crate) fn surplus<'a>(
    revisions: &'a [Arc<ControllerRevision>],
    in_use: &BTreeSet<&str>,
    limit: Option<i32>,
) -> impl Iterator<Item = &'a Arc<ControllerRevision>> {
    let unused: Vec<_> = revisions.iter().filter(|revision| !in_use.contains(name(revision))).collect();
    let kept = usize::try_from(limit.unwrap_or(USUAL_LIMIT)).unwrap_or(usize::MAX);
    let count = unused.len().saturating_sub(kept);
    unused.into_iter().take(count)
}
