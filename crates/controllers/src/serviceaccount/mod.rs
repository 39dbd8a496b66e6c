//! The serviceaccount loop: every active namespace has a service account `default`.
//!
//! Watches Namespaces, and ServiceAccounts that go.

mod apply;
mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use pintle_runtime::{Context, Controller, Key};

use apply::Defaults;

/// Runs until the context's shutdown fires. Keys are namespaces.
pub(crate) async fn run(context: Context) {
    let (namespaces, accounts) = (context.informers.of::<Namespace>(), context.informers.of::<ServiceAccount>());
    Controller::new("serviceaccount", &context)
        .watch(&namespaces, |change| vec![change.key()])
        .watch(&accounts, |change| match change.is_deleted() {
            true => vec![Key::cluster(change.key().namespace())],
            false => Vec::new(),
        })
        .run(Defaults::new(&context, namespaces, accounts))
        .await;
}
