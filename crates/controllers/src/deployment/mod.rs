//! The deployment loop: one ReplicaSet a template, and the change from one to the next.
//!
//! Watches Deployments; ReplicaSets, by their controller reference or by the selectors that match; and the end of Pods,
//! for which a Deployment that recreates waits.

mod apply;
mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use pintle_runtime::{Change, Context, Controller, Informer, Key, owner};

use crate::pods;
use apply::Rollouts;

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    let deployments = context.informers.of::<Deployment>();
    let sets = context.informers.of::<ReplicaSet>();
    let pods = context.informers.of::<Pod>();
    pods::index_by_controller(&pods);

    Controller::new("deployment", &context)
        .workers(5)
        .watch(&deployments, |change| vec![change.key()])
        .watch(&sets, {
            let deployments = deployments.clone();
            move |change| deployments_of(change, &deployments)
        })
        .watch(&pods, {
            let (deployments, sets) = (deployments.clone(), sets.clone());
            move |change| waiting_for_the_end_of(change, &deployments, &sets)
        })
        .run(Rollouts::new(&context, deployments, sets, pods))
        .await;
}

fn deployments_of(change: &Change<ReplicaSet>, deployments: &Informer<Deployment>) -> Vec<Key> {
    let set = change.object();
    if change.is_resync() {
        return Vec::new();
    }
    let before = change.old().and_then(|old| owner::controller_key::<Deployment>(&old.metadata));
    let mut keys: Vec<Key> = before.into_iter().collect();
    match owner::controller_key::<Deployment>(&set.metadata) {
        Some(key) => keys.push(key),
        None if change.is_deleted() || owner::controller_of(&set.metadata).is_some() => {}
        None => keys.extend(deployments_that_select(set, deployments)),
    }
    keys
}

fn deployments_that_select(set: &ReplicaSet, deployments: &Informer<Deployment>) -> Vec<Key> {
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    let selects = |deployment: &Deployment| {
        let selector = deployment.spec.as_ref().and_then(|spec| owner::parse_selector(&spec.selector).ok());
        selector.is_some_and(|selector| !selector.selects_all() && owner::matches(&selector, &set.metadata))
    };
    let all = deployments.in_namespace(namespace);
    all.iter().filter(|deployment| selects(deployment)).map(|deployment| Key::of(deployment.as_ref())).collect()
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
