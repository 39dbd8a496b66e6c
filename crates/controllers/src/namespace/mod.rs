//! The namespace loop: what is in a namespace goes before the namespace does.
//!
//! Watches Namespaces that are being deleted. What is in them is found by discovery, custom resources included.

mod apply;
mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::Namespace;
use pintle_runtime::{Context, Controller};

use apply::Emptier;

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    let namespaces = context.informers.of::<Namespace>();
    Controller::new("namespace", &context)
        .workers(10)
        .watch(&namespaces, |change| {
            let going = change.object().metadata.deletion_timestamp.is_some() && !change.is_deleted();
            if going { vec![change.key()] } else { Vec::new() }
        })
        .run(Emptier::new(&context, namespaces))
        .await;
}
