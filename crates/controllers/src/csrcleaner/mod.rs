//! The csrcleaner loop: requests for certificates go when nobody needs to look at them any more.
//!
//! Watches CertificateSigningRequests.

mod apply;
mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use pintle_runtime::{Context, Controller};

use apply::Cleaner;

/// Runs until the context's shutdown fires. Keys are requests.
pub(crate) async fn run(context: Context) {
    let requests = context.informers.of::<CertificateSigningRequest>();
    Controller::new("csr-cleaner", &context)
        .watch(&requests, |change| vec![change.key()])
        .run(Cleaner::new(&context, requests))
        .await;
}
