//! The status: counts, whether enough is available, and whether the rollout gets on.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSetCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pintle_runtime::{Plan, conditions};

use super::{Rollout, Set, fenceposts};

const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const REPLICA_FAILURE: &str = "ReplicaFailure";

pub(super) const CREATED: &str = "NewReplicaSetCreated";
pub(super) const FOUND: &str = "FoundNewReplicaSet";
const UPDATED: &str = "ReplicaSetUpdated";
const COMPLETE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";
const RESUMED: &str = "DeploymentResumed";
const CREATE_FAILED: &str = "ReplicaSetCreateError";

impl Rollout {
    /// Pausing stops the clock of the deadline, and resuming starts it anew.
    pub(super) fn note_pause(&mut self) {
        let status = self.status();
        let known = conditions::find(status.conditions.as_deref().unwrap_or_default(), PROGRESSING);
        let reason = known.and_then(|condition| condition.reason.as_deref());
        match (self.is_paused(), reason) {
            (_, Some(TIMED_OUT)) | (true, Some(PAUSED)) => {}
            (true, _) => self.set_progressing("Unknown", PAUSED, "Deployment is paused".into()),
            (false, Some(PAUSED)) => self.set_progressing("Unknown", RESUMED, "Deployment is resumed".into()),
            (false, _) => {}
        }
    }

    pub(super) fn has_progressing(&self) -> bool {
        conditions::find(self.status().conditions.as_deref().unwrap_or_default(), PROGRESSING).is_some()
    }

    pub(super) fn set_progressing(&mut self, status: &str, reason: &str, message: String) {
        if deadline(&self.deployment).is_some() {
            let condition = condition(PROGRESSING, status, reason, message, self.time());
            set(self.deployment.status.get_or_insert_default(), condition);
        }
    }

    /// The end of a pass in which nothing was rolled out: counts only.
    pub(super) fn finish_without_progress(self) -> Plan {
        let status = normal(self.counted());
        self.into_plan(status, None)
    }

    /// The end of a pass: counts, progress, failures, and when to see whether the deadline has passed.
    pub(super) fn finish(self) -> Plan {
        let mut status = self.counted();
        match deadline(&self.deployment) {
            Some(deadline) => self.judge_progress(&mut status, deadline),
            None => conditions::remove(status.conditions.get_or_insert_default(), PROGRESSING),
        }
        match self.replica_failure() {
            Some(failure) => set(&mut status, failure),
            None => conditions::remove(status.conditions.get_or_insert_default(), REPLICA_FAILURE),
        }
        let status = normal(status);
        let look_again = self.next_deadline_check(&status);
        self.into_plan(status, look_again)
    }

