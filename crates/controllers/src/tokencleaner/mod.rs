//! The tokencleaner loop: bootstrap tokens go when they have expired.
//!
//! Watches the Secrets of `kube-system` that hold such tokens.

mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::Secret;
use pintle_runtime::{Context, Controller, Executor, Selection};

/// Runs until the context's shutdown fires. Keys are Secrets.
pub(crate) async fn run(context: Context) {
    let chosen = Selection::fields(format!("metadata.namespace=kube-system,type={}", plan::TYPE));
    let secrets = context.informers.select::<Secret>(chosen);
    let (executor, clock) = (Executor::new(&context, "token-cleaner"), context.clock.clone());
    Controller::new("token-cleaner", &context)
        .watch(&secrets, |change| vec![change.key()])
        .run_plans(executor, move |key| {
            secrets.get(key).map(|secret| plan::plan(&secret, clock.now())).unwrap_or_default()
        })
        .await;
}
