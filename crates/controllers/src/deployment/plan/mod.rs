//! What a Deployment does next: which ReplicaSets to make, scale and drop, and what to say in its status.
//!
//! The plan works on a copy: every decision sees the effect of those before it, and each object is written once.

mod fenceposts;
mod progress;
mod revision;
mod rollout;
mod scale;

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pintle_runtime::plan::StatusUpdate;
use pintle_runtime::{ApiError, Plan, Write};

pub(super) use fenceposts::is_rolling;
pub(super) use revision::same_template;

/// What to write when the ReplicaSet could not be created: the condition, or that its name was taken by another template.
pub(super) fn after_failed_creation(deployment: &Deployment, set: &str, error: &kube::Error, now: Timestamp) -> Plan {
    let mut status = deployment.status.clone().unwrap_or_default();
    if error.is_already_exists() {
        // The count gives the next attempt another name.
        status.collision_count = Some(status.collision_count.unwrap_or(0).saturating_add(1));
    } else {
        let message = format!("Failed to create new replica set {set:?}: {}", error.server_message());
        progress::failed_to_create(deployment, &mut status, message, Time(now));
    }
    let mut plan = Plan::default();
    plan.set_status(deployment, deployment.status.as_ref(), &status);
    plan
}

/// Everything the plan may know.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) deployment: Deployment,
    /// The ReplicaSets that are the Deployment's.
    pub(super) sets: Vec<ReplicaSet>,
    /// UIDs of those ReplicaSets that have a Pod which has not finished.
    pub(super) with_running_pods: BTreeSet<String>,
    pub(super) now: Timestamp,
}

/// The writes: the new ReplicaSet first, if it must be created; then the status and the revision.
pub(super) fn plan(facts: Facts) -> Plan {
    let mut rollout = Rollout::new(facts);
    if rollout.deployment.metadata.deletion_timestamp.is_some() {
        rollout.sync_revision();
        return rollout.finish_without_progress();
    }
    rollout.note_pause();
    rollout.sync_revision();
    if rollout.is_paused() {
        rollout.scale();
        rollout.clean_up();
        return rollout.finish_without_progress();
    }
    if rollout.was_scaled() {
        rollout.scale();
        return rollout.finish_without_progress();
    }
    match is_rolling(&rollout.deployment) {
        true => rollout.roll(),
        false => rollout.recreate(),
    }
    rollout.finish()
}

/// The work in progress.
struct Rollout {
    original: Deployment,
    deployment: Deployment,
    /// Oldest first.
    sets: Vec<Set>,
    /// Which of them has the Deployment's template.
    new: Option<usize>,
    dropped: Vec<ReplicaSet>,
    with_running_pods: BTreeSet<String>,
    now: Timestamp,
}

#[derive(Clone, Debug)]
struct Set {
    object: ReplicaSet,
    /// Its size before the plan.
    before: i32,
    created: bool,
    changed: bool,
}

impl Set {
    fn found(object: ReplicaSet) -> Self {
        let before = object.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        Set { object, before, created: false, changed: false }
    }

    /// What to tell people, if the size changes.
    fn event(&self) -> Option<String> {
        let (name, before, replicas) = (self.name(), self.before, self.replicas());
        let direction = if before < replicas { "up" } else { "down" };
        (before != replicas).then(|| format!("Scaled {direction} replica set {name} from {before} to {replicas}"))
    }

    fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    fn replicas(&self) -> i32 {
        self.object.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
    }

    fn available(&self) -> i32 {
        self.object.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
    }

    fn ready(&self) -> i32 {
        self.object.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0)
    }

    fn actual(&self) -> i32 {
        self.object.status.as_ref().map_or(0, |status| status.replicas)
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.object.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Sets an annotation; marks the set as changed if it was another.
    fn annotate(&mut self, key: &str, value: &str) {
        if self.annotation(key) != Some(value) {
            self.object.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
            self.changed = true;
        }
    }
}

impl Rollout {
    fn new(facts: Facts) -> Self {
        let Facts { deployment, mut sets, with_running_pods, now } = facts;
        sets.sort_by_key(|set| (set.metadata.creation_timestamp.clone(), set.metadata.name.clone()));
        let new = sets.iter().position(|set| same_template(&deployment, set));
        let sets = sets.into_iter().map(Set::found).collect();
        Rollout { original: deployment.clone(), deployment, sets, new, dropped: Vec::new(), with_running_pods, now }
    }

    fn wanted(&self) -> i32 {
        fenceposts::wanted(&self.deployment)
    }

    fn is_paused(&self) -> bool {
        self.deployment.spec.as_ref().and_then(|spec| spec.paused).unwrap_or(false)
    }

    /// Indexes of all sets but the new one, oldest first.
    fn old(&self) -> Vec<usize> {
        (0..self.sets.len()).filter(|index| Some(*index) != self.new).collect()
    }

    fn total_replicas(&self) -> i32 {
        self.sets.iter().map(Set::replicas).sum()
    }

    fn status(&self) -> DeploymentStatus {
        self.deployment.status.clone().unwrap_or_default()
    }

    fn time(&self) -> Time {
        Time(self.now)
    }

    fn into_plan(self, status: DeploymentStatus, again: Option<Duration>) -> Plan {
        let mut writes: Vec<Write> = Vec::new();
        // The new set first: should the process end in between, there is a Pod too many rather than one too few.
        let (mut sets, new) = (self.sets, self.new);
        let first: Vec<Set> = new.map(|new| sets.remove(new)).into_iter().collect();
        for found in first.into_iter().chain(sets) {
            let write = match (found.created, found.changed) {
                (true, _) => Write::create(&found.object).warning("ReplicaSetCreateError", create_error(&found)),
                (false, true) => Write::replace(&found.object),
                (false, false) => continue,
            };
            writes.push(match found.event() {
                Some(message) => write.saying("ScalingReplicaSet", message),
                None => write,
            });
        }
        writes.extend(self.dropped.iter().map(Write::delete));
        let mut update = StatusUpdate::of(&self.deployment, self.original.status.as_ref(), &status);
        let (before, after) = (self.original.metadata.annotations, self.deployment.metadata.annotations);
        if before != after {
            let before = before.unwrap_or_default();
            let changed = after.into_iter().flatten().filter(|(key, value)| before.get(key) != Some(value));
            update = update.annotating(changed.collect());
        }
        Plan { writes, status: Some(update), again, ..Plan::default() }
    }
}

fn create_error(set: &Set) -> String {
    format!("Failed to create new replica set {:?}: {{error}}", set.name())
}
