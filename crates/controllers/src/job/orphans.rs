//! Takes the tracking finalizer off Pods whose Job is gone or finished: nobody would, and they could not go.

use std::future::Future;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use pintle_runtime::{
    Action, Attempt, Context, Controller, Error, Executor, Informer, Key, Plan, Reconciler, owner, when,
};

use super::plan::{is_finished, without_finalizer};
use super::{is_managed_here, is_tracked};
use crate::pods;

/// Runs until the context's shutdown fires.
pub(super) fn run(
    context: &Context,
    executor: Executor,
    jobs: Informer<Job>,
    pods: Informer<Pod>,
) -> impl Future<Output = ()> + Send + use<> {
    let of_job = pods.clone();
    let ended = move |change: &pintle_runtime::Change<Job>| {
        if !change.is_deleted() && !is_finished(change.object()) {
            return Vec::new();
        }
        let uid = change.object().metadata.uid.clone().unwrap_or_default();
        let pods = pods::controlled_by(&of_job, &uid);
        pods.iter().filter(|pod| is_tracked(pod)).map(|pod| Key::of(pod.as_ref())).collect()
    };
    Controller::new("job-orphans", context)
        .workers(2)
        .for_each::<Pod>(|change| !change.is_deleted() && is_tracked(change.object()))
        .watches::<Job>(when::anything, ended)
        .run(Orphans { executor, jobs, pods })
}

struct Orphans {
    executor: Executor,
    jobs: Informer<Job>,
    pods: Informer<Pod>,
}

impl Reconciler for Orphans {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(pod) = self.pods.get(key) else { return Ok(Action::done()) };
        let job = owner::controller_key::<Job>(&pod.metadata).and_then(|key| self.jobs.get(&key));
        let plan = if is_left_over(&pod, job.as_ref()) { without_finalizer(&pod) } else { Vec::new() };
        Ok(self.executor.execute(pod.as_ref(), Plan::of(plan)).await?)
    }
}

/// Whether no Job will count the Pod any more. `job` is what has the name that the Pod's controller has.
pub(super) fn is_left_over(pod: &Pod, job: Option<&Arc<Job>>) -> bool {
    let Some(controller) = owner::controller_of(&pod.metadata) else { return is_tracked(pod) };
    if controller.kind != "Job" || controller.api_version != "batch/v1" {
        // What kind that is, and what it does with the finalizer, is not known here.
        return false;
    }
    let job = job.filter(|job| job.metadata.uid.as_deref() == Some(controller.uid.as_str()));
    is_tracked(pod) && job.is_none_or(|job| is_managed_here(job) && is_finished(job))
}