    fn counted(&self) -> DeploymentStatus {
        let sum = |of: fn(&Set) -> i32| self.sets.iter().map(of).sum::<i32>();
        let available = sum(Set::available);
        let terminating = |set: &Set| match &set.object.status {
            None => Some(0),
            Some(status) if status.observed_generation.unwrap_or(0) == 0 => {
                Some(status.terminating_replicas.unwrap_or(0))
            }
            Some(status) => status.terminating_replicas,
        };
        let mut status = DeploymentStatus {
            observed_generation: self.deployment.metadata.generation,
            replicas: Some(sum(Set::actual)),
            updated_replicas: Some(self.new.map_or(0, |new| self.sets[new].actual())),
            ready_replicas: Some(sum(Set::ready)),
            available_replicas: Some(available),
            unavailable_replicas: Some((self.total_replicas() - available).max(0)),
            terminating_replicas: self.sets.iter().map(terminating).sum::<Option<i32>>(),
            ..self.status()
        };
        let enough = available >= self.wanted() - fenceposts::max_unavailable(&self.deployment);
        let (truth, reason, message) = match enough {
            true => ("True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
            false => ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."),
        };
        set(&mut status, condition(AVAILABLE, truth, reason, message.into(), self.time()));
        status
    }

    fn judge_progress(&self, status: &mut DeploymentStatus, deadline: SignedDuration) {
        let before = self.status();
        let known = conditions::find(before.conditions.as_deref().unwrap_or_default(), PROGRESSING).cloned();
        let was_complete = known.as_ref().is_some_and(|condition| condition.reason.as_deref() == Some(COMPLETE));
        if was_complete && status.replicas.unwrap_or(0) == status.updated_replicas.unwrap_or(0) {
            return;
        }
        let subject = match self.new {
            Some(new) => format!("ReplicaSet {:?}", self.sets[new].name()),
            None => format!("Deployment {:?}", self.deployment.metadata.name.as_deref().unwrap_or_default()),
        };
        if is_complete(&self.deployment, status) {
            let message = format!("{subject} has successfully progressed.");
            set(status, condition(PROGRESSING, "True", COMPLETE, message, self.time()));
        } else if gets_on(self.original.status.as_ref().unwrap_or(&DeploymentStatus::default()), status) {
            let mut progress =
                condition(PROGRESSING, "True", UPDATED, format!("{subject} is progressing."), self.time());
            // Unlike elsewhere the same reason is told anew: its time is when progress was last seen.
            if let Some(known) = known.filter(|known| known.status == "True") {
                progress.last_transition_time = known.last_transition_time;
            }
            let present = status.conditions.get_or_insert_default();
            conditions::remove(present, PROGRESSING);
            present.push(progress);
        } else if self.has_timed_out(known.as_ref(), deadline) {
            let message = format!("{subject} has timed out progressing.");
            set(status, condition(PROGRESSING, "False", TIMED_OUT, message, self.time()));
        }
    }

    fn has_timed_out(&self, known: Option<&DeploymentCondition>, deadline: SignedDuration) -> bool {
        let Some(known) = known else { return false };
        match known.reason.as_deref() {
            Some(COMPLETE) => false,
            Some(TIMED_OUT) => true,
            _ => known.last_update_time.as_ref().is_some_and(|time| time.0 + deadline < self.now),
        }
    }

    fn next_deadline_check(&self, status: &DeploymentStatus) -> Option<Duration> {
        let deadline = deadline(&self.deployment)?;
        let known = conditions::find(status.conditions.as_deref()?, PROGRESSING)?;
        if is_complete(&self.deployment, status) || known.reason.as_deref() == Some(TIMED_OUT) {
            return None;
        }
        let left = (known.last_update_time.as_ref()?.0 + deadline).duration_since(self.now);
        // A second more, since conditions are written in whole seconds.
        Some(Duration::try_from(left).unwrap_or(Duration::ZERO) + Duration::from_secs(1))
    }

    /// The first set's failure to make Pods, the new one's before others'.
    fn replica_failure(&self) -> Option<DeploymentCondition> {
        let order = self.new.into_iter().chain(self.old());
        let failure = |index: usize| {
            let status = self.sets[index].object.status.as_ref()?;
            conditions::find(status.conditions.as_deref()?, REPLICA_FAILURE).map(taken_over)
        };
        order.into_iter().find_map(failure)
    }
}

/// Notes that the new ReplicaSet could not be created, where progress is watched at all.
pub(super) fn failed_to_create(deployment: &Deployment, status: &mut DeploymentStatus, message: String, now: Time) {
    if deadline(deployment).is_some() {
        set(status, condition(PROGRESSING, "False", CREATE_FAILED, message, now));
    }
}

pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = fenceposts::wanted(deployment);
    let counts = [status.updated_replicas, status.replicas, status.available_replicas];
    counts.into_iter().all(|count| count.unwrap_or(0) == wanted)
        && status.observed_generation.unwrap_or(0) >= deployment.metadata.generation.unwrap_or(0)
}

/// More new Pods, fewer old ones, more ready or more available.
fn gets_on(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let updated = |status: &DeploymentStatus| status.updated_replicas.unwrap_or(0);
    let old = |status: &DeploymentStatus| status.replicas.unwrap_or(0) - updated(status);
    updated(after) > updated(before)
        || old(after) < old(before)
        || after.ready_replicas.unwrap_or(0) > before.ready_replicas.unwrap_or(0)
        || after.available_replicas.unwrap_or(0) > before.available_replicas.unwrap_or(0)
}

/// Nothing if the Deployment has no deadline.
fn deadline(deployment: &Deployment) -> Option<SignedDuration> {
    let seconds = deployment.spec.as_ref()?.progress_deadline_seconds?;
    (seconds != i32::MAX).then(|| SignedDuration::from_secs(seconds.into()))
}

fn condition(kind: &str, status: &str, reason: &str, message: String, now: Time) -> DeploymentCondition {
    DeploymentCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_update_time: Some(now.clone()),
        last_transition_time: Some(now),
    }
}

fn taken_over(condition: &ReplicaSetCondition) -> DeploymentCondition {
    DeploymentCondition {
        type_: condition.type_.clone(),
        status: condition.status.clone(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        last_update_time: condition.last_transition_time.clone(),
        last_transition_time: condition.last_transition_time.clone(),
    }
}

/// The same status and reason are not told twice; a condition that changes moves to the end.
fn set(status: &mut DeploymentStatus, mut condition: DeploymentCondition) {
    let conditions = status.conditions.get_or_insert_default();
    if let Some(known) = conditions::find(conditions, &condition.type_) {
        if known.status == condition.status && known.reason == condition.reason {
            return;
        }
        if known.status == condition.status {
            condition.last_transition_time = known.last_transition_time.clone();
        }
    }
    conditions::remove(conditions, &condition.type_);
    conditions.push(condition);
}

/// Zeros left out, as the server writes them, so that statuses can be compared.
pub(super) fn normal(mut status: DeploymentStatus) -> DeploymentStatus {
    let counts = [
        &mut status.replicas,
        &mut status.updated_replicas,
        &mut status.ready_replicas,
        &mut status.available_replicas,
        &mut status.unavailable_replicas,
    ];
    for count in counts {
        *count = count.filter(|count| *count != 0);
    }
    status.conditions = status.conditions.filter(|conditions| !conditions.is_empty());
    status
}
