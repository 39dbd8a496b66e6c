//! The csrsigning loop: approved requests get a certificate of the cluster's authority.
//!
//! Watches CertificateSigningRequests. Signs for API clients, for node agents as clients, and for what node agents serve.

mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use pintle_runtime::{Context, Controller, Executor};

pub use plan::{Authority, Order};

/// Runs until the context's shutdown fires; ends at once if there is nothing to sign with. Keys are requests.
pub(crate) async fn run(context: Context, authority: Option<Authority>) {
    let Some(authority) = authority else { return };
    let requests = context.informers.of::<CertificateSigningRequest>();
    let executor = Executor::new(&context, "certificatesigningrequest-signing-controller");
    let (clock, random) = (context.clock.clone(), context.random.clone());
    Controller::new("csr-signing", &context)
        .watch(&requests, |change| vec![change.key()])
        .run_plans(executor, move |key| {
            let Some(request) = requests.get(key) else { return Default::default() };
            let serial = (u128::from(random.next()) << 64) | u128::from(random.next());
            plan::plan(&request, clock.now(), serial, &authority)
        })
        .await;
}
