//! The replicaset loop: as many Pods as asked for, made from the template.
//!
//! Watches ReplicaSets, and Pods: those it owns by their controller reference, orphans by the selectors that match.

mod apply;
mod plan;
mod rank;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use pintle_runtime::{Change, Context, Controller, Expectations, Informer, Key, owner};

use crate::pods;
use apply::Replicas;

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    let (sets, pods) = (context.informers.of::<ReplicaSet>(), context.informers.of::<Pod>());
    pods::index_by_controller(&pods);
    index_by_owner(&sets);
    let expectations = Arc::new(Expectations::new(context.clock.clone()));

    Controller::new("replicaset", &context)
        .workers(5)
        .watch(&sets, {
            let expectations = expectations.clone();
            move |change| {
                // A successor of the same name starts without its predecessor's debts.
                if change.is_deleted() {
                    expectations.forget(&change.key());
                }
                vec![change.key()]
            }
        })
        .watch(&pods, {
            let (expectations, sets) = (expectations.clone(), sets.clone());
            move |change| sets_of(change, &sets, &expectations)
        })
        .run(Replicas::new(&context, sets, pods, expectations))
        .await;
}

/// Name of the index that finds the ReplicaSets of one Deployment by its UID.
const BY_OWNER: &str = "owner";

fn index_by_owner(sets: &Informer<ReplicaSet>) {
    sets.add_index(BY_OWNER, |set| {
        owner::controller_of(&set.metadata).map(|owner| owner.uid.clone()).into_iter().collect()
    });
}

/// Whom a Pod's change concerns; notes on the way what the loop was waiting for.
fn sets_of(change: &Change<Pod>, sets: &Informer<ReplicaSet>, expectations: &Expectations) -> Vec<Key> {
    let pod = change.object();
    let key = owner::controller_key::<ReplicaSet>(&pod.metadata);
    if change.is_resync() {
        return Vec::new();
    }
    let mut keys: Vec<Key> = Vec::new();
    if let Some(old) = change.old() {
        let before = owner::controller_key::<ReplicaSet>(&old.metadata);
        keys.extend(before.filter(|before| Some(before) != key.as_ref()));
    }
    match key {
        Some(key) => {
            let going = change.is_deleted() || pod.metadata.deletion_timestamp.is_some();
            if going {
                expectations.deletion_observed(&key, pod.metadata.uid.as_deref().unwrap_or_default());
            } else if matches!(change, Change::Added(_)) {
                expectations.creation_observed(&key);
            }
            keys.push(key);
        }
        None if change.is_deleted() || owner::controller_of(&pod.metadata).is_some() => {}
        // An orphan: whoever selects it may want to adopt it.
        None => keys.extend(sets_that_select(pod, sets)),
    }
    keys
}

fn sets_that_select(pod: &Pod, sets: &Informer<ReplicaSet>) -> Vec<Key> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let selects = |set: &ReplicaSet| {
        let selector = set.spec.as_ref().and_then(|spec| owner::parse_selector(&spec.selector).ok());
        selector.is_some_and(|selector| !selector.selects_all() && owner::matches(&selector, &pod.metadata))
    };
    sets.in_namespace(namespace).iter().filter(|set| selects(set)).map(|set| Key::of(set.as_ref())).collect()
}
