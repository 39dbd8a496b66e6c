//! The serviceaccount loop: every active namespace has a service account `default`.
//!
//! Watches Namespaces, and ServiceAccounts that go.

mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use pintle_runtime::{Context, Controller, Executor, Key};

/// Runs until the context's shutdown fires. Keys are namespaces.
pub(crate) async fn run(context: Context) {
    let (namespaces, accounts) = (context.informers.of::<Namespace>(), context.informers.of::<ServiceAccount>());
    let executor = Executor::new(&context, "serviceaccount-controller");
    Controller::new("serviceaccount", &context)
        .watch(&namespaces, |change| vec![change.key()])
        .watch(&accounts, |change| match change.is_deleted() {
            true => vec![Key::cluster(change.key().namespace())],
            false => Vec::new(),
        })
        .run_plans(executor, move |key| {
            let account = accounts.get(&Key::new(key.name(), plan::DEFAULT));
            plan::plan(namespaces.get(key).as_deref(), account.as_deref())
        })
        .await;
}
