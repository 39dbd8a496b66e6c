//! The csrsigning loop: approved requests get a certificate of the cluster's authority.
//!
//! Watches CertificateSigningRequests. Signs for API clients, for node agents as clients, and for what node agents serve.

mod apply;
mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use pintle_runtime::{Context, Controller};

use apply::Signer;
pub use plan::{Authority, Order};

/// Runs until the context's shutdown fires; ends at once if there is nothing to sign with. Keys are requests.
pub(crate) async fn run(context: Context, authority: Option<Authority>) {
    let Some(authority) = authority else { return };
    let requests = context.informers.of::<CertificateSigningRequest>();
    Controller::new("csr-signing", &context)
        .watch(&requests, |change| vec![change.key()])
        .run(Signer::new(&context, requests, authority))
        .await;
}
