//! The csrapproving loop: machines with a token and nodes get the certificates that are theirs without anybody's help.
//!
//! Watches CertificateSigningRequests, and Nodes for the names and addresses that a node may serve under.

mod apply;
mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Node;
use pintle_runtime::{Context, Controller, Key, when};

use apply::Approver;

/// Runs until the context's shutdown fires. Keys are requests.
pub(crate) async fn run(context: Context) {
    let requests = context.informers.of::<CertificateSigningRequest>();
    let nodes = context.informers.of::<Node>();
    Controller::new("csr-approving", &context)
        .watch(&requests, |change| vec![change.key()])
        .watch(&nodes, {
            let requests = requests.clone();
            move |change| {
                if !when::differs(change, |node: &Node| plan::addresses(node)) {
                    return Vec::new();
                }
                let waits = |csr: &CertificateSigningRequest| plan::waits_for(csr, change.key().name());
                requests.all().iter().filter(|csr| waits(csr)).map(|csr| Key::of(csr.as_ref())).collect()
            }
        })
        .run(Approver::new(&context, requests, nodes))
        .await;
}
