//! The quota loop: how much of each ResourceQuota is used.
//!
//! Watches ResourceQuotas, and what they count: Pods, Services and claims, and the metadata of every other resource that a
//! quota names. Keys are quotas. What is created is charged by the API server in the same transaction; this loop counts what
//! a new quota finds, and gives back what is freed.

mod apply;
mod monitors;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ResourceQuota, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ApiResource;
use pintle_rules::quota::Evaluator;
use pintle_runtime::{Backoff, Change, Context, Controller, Informer, Key};
use serde::Serialize;
use tokio::sync::Notify;

use apply::Quotas;
use monitors::Monitors;

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    let quotas = context.informers.of::<ResourceQuota>();
    let (pods, services) = (context.informers.of::<Pod>(), context.informers.of::<Service>());
    let claims = context.informers.of::<PersistentVolumeClaim>();
    let renamed = Arc::new(Notify::new());
    let (names, own) = (renamed.clone(), quotas.clone());
    let controller = Controller::new("resourcequota", &context)
        .workers(5)
        .watch(&quotas, move |change| {
            if limits_differ(change) {
                names.notify_one();
            }
            quotas_to_count(&own, change)
        })
        .watch(&pods, freed(&context, "pods", quotas.clone()))
        .watch(&services, freed(&context, "services", quotas.clone()))
        .watch(&claims, freed(&context, "persistentvolumeclaims", quotas.clone()));

    let definitions = context.informers.metadata(&ApiResource::erase::<CustomResourceDefinition>(&()));
    let _registration = definitions.on_change({
        let renamed = renamed.clone();
        move |change| {
            if !change.is_resync() {
                renamed.notify_one();
            }
        }
    });
    let mut monitors = Monitors::new(&context, quotas.clone(), controller.waker());
    let reconciler = Quotas::new(&context, monitors.resources());
    let random = context.random.clone();
    let follow = async move {
        let mut failures = 0;
        loop {
            match monitors.refresh().await {
                Ok(()) => {
                    failures = 0;
                    renamed.notified().await;
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot discover what quotas count; trying again");
                    tokio::time::sleep(Backoff::WATCH.after_with_jitter(failures, &random)).await;
                    failures += 1;
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = controller.run(reconciler) => {}
        () = follow => {}
    }
}

fn limits_differ(change: &Change<ResourceQuota>) -> bool {
    let spec_of = |quota: &ResourceQuota| quota.spec.clone();
    change.old().is_none_or(|old| spec_of(old) != spec_of(change.object()))
}

/// A quota is counted when it is new or limits something else. Its status is the API server's doing, which charges it, or this
/// loop's. One that is gone may itself have been counted by another.
fn quotas_to_count(quotas: &Informer<ResourceQuota>, change: &Change<ResourceQuota>) -> Vec<Key> {
    if change.is_deleted() {
        return all_of(quotas, change.key().namespace());
    }
    if limits_differ(change) || change.is_resync() { vec![change.key()] } else { Vec::new() }
}

fn all_of(quotas: &Informer<ResourceQuota>, namespace: &str) -> Vec<Key> {
    quotas.in_namespace(namespace).iter().map(|quota| Key::of(quota.as_ref())).collect()
}

/// The quotas of the namespace when an object of this kind uses less than before. Elsewhere nothing is looked at.
fn freed<K>(
    context: &Context,
    resource: &'static str,
    quotas: Informer<ResourceQuota>,
) -> impl Fn(&Change<K>) -> Vec<Key> + Send + Sync + 'static
where
    K: kube::Resource + Serialize,
{
    let (clock, evaluator) = (context.clock.clone(), Evaluator::of("", resource));
    move |change| {
        let keys = all_of(&quotas, change.key().namespace());
        let (false, Some(evaluator)) = (keys.is_empty(), &evaluator) else { return Vec::new() };
        let value = |object: &K| serde_json::to_value(object).unwrap_or_default();
        let frees = match change.old() {
            Some(old) => evaluator.releases(&value(old), &value(change.object()), clock.now()),
            None => change.is_deleted(),
        };
        if frees { keys } else { Vec::new() }
    }
}
