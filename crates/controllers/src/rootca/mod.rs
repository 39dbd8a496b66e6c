//! The root-ca loop: every namespace has the certificates with which its Pods check the API server.
//!
//! Watches Namespaces, and the ConfigMap `kube-root-ca.crt` in each.

mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use pintle_runtime::{Context, Controller, Executor, Key, Selection};

/// Runs until the context's shutdown fires; ends at once if there is nothing to publish. Keys are namespaces.
pub(crate) async fn run(context: Context, root_ca: Option<String>) {
    let Some(root_ca) = root_ca else { return };
    let namespaces = context.informers.of::<Namespace>();
    let maps = context.informers.select::<ConfigMap>(Selection::fields(format!("metadata.name={}", plan::NAME)));
    let executor = Executor::new(&context, "root-ca-cert-publisher");
    Controller::new("root-ca", &context)
        .watch(&namespaces, |change| vec![change.key()])
        .watch(&maps, |change| vec![Key::cluster(change.key().namespace())])
        .run_plans(executor, move |key| {
            let map = maps.get(&Key::new(key.name(), plan::NAME));
            plan::plan(namespaces.get(key).as_deref(), map.as_deref(), &root_ca)
        })
        .await;
}
