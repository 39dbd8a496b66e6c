//! The cronjob loop: a Job at each time that a schedule says.
//!
//! Watches CronJobs, and Jobs by their controller reference. A key comes back when its next time has come.

mod due;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use pintle_runtime::{
    Action, Attempt, Clock, Context, Controller, Error, Executor, Informer, Key, Reconciler, owner, when,
};

use plan::Facts;

/// Index of Jobs: the UID of the CronJob.
fn controller(job: &Job) -> Vec<String> {
    owner::controller_of(&job.metadata).map(|owner| owner.uid.clone()).into_iter().collect()
}

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    let (cron_jobs, jobs) = (context.informers.of::<CronJob>(), context.informers.of::<Job>());
    jobs.index(controller);
    let executor = Executor::new(&context, "cronjob-controller");
    let clock = context.clock.clone();

    Controller::new("cronjob", &context)
        .workers(5)
        .for_each::<CronJob>(when::anything)
        .owns::<Job>(when::anything)
        .run(CronJobs { clock, executor, cron_jobs, jobs, schedules: Mutex::default() })
        .await;
}

struct CronJobs {
    clock: Clock,
    executor: Executor,
    cron_jobs: Informer<CronJob>,
    jobs: Informer<Job>,
    schedules: Mutex<BTreeMap<Key, Known>>,
}

/// The schedule that a CronJob had when it was last looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    uid: Option<String>,
    schedule: String,
    time_zone: Option<String>,
    /// Since when, if it had another one before. Times before that are not made up for.
    since: Option<Timestamp>,
}

impl Reconciler for CronJobs {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(cron_job) = self.cron_jobs.get(key) else {
            self.schedules.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
            return Ok(Action::done());
        };
        let now = self.clock.now();
        let changed_at = self.changed_at(key, &cron_job, now);
        let jobs = self.jobs.by(controller, cron_job.metadata.uid.as_deref().unwrap_or_default());
        let plan = plan::plan(&Facts { cron_job: &cron_job, jobs, changed_at, now });
        Ok(self.executor.execute(cron_job.as_ref(), plan).await?)
    }
}

impl CronJobs {
    fn changed_at(&self, key: &Key, cron_job: &CronJob, now: Timestamp) -> Option<Timestamp> {
        let spec = &cron_job.spec;
        let (uid, schedule, time_zone) = (cron_job.metadata.uid.clone(), spec.schedule.clone(), spec.time_zone.clone());
        let mut all = self.schedules.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.get(key).filter(|known| known.uid == uid);
        let since = match before {
            Some(known) if known.schedule == schedule && known.time_zone == time_zone => known.since,
            Some(_) => Some(now),
            None => None,
        };
        all.insert(key.clone(), Known { uid, schedule, time_zone, since });
        since
    }
}
