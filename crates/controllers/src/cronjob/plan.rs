//! What a CronJob needs: a Job whose time has come, Jobs that are too old deleted, a status.
//!
//! A Job is created by a name that its time determines, and enters the status in the next look, which finds it by that name: so
//! wherever the process is lost, no time is met twice and none is forgotten.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use pintle_rules::cron::{Schedule, time_zone};
use pintle_runtime::owner::{self, Cascade};
use pintle_runtime::plan::Note;
use pintle_runtime::{Plan, Write};

use super::due;
use crate::job::{end_of, is_complete};

/// When the Job was to run, in the CronJob's time zone.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// When a Job is looked at again that may go once the status is stored.
const SOON: Duration = Duration::from_secs(1);

/// What there is.
pub(super) struct Facts<'a> {
    pub(super) cron_job: &'a CronJob,
    /// The Jobs that are the CronJob's.
    pub(super) jobs: Vec<Arc<Job>>,
    /// When the schedule was changed, if this process has seen that.
    pub(super) changed_at: Option<Timestamp>,
    pub(super) now: Timestamp,
}

pub(super) fn plan(facts: &Facts<'_>) -> Plan {
    let spec = &facts.cron_job.spec;
    let mut work =
        Work { facts, spec, status: facts.cron_job.status.clone().unwrap_or_default(), plan: Plan::default() };
    work.take_note_of_jobs();
    work.delete_old_jobs();
    if facts.cron_job.metadata.deletion_timestamp.is_none() {
        work.start();
    }
    let Work { status, mut plan, .. } = work;
    plan.set_status(facts.cron_job, facts.cron_job.status.as_ref(), &status);
    plan
}

/// A plan in the making, and the status that it leads to.
struct Work<'a> {
    facts: &'a Facts<'a>,
    spec: &'a CronJobSpec,
    status: CronJobStatus,
    plan: Plan,
}

