//! The disruption loop: how many Pods of a budget may be evicted now.
//!
//! Watches PodDisruptionBudgets, Pods, and the ReplicaSets and Deployments that say how many there should be. Keys are
//! budgets; a change of a Pod wakes the budgets of its namespace that select it.

mod apply;
mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use pintle_runtime::{Context, Controller, Informer, Key};

use apply::Budgets;

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    let (budgets, pods) = (context.informers.of::<PodDisruptionBudget>(), context.informers.of::<Pod>());
    let (sets, deployments) = (context.informers.of::<ReplicaSet>(), context.informers.of::<Deployment>());
    let all_of = |budgets: Informer<PodDisruptionBudget>, key: Key| -> Vec<Key> {
        budgets.in_namespace(key.namespace()).iter().map(|budget| Key::of(budget.as_ref())).collect()
    };
    let (by_pod, by_set, by_deployment) = (budgets.clone(), budgets.clone(), budgets.clone());
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
        .watch(&sets, move |change| all_of(by_set.clone(), change.key()))
        .watch(&deployments, move |change| all_of(by_deployment.clone(), change.key()))
        .run(Budgets::new(&context, budgets, pods, sets, deployments))
        .await;
}
