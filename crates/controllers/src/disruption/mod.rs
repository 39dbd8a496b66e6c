//! The disruption loop: how many Pods of a budget may be evicted now.
//!
//! Watches PodDisruptionBudgets, Pods, and the ReplicaSets, Deployments, StatefulSets and ReplicationControllers that say how
//! many there should be; other owners are asked for their scale. Keys are
//! budgets; a change of a Pod wakes the budgets of its namespace that select it.

mod plan;
mod scale;
#[cfg(test)]
mod tests;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use pintle_runtime::controller::Watched;
use pintle_runtime::{
    Action, Attempt, Change, Clock, Context, Controller, Error, Executor, Informer, Key, Reconciler, when,
};

use scale::Scales;

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    let (budgets, pods) = (context.informers.of::<PodDisruptionBudget>(), context.informers.of::<Pod>());
    let wakes_all = |budgets: Informer<PodDisruptionBudget>| {
        move |key: Key| -> Vec<Key> {
            budgets.in_namespace(key.namespace()).iter().map(|budget| Key::of(budget.as_ref())).collect()
        }
    };
    let (by_pod, by_owner) = (budgets.clone(), wakes_all(budgets.clone()));
    let scales = Scales::new(&context);
    let (executor, clock) = (Executor::new(&context, "controllermanager"), context.clock.clone());
    Controller::new("disruption", &context)
        .watch(&budgets, |change| vec![change.key()])
        .watch(&pods, move |change| {
            let budgets = by_pod.in_namespace(change.key().namespace());
            let selected = |pod: &Pod| {
                budgets.iter().filter(|b| plan::covers(b, pod)).map(|b| Key::of(b.as_ref())).collect::<Vec<_>>()
            };
            let mut keys = selected(change.object());
            keys.extend(change.old().map(|old| selected(old)).unwrap_or_default());
            keys
        })
        .watches::<ReplicaSet>(
            |change| when::differs(change, |owner| owner.spec.as_ref().and_then(|spec| spec.replicas)),
            by(by_owner.clone()),
        )
        .watches::<Deployment>(
            |change| when::differs(change, |owner| owner.spec.as_ref().and_then(|spec| spec.replicas)),
            by(by_owner.clone()),
        )
        .watches::<StatefulSet>(
            |change| when::differs(change, |owner| owner.spec.as_ref().and_then(|spec| spec.replicas)),
            by(by_owner.clone()),
        )
        .watches::<ReplicationController>(
            |change| when::differs(change, |owner| owner.spec.as_ref().and_then(|spec| spec.replicas)),
            by(by_owner),
        )
        .run(Budgets { clock, executor, budgets, pods, scales })
        .await;
}

struct Budgets {
    clock: Clock,
    executor: Executor,
    budgets: Informer<PodDisruptionBudget>,
    pods: Informer<Pod>,
    scales: Scales,
}

impl Reconciler for Budgets {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(budget) = self.budgets.get(key) else { return Ok(Action::done()) };
        let pods = self.pods.in_namespace(key.namespace());
        let covered: Vec<&Pod> = pods.iter().map(AsRef::as_ref).filter(|pod| plan::covers(&budget, pod)).collect();
        let wanted = match plan::asks_for_scale(&budget) {
            true => self.scales.of(key.namespace(), &covered).await,
            false => Ok(scale::Wanted::default()),
        };
        let failure = wanted.as_ref().err().cloned();
        let plan = plan::plan(&budget, &covered, wanted, self.clock.now());
        let action = self.executor.execute(budget.as_ref(), plan).await?;
        // Said in the status; and tried again.
        failure.map_or(Ok(action), |why| Err(Error::Invalid(why)))
    }
}

/// The keys that a change of an owner wakes.
fn by<K: Watched>(
    keys_of: impl Fn(Key) -> Vec<Key> + Send + Sync + 'static,
) -> impl Fn(&Change<K>) -> Vec<Key> + Send + Sync + 'static {
    move |change| keys_of(change.key())
}
