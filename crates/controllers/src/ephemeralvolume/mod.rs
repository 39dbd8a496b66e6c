//! The ephemeralvolume loop: each Pod with generic ephemeral volumes gets their claims, which go with it.
//!
//! Watches Pods, and claims that are deleted. Keys are Pods.

mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use pintle_runtime::{Context, Controller, Executor, Key, Plan, owner};

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    let (pods, claims) = (context.informers.of::<Pod>(), context.informers.of::<PersistentVolumeClaim>());
    let executor = Executor::new(&context, "ephemeral_volume");
    let (known, of_pods) = (claims.clone(), pods.clone());
    Controller::new("ephemeral-volume", &context)
        .watch(&pods, |change| match change.old() {
            // A Pod's volumes do not change, and its claims go by themselves.
            Some(_) => Vec::new(),
            None if plan::has_ephemeral_volumes(change.object()) => vec![change.key()],
            None => Vec::new(),
        })
        .watch(&claims, |change| match change.is_deleted() {
            true => owner::controller_key::<Pod>(&change.object().metadata).into_iter().collect(),
            false => Vec::new(),
        })
        .run_plans(executor, move |key| {
            let pod = of_pods.get(key);
            let find = |name: &str| known.get(&Key::new(key.namespace(), name));
            pod.map_or_else(Plan::default, |pod| plan::plan(&pod, find).about(pod.as_ref()))
        })
        .await;
}
