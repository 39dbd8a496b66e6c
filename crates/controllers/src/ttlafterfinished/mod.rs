//! The loop that deletes Jobs some time after they have ended, if they say so. Watches Jobs.

mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::batch::v1::Job;
use pintle_runtime::{Action, Attempt, Clock, Context, Controller, Error, Executor, Informer, Key, Reconciler};

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    let jobs = context.informers.of::<Job>();
    let executor = Executor::new(&context, "ttl-after-finished-controller");
    let clock = context.clock.clone();
    Controller::new("ttlafterfinished", &context)
        .workers(5)
        .for_each::<Job>(|change| !change.is_deleted() && plan::is_concerned(change.object()))
        .run(Finished { clock, executor, jobs })
        .await;
}

struct Finished {
    clock: Clock,
    executor: Executor,
    jobs: Informer<Job>,
}

impl Reconciler for Finished {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(job) = self.jobs.get(key) else { return Ok(Action::done()) };
        let plan = plan::plan(&job, self.clock.now());
        Ok(self.executor.execute(job.as_ref(), plan).await?)
    }
}
