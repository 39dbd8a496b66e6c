//! The root-ca loop: every namespace has the certificates with which its Pods check the API server.
//!
//! Watches Namespaces, and the ConfigMap `kube-root-ca.crt` in each.

mod apply;
mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use pintle_runtime::{Context, Controller, Key, Selection};

use apply::Publisher;

/// Runs until the context's shutdown fires; ends at once if there is nothing to publish. Keys are namespaces.
pub(crate) async fn run(context: Context, root_ca: Option<String>) {
    let Some(root_ca) = root_ca else { return };
    let namespaces = context.informers.of::<Namespace>();
    let maps = context.informers.select::<ConfigMap>(Selection::fields(format!("metadata.name={}", plan::NAME)));
    Controller::new("root-ca", &context)
        .watch(&namespaces, |change| vec![change.key()])
        .watch(&maps, |change| vec![Key::cluster(change.key().namespace())])
        .run(Publisher::new(&context, namespaces, maps, root_ca))
        .await;
}
