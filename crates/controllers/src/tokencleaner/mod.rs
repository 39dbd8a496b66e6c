//! The tokencleaner loop: bootstrap tokens go when they have expired.
//!
//! Watches the Secrets of `kube-system` that hold such tokens.

mod apply;
mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::Secret;
use pintle_runtime::{Context, Controller, Selection};

use apply::Cleaner;

/// Runs until the context's shutdown fires. Keys are Secrets.
pub(crate) async fn run(context: Context) {
    let chosen = Selection::fields(format!("metadata.namespace=kube-system,type={}", plan::TYPE));
    let secrets = context.informers.select::<Secret>(chosen);
    Controller::new("token-cleaner", &context)
        .watch(&secrets, |change| vec![change.key()])
        .run(Cleaner::new(&context, secrets))
        .await;
}