impl Work<'_> {
    /// Enters new Jobs in the status, and takes out those that have ended or are gone.
    fn take_note_of_jobs(&mut self) {
        for job in &self.facts.jobs {
            self.take_note_of(job);
        }
        let there: BTreeSet<Option<&str>> = self.facts.jobs.iter().map(|job| job.metadata.uid.as_deref()).collect();
        let active = self.status.active.take().unwrap_or_default();
        let (active, missing): (Vec<_>, Vec<_>) =
            active.into_iter().partition(|job| there.contains(&job.uid.as_deref()));
        for job in missing {
            let name = job.name.unwrap_or_default();
            self.tell(Note::normal("MissingJob", format!("Active job went missing: {name}")));
        }
        self.set_active(active);
    }

    fn take_note_of(&mut self, job: &Job) {
        let name = job.metadata.name.clone().unwrap_or_default();
        let mut is_active = self.active().any(|active| active.uid == job.metadata.uid);
        let is_new = self.scheduled_time(job).filter(|time| self.last_time().is_none_or(|last| last < *time));
        let end = end_of(job);
        if let Some(time) = is_new {
            self.status.last_schedule_time = Some(Time(time));
            if !is_active {
                self.status.active.get_or_insert_default().push(reference(job));
                is_active = true;
            }
        }
        match end {
            None if !is_active => {
                let message = format!("Saw a job that the controller did not create or forgot: {name}");
                self.tell(Note::warning("UnexpectedJob", message));
            }
            Some(end) if is_active => {
                self.forget(job);
                let message = format!("Saw completed job: {name}, condition: {}", end.type_);
                self.tell(Note::normal("SawCompletedJob", message));
            }
            _ => {}
        }
        let completed = job.status.as_ref().and_then(|status| status.completion_time.clone());
        if let Some(completed) = completed.filter(|_| is_complete(job)) {
            let last = self.status.last_successful_time.as_ref();
            if last.is_none_or(|last| last.0 < completed.0) {
                self.status.last_successful_time = Some(completed);
            }
        }
    }

    /// When the Job was to run, if it is one that this loop makes.
    fn scheduled_time(&self, job: &Job) -> Option<Timestamp> {
        let text = job.metadata.annotations.as_ref()?.get(SCHEDULED)?;
        let time: Timestamp = text.parse().ok()?;
        (job.metadata.name.as_deref() == Some(job_name(self.facts.cron_job, time).as_str())).then_some(time)
    }

    /// Of the Jobs that have ended, the oldest go.
    fn delete_old_jobs(&mut self) {
        let ended = |is_wanted: fn(&Job) -> bool| -> Vec<Arc<Job>> {
            let jobs = self.facts.jobs.iter().filter(|job| end_of(job).is_some() && is_wanted(job));
            jobs.cloned().collect()
        };
        let limits = [
            (ended(is_complete), self.spec.successful_jobs_history_limit),
            (ended(|job| !is_complete(job)), self.spec.failed_jobs_history_limit),
        ];
        for (mut jobs, limit) in limits {
            let Some(limit) = limit else { continue };
            let surplus = jobs.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
            jobs.sort_by_cached_key(|job| {
                let start = job.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0);
                (start.is_none(), start, job.metadata.name.clone())
            });
            for job in jobs.into_iter().take(surplus) {
                // What only the Job itself tells must be in the stored status before it goes.
                match self.is_accounted_for(&job) {
                    true => self.delete(&job),
                    false => self.plan.look_again(Some(SOON)),
                }
            }
        }
    }

    /// Whether the status that is stored says all of the Job that it will ever say.
    fn is_accounted_for(&self, job: &Job) -> bool {
        let stored = self.facts.cron_job.status.clone().unwrap_or_default();
        let is_active = stored.active.iter().flatten().any(|active| active.uid == job.metadata.uid);
        let completed = job.status.as_ref().and_then(|status| status.completion_time.clone());
        let completed = completed.filter(|_| is_complete(job));
        let is_scheduled = self.scheduled_time(job).is_none_or(|time| stored.last_schedule_time >= Some(Time(time)));
        !is_active && is_scheduled && (completed.is_none() || stored.last_successful_time >= completed)
    }

    fn delete(&mut self, job: &Job) {
        self.forget(job);
        if job.metadata.deletion_timestamp.is_some() {
            return;
        }
        let deletion = Write::delete(job)
            .cascading(Cascade::Background)
            .saying("SuccessfulDelete", "Deleted job {name}")
            .warning("FailedDelete", "Deleted job: {error}");
        self.plan.writes.push(deletion);
    }

    /// Starts the Job whose time has come, if it may, and says when to look again.
    fn start(&mut self) {
        if let Some(zone) = &self.spec.time_zone
            && let Err(problem) = time_zone(zone)
        {
            self.tell(Note::warning("UnknownTimeZone", format!("invalid timeZone: {zone:?}: {problem}")));
            return;
        }
        if self.spec.suspend == Some(true) {
            return;
        }
        let schedule = match self.schedule() {
            Ok(schedule) => schedule,
            Err(problem) => {
                let message = format!("unparseable schedule: {:?} : {problem}", self.spec.schedule);
                self.tell(Note::warning("UnparseableSchedule", message));
                return;
            }
        };
        let due = match due::missed(&schedule, self.earliest(true), self.facts.now) {
            Ok(due) => due,
            Err(problem) => {
                let message = format!("invalid schedule: {} : {problem}", self.spec.schedule);
                self.tell(Note::warning("InvalidSchedule", message));
                return;
            }
        };
        if let Some(time) = due.last {
            if due.is_many {
                let message =
                    "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
                self.tell(Note::warning("TooManyMissedTimes", message));
            }
            self.start_for(time);
        }
        let wait = due::wait(&schedule, self.earliest(false), self.facts.now);
        self.plan.look_again(wait);
    }

    fn start_for(&mut self, time: Timestamp) {
        let deadline = self.spec.starting_deadline_seconds.map(jiff::SignedDuration::from_secs);
        let is_late = |deadline| time.checked_add(deadline).is_ok_and(|deadline| deadline < self.facts.now);
        if deadline.is_some_and(is_late) {
            let shown = time.to_zoned(jiff::tz::TimeZone::UTC).strftime("%a, %d %b %Y %H:%M:%S %z").to_string();
            self.tell(Note::warning("MissSchedule", format!("Missed scheduled time to start a job: {shown}")));
            return;
        }
        let name = job_name(self.facts.cron_job, time);
        if self.last_time() == Some(time) || self.active().any(|job| job.name.as_deref() == Some(name.as_str())) {
            return;
        }
        let policy = self.spec.concurrency_policy.as_deref();
        if policy == Some("Forbid") && self.active().next().is_some() {
            let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
            self.tell(Note::normal("JobAlreadyActive", message));
            return;
        }
        if policy == Some("Replace") {
            let uids: BTreeSet<Option<String>> = self.active().map(|job| job.uid.clone()).collect();
            let running = self.facts.jobs.iter().filter(|job| uids.contains(&job.metadata.uid));
            for job in running.cloned().collect::<Vec<_>>() {
                self.delete(&job);
            }
        }
        let creation = Write::create(&self.job_for(time, name))
            .unless_there()
            .saying("SuccessfulCreate", "Created job {name}")
            .warning("FailedCreate", "Error creating job: {error}");
        self.plan.writes.push(creation);
    }

    fn job_for(&self, time: Timestamp, name: String) -> Job {
        let template = self.spec.job_template.metadata.clone().unwrap_or_default();
        let mut annotations = template.annotations.unwrap_or_default();
        annotations.insert(SCHEDULED.to_owned(), self.shown(time));
        Job {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: self.facts.cron_job.metadata.namespace.clone(),
                labels: template.labels,
                annotations: Some(annotations),
                owner_references: Some(vec![owner::controller_reference(self.facts.cron_job)]),
                ..ObjectMeta::default()
            },
            spec: self.spec.job_template.spec.clone(),
            status: None,
        }
    }

    /// The time as RFC 3339 has it in the CronJob's time zone.
    fn shown(&self, time: Timestamp) -> String {
        let zone = time_zone(self.spec.time_zone.as_deref().unwrap_or_default());
        let there = time.to_zoned(zone.unwrap_or(jiff::tz::TimeZone::UTC));
        let format = if there.offset().is_zero() { "%Y-%m-%dT%H:%M:%SZ" } else { "%Y-%m-%dT%H:%M:%S%:z" };
        there.strftime(format).to_string()
    }

    fn schedule(&mut self) -> Result<Schedule, pintle_rules::cron::Unreadable> {
        let schedule = &self.spec.schedule;
        if schedule.contains("TZ") {
            let message = format!(
                "CRON_TZ or TZ used in schedule {schedule:?} is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            );
            self.tell(Note::warning("UnsupportedSchedule", message));
            return Schedule::parse(schedule);
        }
        Schedule::parse_in(schedule, time_zone(self.spec.time_zone.as_deref().unwrap_or_default())?)
    }

    /// Nothing before this is made up for.
    fn earliest(&self, with_deadline: bool) -> Timestamp {
        let meta = &self.facts.cron_job.metadata;
        let created = meta.creation_timestamp.as_ref().map_or(self.facts.now, |time| time.0);
        let deadline = self.spec.starting_deadline_seconds.filter(|_| with_deadline);
        let deadline =
            deadline.and_then(|seconds| self.facts.now.checked_sub(jiff::SignedDuration::from_secs(seconds)).ok());
        let from = self.last_time().unwrap_or(created);
        [Some(from), deadline, self.facts.changed_at].into_iter().flatten().max().unwrap_or(from)
    }

    fn last_time(&self) -> Option<Timestamp> {
        self.status.last_schedule_time.as_ref().map(|time| time.0)
    }

    fn active(&self) -> impl Iterator<Item = &ObjectReference> {
        self.status.active.iter().flatten()
    }

    fn forget(&mut self, job: &Job) {
        let active = self.status.active.take().unwrap_or_default();
        self.set_active(active.into_iter().filter(|active| active.uid != job.metadata.uid).collect());
    }

    fn set_active(&mut self, active: Vec<ObjectReference>) {
        self.status.active = Some(active).filter(|active| !active.is_empty());
    }

    fn tell(&mut self, note: Note) {
        self.plan.events.push(note);
    }
}

/// A name that two Jobs for the same minute have in common.
fn job_name(cron_job: &CronJob, time: Timestamp) -> String {
    format!("{}-{}", cron_job.metadata.name.as_deref().unwrap_or_default(), time.as_second().div_euclid(60))
}

fn reference(job: &Job) -> ObjectReference {
    ObjectReference {
        api_version: Some("batch/v1".to_owned()),
        kind: Some("Job".to_owned()),
        namespace: job.metadata.namespace.clone(),
        name: job.metadata.name.clone(),
        uid: job.metadata.uid.clone(),
        resource_version: job.metadata.resource_version.clone(),
        field_path: None,
    }
}
