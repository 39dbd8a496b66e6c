//! The job loop: Pods that run until enough of them have succeeded, each counted exactly once.
//!
//! Watches Jobs, and Pods: those it owns by their controller reference, orphans by the selectors that match. A second loop
//! (`orphans`) takes the tracking finalizer off Pods that no unfinished Job counts.

mod orphans;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use pintle_runtime::claim::claim_with_finalizer;
use pintle_runtime::{
    Action, Attempt, Clock, Context, Controller, Error, Executor, Informer, Key, Reconciler, owner, when,
};

use crate::pods;
use plan::{Backoff, Facts};
pub(crate) use plan::{end_of, is_complete};

/// A Pod with this finalizer has not been counted in its Job's status yet.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// What `spec.managedBy` says of a Job that is this loop's, if it says anything.
const MANAGER: &str = "kubernetes.io/job-controller";

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    let (jobs, pods) = (context.informers.of::<Job>(), context.informers.of::<Pod>());
    pods::index_by_controller(&pods);
    let (client, clock) = (context.client.clone(), context.clock.clone());
    let executor = Executor::new(&context, "job-controller");
    let orphans = orphans::run(&context, executor.clone(), jobs.clone(), pods.clone());

    let counting = Controller::new("job", &context)
        .workers(5)
        .for_each::<Job>(when::anything)
        .adopts::<Job, Pod>(|job| owner::parse_selector(job.spec.as_ref()?.selector.as_ref()?).ok())
        .run(Jobs { client, clock, executor, jobs, pods, backoffs: Mutex::default() });
    futures::future::join(counting, orphans).await;
}

struct Jobs {
    client: Client,
    clock: Clock,
    executor: Executor,
    jobs: Informer<Job>,
    pods: Informer<Pod>,
    /// How the Pods of each unfinished Job have failed, with the Job's UID. After a restart it is derived anew.
    backoffs: Mutex<BTreeMap<Key, (String, Backoff)>>,
}

impl Reconciler for Jobs {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let job = self.jobs.get(key).filter(|job| !plan::is_finished(job) && is_managed_here(job));
        let Some(job) = job else {
            self.backoffs.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
            return Ok(Action::done());
        };
        let pods = self.claimed_pods(&job).await?;
        let backoff = self.backoff_of(key, &job, &pods);
        let plan = plan::plan(&Facts { job: &job, pods, backoff, now: self.clock.now() });
        Ok(self.executor.execute(job.as_ref(), plan).await?)
    }
}

impl Jobs {
    /// The Pods that are the Job's, after adopting and releasing.
    async fn claimed_pods(&self, job: &Job) -> Result<Vec<Arc<Pod>>, Error> {
        let selector = job.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default();
        let selector = owner::parse_selector(&selector)?;
        let mut candidates = pods::controlled_by(&self.pods, job.metadata.uid.as_deref().unwrap_or_default());
        // An empty selector would adopt every Pod of the namespace.
        if !selector.selects_all() {
            candidates.extend(pods::orphans_in(&self.pods, job.metadata.namespace.as_deref().unwrap_or_default()));
        }
        claim_with_finalizer(&self.client, job, &selector, candidates, TRACKING).await
    }

    fn backoff_of(&self, key: &Key, job: &Job, pods: &[Arc<Pod>]) -> Backoff {
        let uid = job.metadata.uid.clone().unwrap_or_default();
        let mut all = self.backoffs.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.get(key).filter(|(of, _)| *of == uid).map(|(_, backoff)| backoff);
        let backoff = Backoff::after(before, job, pods);
        all.insert(key.clone(), (uid, backoff.clone()));
        backoff
    }
}

/// Whether no other program was named to run the Job.
fn is_managed_here(job: &Job) -> bool {
    let manager = job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref());
    manager.is_none_or(|manager| manager == MANAGER)
}

fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == TRACKING)
}
