//! The endpointslicemirroring loop: Endpoints that people write by hand are shown as EndpointSlices, which everything reads.
//!
//! Watches Endpoints, Services without a selector, and the slices that it writes. Keys are Services, whose names Endpoints share.

mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use pintle_runtime::{Context, Controller, Executor, when};

/// Index of slices: the Service, of those that this loop writes.
fn mirrored(slice: &EndpointSlice) -> Vec<String> {
    plan::service_of(slice).map(|key| key.to_string()).into_iter().collect()
}

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    let (endpoints, services) = (context.informers.of::<Endpoints>(), context.informers.of::<Service>());
    let slices = context.informers.of::<EndpointSlice>();
    slices.index(mirrored);
    let executor = Executor::new(&context, "endpoint-slice-mirroring-controller");
    Controller::new("endpointslicemirroring", &context)
        .workers(5)
        .watch(&endpoints, |change| vec![change.key()])
        .watch(&services, |change| {
            let has_selector = |service: &Service| service.spec.as_ref().is_some_and(|spec| spec.selector.is_some());
            if when::differs(change, has_selector) { vec![change.key()] } else { Vec::new() }
        })
        .watch(&slices, |change| {
            let states = change.old().into_iter().chain([change.object()]);
            states.filter_map(|slice| plan::service_of(slice)).take(1).collect()
        })
        .run_plans(executor, move |key| {
            let present = slices.by(self::mirrored, &key.to_string());
            plan::plan(endpoints.get(key).as_deref(), services.get(key).as_deref(), &present)
        })
        .await;
}
