//! The csrcleaner loop: requests for certificates go when nobody needs to look at them any more.
//!
//! Watches CertificateSigningRequests.

mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use pintle_runtime::{Context, Controller, Executor};

/// Runs until the context's shutdown fires. Keys are requests.
pub(crate) async fn run(context: Context) {
    let requests = context.informers.of::<CertificateSigningRequest>();
    let executor = Executor::new(&context, "certificatesigningrequest-cleaner-controller");
    let clock = context.clock.clone();
    Controller::new("csr-cleaner", &context)
        .watch(&requests, |change| vec![change.key()])
        .run_plans(executor, move |key| {
            requests.get(key).map(|request| plan::plan(&request, clock.now())).unwrap_or_default()
        })
        .await;
}
