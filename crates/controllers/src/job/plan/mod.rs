//! What a Job needs: Pods made, deleted and counted, a status, and an end.
//!
//! Every Pod is counted exactly once, wherever the process is lost. It is made with a finalizer, so that it cannot go unseen.
//! When it has ended, its UID (or its index) is noted in the status; only when the stored status has it the finalizer goes;
//! only when the finalizer is gone the UID is dropped from the notes and the counter grows. Each step is a write that is safe
//! to repeat, and each is decided from what is stored. One plan takes different Pods through different steps: finalizers of
//! those that are noted, notes of those that are not.

mod asked;
mod backoff;
mod census;
pub(super) mod indexes;
mod moves;
pub(super) mod policy;
mod tally;
mod verdict;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pintle_runtime::plan::{Note, Pace, StatusUpdate};
use pintle_runtime::{Plan, Write};
use serde_json::json;

use super::{TRACKING, is_tracked};
use asked::Asked;
pub(super) use backoff::Backoff;
use census::Census;
use moves::Moves;
use tally::Tally;
use verdict::Verdict;
pub(crate) use verdict::{end_of, is_complete, is_finished};

/// The label and annotation that say which index a Pod works on.
const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// How often the index of a Pod had failed when the Pod was made, and how many more failures were ignored.
const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
const INDEX_IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// What there is.
pub(super) struct Facts<'a> {
    pub(super) job: &'a Job,
    /// The Pods that are the Job's, in whatever state.
    pub(super) pods: Vec<Arc<Pod>>,
    pub(super) backoff: Backoff,
    pub(super) now: Timestamp,
}

/// The facts, looked at from all sides.
struct Scene<'a> {
    job: &'a Job,
    asked: Asked<'a>,
    status: JobStatus,
    pods: &'a [Arc<Pod>],
    backoff: &'a Backoff,
    census: Census,
    /// When the Job was started: now, if it was not before.
    start: Option<Timestamp>,
    now: Timestamp,
    /// The same in whole seconds, as the API keeps times.
    stamp: Timestamp,
}

/// Compares what is there with what is wanted. Not for Jobs that have finished.
pub(super) fn plan(facts: &Facts<'_>) -> Plan {
    let Some(spec) = &facts.job.spec else { return Plan::default() };
    if spec.completion_mode.as_deref().is_some_and(|mode| !matches!(mode, "Indexed" | "NonIndexed")) {
        let message = "Skipped Job sync because completion mode is unknown";
        return Plan::telling(Note::warning("UnknownCompletionMode", message));
    }
    let scene = Scene::of(facts, Asked::of(facts.job, spec));
    let mut verdict = verdict::verdict(&scene);
    let is_managed = verdict.is_none() && !scene.asked.is_being_deleted;
    let moves = match (&verdict, is_managed) {
        (Some(_), _) => moves::ending(&scene),
        (None, true) => moves::working(&scene),
        (None, false) => Moves::none(&scene.census),
    };
    if verdict.is_none() && scene.is_complete(moves.active) {
        verdict = Some(Verdict::completed());
    }
    let deadline = verdict::deadline(&scene).filter(|_| verdict.is_none());
    let again = deadline.map(|deadline| time_until(deadline, scene.now));
    scene.into_plan(verdict, moves, is_managed, again)
}

impl<'a> Scene<'a> {
    fn of(facts: &'a Facts<'_>, asked: Asked<'a>) -> Self {
        let status = facts.job.status.clone().unwrap_or_default();
        let stamp = Timestamp::from_second(facts.now.as_second()).unwrap_or(facts.now);
        let start = status.start_time.as_ref().map(|time| time.0);
        Scene {
            census: Census::of(&asked, &status, &facts.pods),
            start: start.or((!asked.is_suspended).then_some(stamp)),
            job: facts.job,
            pods: &facts.pods,
            backoff: &facts.backoff,
            now: facts.now,
            asked,
            status,
            stamp,
        }
    }

