//! Whether a Job has ended, and why; and the conditions that say so.
//!
//! A Job ends in two steps. First it says how it is going to end (`SuccessCriteriaMet` or `FailureTarget`); when all of its Pods
//! have ended and are counted, it says that it has (`Complete` or `Failed`).

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Scene;
use super::asked::Asked;
use super::census::Census;
use super::policy::{self, Judgement};
use crate::pods;

const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
const FAILURE_TARGET: &str = "FailureTarget";
const SUSPENDED: &str = "Suspended";

/// Why Jobs fail.
const REASONS: [&str; 5] =
    ["PodFailurePolicy", "BackoffLimitExceeded", "DeadlineExceeded", "MaxFailedIndexesExceeded", "FailedIndexes"];

/// How a Job is going to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) is_success: bool,
    /// Whether the status says so already.
    pub(super) is_known: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Verdict {
    fn failure(reason: &str, message: impl Into<String>) -> Self {
        Verdict { is_success: false, is_known: false, reason: reason.to_owned(), message: message.into() }
    }

    /// The reason as an Event has it: one of those in this file.
    pub(super) fn event_reason(&self) -> &'static str {
        let known = REASONS.iter().find(|reason| **reason == self.reason);
        known.copied().unwrap_or("Failed")
    }

    pub(super) fn completed() -> Self {
        let (reason, message) = ("CompletionsReached", "Reached expected number of succeeded pods");
        Verdict { is_success: true, is_known: false, reason: reason.to_owned(), message: message.to_owned() }
    }

    fn known(condition: &JobCondition, is_success: bool) -> Self {
        let (reason, message) = (condition.reason.clone(), condition.message.clone());
        Verdict { is_success, is_known: true, reason: reason.unwrap_or_default(), message: message.unwrap_or_default() }
    }

    /// What the status says before the Pods are gone.
    pub(super) fn announcement(&self, now: Timestamp) -> JobCondition {
        condition(
            if self.is_success { SUCCESS_CRITERIA_MET } else { FAILURE_TARGET },
            true,
            (&self.reason, &self.message),
            now,
        )
    }

    /// What the status says at the end.
    pub(super) fn conclusion(&self, now: Timestamp) -> JobCondition {
        condition(if self.is_success { "Complete" } else { "Failed" }, true, (&self.reason, &self.message), now)
    }
}

/// How the Job is going to end, if that can be said without the number of Pods that still run.
pub(super) fn verdict(scene: &Scene<'_>) -> Option<Verdict> {
    let Scene { job, asked, census, pods, .. } = scene;
    let holds = |kind: &str| find(job, kind).filter(|condition| condition.status == "True");
    if let Some(condition) = holds(SUCCESS_CRITERIA_MET) {
        return Some(Verdict::known(condition, true));
    }
    if let Some(condition) = holds(FAILURE_TARGET) {
        return Some(Verdict::known(condition, false));
    }
    if let Some(message) = failed_by_policy(asked, pods) {
        return Some(Verdict::failure("PodFailurePolicy", message));
    }
    if census.failed > asked.backoff_limit() || restarts_too_often(asked, pods) {
        return Some(Verdict::failure("BackoffLimitExceeded", "Job has reached the specified backoff limit"));
    }
    if deadline(scene).is_some_and(|deadline| deadline <= scene.now) {
        return Some(Verdict::failure("DeadlineExceeded", "Job was active longer than specified deadline"));
    }
    indexes_are_enough(asked, census)
}

/// What the indexes say about the end of an indexed Job.
fn indexes_are_enough(asked: &Asked<'_>, census: &Census) -> Option<Verdict> {
    let completions = asked.completions.filter(|_| asked.is_indexed)?;
    if let Some(failed) = &census.failed_indexes {
        let most = asked.spec.max_failed_indexes.map(|most| usize::try_from(most).unwrap_or(0));
        if most.is_some_and(|most| failed.total() > most) {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            return Some(Verdict::failure("MaxFailedIndexesExceeded", message));
        }
        let ended = failed.total().saturating_add(census.succeeded_indexes.total());
        if !failed.is_empty() && ended >= usize::try_from(completions).unwrap_or(usize::MAX) {
            return Some(Verdict::failure("FailedIndexes", "Job has failed indexes"));
        }
    }
    let message = policy::succeeded_early(asked.spec.success_policy.as_ref(), &census.succeeded_indexes, completions)?;
    Some(Verdict { is_success: true, is_known: false, reason: "SuccessPolicy".to_owned(), message })
}

fn failed_by_policy(asked: &Asked<'_>, pods: &[Arc<Pod>]) -> Option<String> {
    let policy = asked.spec.pod_failure_policy.as_ref()?;
    pods.iter().filter(|pod| asked.has_failed(pod)).find_map(|pod| match policy::judge(Some(policy), pod) {
        Judgement::FailJob(message) => Some(message),
        _ => None,
    })
}

/// Pods that restart their containers themselves count each restart.
fn restarts_too_often(asked: &Asked<'_>, pods: &[Arc<Pod>]) -> bool {
    let policy = asked.spec.template.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
    if policy != Some("OnFailure") {
        return false;
    }
    let alive = pods.iter().filter(|pod| matches!(pods::phase(pod), "Running" | "Pending"));
    let statuses = alive.flat_map(|pod| pod.status.iter()).flat_map(|status| {
        status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten())
    });
    let restarts = |sum: i32, status: &ContainerStatus| sum.saturating_add(status.restart_count);
    let restarts = statuses.fold(0, restarts);
    restarts > 0 && restarts >= asked.backoff_limit()
}

/// When the Job has run for as long as it may.
pub(super) fn deadline(scene: &Scene<'_>) -> Option<Timestamp> {
    let seconds = scene.asked.spec.active_deadline_seconds.filter(|_| !scene.asked.is_suspended)?;
    Some(scene.start?.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX))
}

/// Whether the Job has ended and all of it is counted.
pub(crate) fn is_finished(job: &Job) -> bool {
    end_of(job).is_some()
}

/// Whether the Job has succeeded, and all of it is counted.
pub(crate) fn is_complete(job: &Job) -> bool {
    find(job, "Complete").is_some_and(|condition| condition.status == "True")
}

/// The condition that says that the Job has ended.
pub(crate) fn end_of(job: &Job) -> Option<&JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|condition| matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True")
}

/// Says whether the Job is suspended. True if that is news: a Job that never was is not said to have been resumed.
pub(super) fn set_suspended(conditions: &mut Vec<JobCondition>, is_suspended: bool, now: Timestamp) -> bool {
    let why = if is_suspended { ("JobSuspended", "Job suspended") } else { ("JobResumed", "Job resumed") };
    let wanted = condition(SUSPENDED, is_suspended, why, now);
    match conditions.iter_mut().find(|condition| condition.type_ == SUSPENDED) {
        Some(known) if (&known.status, &known.reason) == (&wanted.status, &wanted.reason) => false,
        Some(known) => {
            *known = wanted;
            true
        }
        None if is_suspended => {
            conditions.push(wanted);
            true
        }
        None => false,
    }
}

fn find<'a>(job: &'a Job, kind: &str) -> Option<&'a JobCondition> {
    job.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

fn condition(kind: &str, holds: bool, (reason, message): (&str, &str), now: Timestamp) -> JobCondition {
    JobCondition {
        type_: kind.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
    }
}
