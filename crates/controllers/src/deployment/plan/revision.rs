//! Revisions: which ReplicaSet is the new one, what number it has, and what it takes over from its Deployment.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use pintle_rules::hash::template_hash;
use pintle_runtime::owner;

use super::{Rollout, Set, fenceposts, progress};

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(super) const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
const TEMPLATE_HASH: &str = "pod-template-hash";

/// What is about the Deployment alone, or is kept by this loop.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];

/// The longest history of revisions that is kept, in characters.
const LONGEST_HISTORY: usize = 2000;

/// Longest name of an object.
const LONGEST_NAME: usize = 253;

impl Rollout {
    /// The number after the highest of the old ones.
    fn next_revision(&self) -> i64 {
        self.old().into_iter().filter_map(|index| revision_of(&self.sets[index])).max().unwrap_or(0) + 1
    }

    /// Brings the new set's annotations up to date, if there is one, and the Deployment's revision with it.
    ///
    /// A set that was old and is new again, as after `kubectl rollout undo`, gets the next number.
    pub(super) fn sync_revision(&mut self) {
        let Some(new) = self.new else { return };
        let next = self.next_revision();
        let min_ready = self.deployment.spec.as_ref().and_then(|spec| spec.min_ready_seconds);
        let set = &mut self.sets[new];
        take_over_annotations(&self.deployment, set);
        renumber(set, next);
        if let Some(spec) = &mut set.object.spec
            && spec.min_ready_seconds.unwrap_or(0) != min_ready.unwrap_or(0)
        {
            spec.min_ready_seconds = min_ready;
            set.changed = true;
        }
        let (name, revision) = (set.name().to_owned(), set.annotation(REVISION).unwrap_or_default().to_owned());
        self.set_revision(&revision);
        self.note_found(&name);
    }

    /// Makes the set of the Deployment's template.
    pub(super) fn create_new(&mut self) {
        let next = self.next_revision();
        let spec = self.deployment.spec.clone().unwrap_or_default();
        let hash = template_hash(&spec.template, self.status().collision_count);
        let mut template = spec.template.clone();
        let meta = template.metadata.get_or_insert_default();
        meta.labels.get_or_insert_default().insert(TEMPLATE_HASH.into(), hash.clone());
        let labels = meta.labels.clone();
        let mut match_labels = spec.selector.match_labels.clone().unwrap_or_default();
        match_labels.insert(TEMPLATE_HASH.into(), hash.clone());
        let object = ReplicaSet {
            metadata: ObjectMeta {
                name: Some(set_name(self.deployment.metadata.name.as_deref().unwrap_or_default(), &hash)),
                namespace: self.deployment.metadata.namespace.clone(),
                owner_references: Some(vec![owner::controller_reference(&self.deployment)]),
                labels,
                ..ObjectMeta::default()
            },
            spec: Some(ReplicaSetSpec {
                replicas: Some(0),
                min_ready_seconds: spec.min_ready_seconds,
                selector: LabelSelector { match_labels: Some(match_labels), ..spec.selector },
                template: Some(template),
            }),
            status: None,
        };
        let mut set = Set { object, before: 0, created: true, changed: true };
        take_over_annotations(&self.deployment, &mut set);
        renumber(&mut set, next);
        self.sets.push(set);
        let new = self.sets.len() - 1;
        self.new = Some(new);
        self.scale_set(new, self.replicas_for_new(), true);
        self.set_revision(&next.to_string());
        self.note_created(new);
    }

    /// How large the new set may be now.
    pub(super) fn replicas_for_new(&self) -> i32 {
        let Some(new) = self.new else { return 0 };
        let (wanted, current) = (self.wanted(), self.sets[new].replicas());
        if !fenceposts::is_rolling(&self.deployment) {
            return wanted;
        }
        let room = wanted + fenceposts::max_surge(&self.deployment) - self.total_replicas();
        if room <= 0 { current } else { current + room.min(wanted - current) }
    }

    fn set_revision(&mut self, revision: &str) {
        let annotations = self.deployment.metadata.annotations.get_or_insert_default();
        if annotations.get(REVISION).map(String::as_str) != Some(revision) {
            annotations.insert(REVISION.to_owned(), revision.to_owned());
        }
    }

    fn note_created(&mut self, new: usize) {
        let message = format!("Created new replica set {:?}", self.sets[new].name());
        self.set_progressing("True", progress::CREATED, message);
    }

    /// A Deployment that has just been given a deadline is timed from here.
    fn note_found(&mut self, name: &str) {
        if !self.has_progressing() {
            self.set_progressing("True", progress::FOUND, format!("Found new replica set {name:?}"));
        }
    }
}

pub(super) fn revision_of(set: &Set) -> Option<i64> {
    set.annotation(REVISION).map_or(Some(0), |revision| revision.parse().ok())
}

/// Whether the set was made from the Deployment's template as it is now.
pub(in super::super) fn same_template(deployment: &Deployment, set: &ReplicaSet) -> bool {
    let wanted = deployment.spec.as_ref().map(|spec| without_hash(&spec.template));
    let present = set.spec.as_ref().and_then(|spec| spec.template.as_ref()).map(without_hash);
    wanted == present
}

fn without_hash(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    let meta = template.metadata.get_or_insert_default();
    if let Some(labels) = &mut meta.labels {
        labels.remove(TEMPLATE_HASH);
    }
    // Absent and empty mean the same.
    meta.labels = meta.labels.take().filter(|labels| !labels.is_empty());
    meta.annotations = meta.annotations.take().filter(|annotations| !annotations.is_empty());
    meta.creation_timestamp = None;
    template
}

fn take_over_annotations(deployment: &Deployment, set: &mut Set) {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    for (key, value) in deployment.metadata.annotations.as_ref().unwrap_or(&NONE) {
        if !NOT_COPIED.contains(&key.as_str()) {
            set.annotate(key, value);
        }
    }
}

/// Gives the set a higher number and remembers the one it had.
fn renumber(set: &mut Set, next: i64) {
    let before = set.annotation(REVISION).map(str::to_owned);
    let number = match &before {
        None => 0,
        Some(text) if text.is_empty() => 0,
        // Someone has written what is no number: leave it alone.
        Some(text) => match text.parse::<i64>() {
            Ok(number) => number,
            Err(_) => return,
        },
    };
    if number >= next {
        return;
    }
    set.annotate(REVISION, &next.to_string());
    if let Some(before) = before {
        let history = set.annotation(REVISION_HISTORY).unwrap_or_default().to_owned();
        set.annotate(REVISION_HISTORY, &longer_history(&history, &before));
    }
}

/// Adds to a history and forgets its beginning if it grows too long.
fn longer_history(history: &str, revision: &str) -> String {
    let mut revisions: Vec<&str> = history.split(',').filter(|revision| !revision.is_empty()).collect();
    revisions.push(revision);
    while revisions.len() > 1
        && revisions.iter().map(|revision| revision.len() + 1).sum::<usize>() > LONGEST_HISTORY + 1
    {
        revisions.remove(0);
    }
    revisions.join(",")
}

fn set_name(deployment: &str, hash: &str) -> String {
    let longest = LONGEST_NAME - 1 - hash.len();
    format!("{}-{hash}", deployment.get(..longest).unwrap_or(deployment))
}
