//! The deployment loop: one ReplicaSet a template, and the change from one to the next.
//!
//! Watches Deployments; ReplicaSets, by their controller reference or by the selectors that match; and the end of Pods,
//! for which a Deployment that recreates waits.

mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use pintle_runtime::claim::claim;
use pintle_runtime::plan::{Note, What};
use pintle_runtime::{
    Action, ApiError, Attempt, Change, Clock, Context, Controller, Error, Executor, Informer, Key, Objects, Plan,
    Reconciler, owner, when,
};

use crate::pods;
use plan::Facts;

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    let deployments = context.informers.of::<Deployment>();
    let sets = context.informers.of::<ReplicaSet>();
    let pods = context.informers.of::<Pod>();
    pods::index_by_controller(&pods);
    let (client, clock) = (context.client.clone(), context.clock.clone());
    let executor = Executor::new(&context, "deployment-controller");

    Controller::new("deployment", &context)
        .workers(5)
        .for_each::<Deployment>(when::anything)
        .adopts::<Deployment, ReplicaSet>(|deployment| owner::parse_selector(&deployment.spec.as_ref()?.selector).ok())
        .watch(&pods, {
            let (deployments, sets) = (deployments.clone(), sets.clone());
            move |change| waiting_for_the_end_of(change, &deployments, &sets)
        })
        .run(Rollouts { client, clock, executor, deployments, sets, pods })
        .await;
}

struct Rollouts {
    client: Client,
    clock: Clock,
    executor: Executor,
    deployments: Informer<Deployment>,
    sets: Informer<ReplicaSet>,
    pods: Informer<Pod>,
}

impl Reconciler for Rollouts {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(deployment) = self.deployments.get(key) else { return Ok(Action::done()) };
        let Some(spec) = &deployment.spec else { return Ok(Action::done()) };
        let selector = owner::parse_selector(&spec.selector)?;
        if selector.selects_all() {
            let message = "This deployment is selecting all pods. A non-empty selector is required.";
            let plan = Plan::telling(Note::warning("SelectingAll", message));
            return Ok(self.executor.execute(deployment.as_ref(), plan).await?);
        }
        let candidates = self.sets.in_namespace(key.namespace());
        let sets = claim(&self.client, deployment.as_ref(), &selector, candidates).await?;
        let runs_pods = |uid: &String| pods::controlled_by(&self.pods, uid).iter().any(|pod| !pods::is_terminal(pod));
        let plan = plan::plan(Facts {
            deployment: deployment.as_ref().clone(),
            with_running_pods: sets.iter().filter_map(|set| set.metadata.uid.clone()).filter(runs_pods).collect(),
            sets: sets.iter().map(|set| set.as_ref().clone()).collect(),
            now: self.clock.now(),
        });
        let created = plan.writes.iter().position(|write| matches!(write.what, What::Create { .. }));
        let created = created.map(|index| (index, plan.writes[index].name.clone()));
        match (self.executor.execute(deployment.as_ref(), plan).await, created) {
            (Ok(action), _) => Ok(action),
            (Err(failed), Some((index, set))) if failed.write == Some(index) => {
                Err(self.not_created(&deployment, &set, failed.error).await)
            }
            (Err(failed), _) => Err(failed.into()),
        }
    }
}

impl Rollouts {
    /// Says in the status why the new ReplicaSet was not created.
    async fn not_created(&self, deployment: &Deployment, set: &str, error: kube::Error) -> Error {
        if error.is_already_exists() && self.is_already_there(deployment, set).await {
            return Error::Stale;
        }
        let plan = plan::after_failed_creation(deployment, set, &error, self.clock.now());
        if let Err(unwritten) = self.executor.execute(deployment, plan).await {
            tracing::warn!(error = %unwritten.error, "the status was not written");
        }
        error.into()
    }

    /// Whether the set with this name is the one that should have been created: the answer to its creation was lost.
    async fn is_already_there(&self, deployment: &Deployment, set: &str) -> bool {
        let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
        let present = Objects::<ReplicaSet>::namespaced(self.client.clone(), namespace).get(set).await;
        present.is_ok_and(|present| {
            let is_ours = owner::is_controlled_by(&present.metadata, deployment.metadata.uid.as_deref());
            is_ours && plan::same_template(deployment, &present)
        })
    }
}

fn waiting_for_the_end_of(
    change: &Change<Pod>,
    deployments: &Informer<Deployment>,
    sets: &Informer<ReplicaSet>,
) -> Vec<Key> {
    if !change.is_deleted() {
        return Vec::new();
    }
    let set = owner::controller_key::<ReplicaSet>(&change.object().metadata).and_then(|key| sets.get(&key));
    let key = set.and_then(|set| owner::controller_key::<Deployment>(&set.metadata));
    let recreates = |key: &Key| deployments.get(key).is_some_and(|deployment| !plan::is_rolling(&deployment));
    key.filter(recreates).into_iter().collect()
}