    /// Whether enough Pods have succeeded and none runs any more.
    fn is_complete(&self, active: usize) -> bool {
        let wanted = self.asked.completions.map_or(1, |count| usize::try_from(count).unwrap_or(usize::MAX));
        self.census.succeeded >= wanted && active == 0
    }

    fn into_plan(self, verdict: Option<Verdict>, moves: Moves, is_managed: bool, again: Option<Duration>) -> Plan {
        let tally = Tally::of(&self, verdict.as_ref());
        // What is written if something fails tells what was there, and ends nothing.
        let careful = Tally::of(&self, None);
        let mut failed = careful.before_removal(&self.status);
        self.fill_in(&mut failed, &Moves::none(&self.census));

        let mut status = tally.after_removal(&self.status);
        self.fill_in(&mut status, &moves);
        let mut events = Vec::new();
        let mut conditions = status.conditions.take().unwrap_or_default();
        match &verdict {
            Some(verdict) if !verdict.is_known => conditions.push(verdict.announcement(self.stamp)),
            Some(verdict) if tally.is_final && moves.terminating == 0 => {
                conditions.push(verdict.conclusion(self.stamp));
                status.completion_time = verdict.is_success.then_some(Time(self.stamp));
                events = self.told_at_the_end(verdict, &status);
            }
            None if is_managed && verdict::set_suspended(&mut conditions, self.asked.is_suspended, self.stamp) => {
                let resumed = (!self.asked.is_suspended).then_some(Time(self.stamp));
                let told = if resumed.is_some() { ("Resumed", "Job resumed") } else { ("Suspended", "Job suspended") };
                events.push(Note::normal(told.0, told.1));
                status.start_time = resumed;
            }
            _ => {}
        }
        status.conditions = Some(conditions).filter(|conditions| !conditions.is_empty());

        let mut writes: Vec<Write> = tally.removable.iter().flat_map(|pod| without_finalizer(pod)).collect();
        let mut plan = Plan { events, again: moves.again, ..Plan::default() };
        plan.look_again(again);
        writes.extend(moves.writes);
        plan.writes = writes;
        let update = StatusUpdate::of(self.job, self.job.status.as_ref(), &status);
        plan.status = Some(update.if_failed(&failed));
        plan
    }

    fn fill_in(&self, status: &mut JobStatus, moves: &Moves) {
        status.active = Some(number(moves.active));
        status.ready = Some(number(moves.ready));
        status.terminating = Some(number(moves.terminating));
        status.start_time = self.start.map(Time);
        if self.asked.is_indexed {
            let failed = self.census.failed_indexes.as_ref();
            status.failed_indexes = failed.map(ToString::to_string);
        }
    }

    fn told_at_the_end(&self, verdict: &Verdict, status: &JobStatus) -> Vec<Note> {
        if !verdict.is_success {
            return vec![Note::warning(verdict.event_reason(), verdict.message.clone())];
        }
        let wanted = self.asked.completions.map(|count| i32::try_from(count).unwrap_or(i32::MAX));
        let too_many = wanted.is_some_and(|wanted| status.succeeded.unwrap_or(0) > wanted).then(|| {
            Note::warning("TooManySucceededPods", "Too many succeeded pods running after completion count reached")
        });
        too_many.into_iter().chain([Note::normal("Completed", "Job completed")]).collect()
    }
}

/// Lets the Pod go, as far as counting goes.
pub(super) fn without_finalizer(pod: &Pod) -> Vec<Write> {
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING]}});
    is_tracked(pod).then(|| Write::strategic(pod, patch).paced(Pace::Together)).into_iter().collect()
}

fn time_until(time: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(time.duration_since(now)).unwrap_or(Duration::ZERO)
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn failures_of(pod: &Pod) -> i32 {
    count_in(pod, INDEX_FAILURES)
}

fn ignored_failures_of(pod: &Pod) -> i32 {
    count_in(pod, INDEX_IGNORED_FAILURES)
}

/// What is no number, or below zero, was not written by this loop and is taken for none.
fn count_in(pod: &Pod, annotation: &str) -> i32 {
    let text = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(annotation));
    text.and_then(|text| text.parse().ok()).filter(|count| *count >= 0).unwrap_or(0)
}
