//! The endpointslice loop: which Pods stand behind a Service, as EndpointSlices and as an Endpoints object.
//!
//! Watches Services; Pods, by the selectors that match them before or after a change; and what it writes, which it puts
//! right when someone else changes it. Reads Nodes for their zones.

mod apply;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use pintle_runtime::{Change, Context, Controller, Expectations, Informer, Key, Selection};

use apply::Slices;

/// Runs until the context's shutdown fires. Keys are Services.
pub(crate) async fn run(context: Context) {
    let services = context.informers.of::<Service>();
    let pods = context.informers.of::<Pod>();
    let nodes = context.informers.of::<Node>();
    let endpoints = context.informers.of::<Endpoints>();
    let ours = Selection::labels(format!("{}={}", plan::MANAGED_BY, plan::MANAGER));
    let slices = context.informers.select::<EndpointSlice>(ours);
    slices.add_index(BY_SERVICE, |slice| service_of(slice).map(|key| key.to_string()).into_iter().collect());
    let expectations = Arc::new(Expectations::new(context.clock.clone()));

    Controller::new("endpointslice", &context)
        .workers(5)
        .watch(&services, |change| vec![change.key()])
        .watch(&pods, {
            let services = services.clone();
            move |change| services_of(change, &services)
        })
        .watch(&slices, {
            let expectations = expectations.clone();
            move |change| {
                let key = service_of(change.object());
                if let (Some(key), Change::Added(_)) = (&key, change) {
                    expectations.creation_observed(key);
                }
                key.into_iter().collect()
            }
        })
        .watch(&endpoints, |change| match change.is_deleted() || plan::is_written_here(change.object()) {
            true => vec![change.key()],
            false => Vec::new(),
        })
        .reads(&nodes)
        .run(Slices::new(&context, services, pods, nodes, slices, endpoints, expectations))
        .await;
}

/// Name of the index that finds a Service's slices.
const BY_SERVICE: &str = "service";

fn service_of(slice: &EndpointSlice) -> Option<Key> {
    let service = slice.metadata.labels.as_ref()?.get(plan::SERVICE_NAME)?;
    Some(Key::new(slice.metadata.namespace.clone().unwrap_or_default(), service.clone()))
}

/// The Services that select the Pod now or did before.
fn services_of(change: &Change<Pod>, services: &Informer<Service>) -> Vec<Key> {
    let pod = change.object();
    if change.is_resync() || change.old().is_some_and(|old| plan::serves_alike(old, pod)) {
        return Vec::new();
    }
    let selects = |service: &Service| {
        let mut states = std::iter::once(pod).chain(change.old());
        states.any(|state| plan::selects(service, state))
    };
    let in_namespace = services.in_namespace(pod.metadata.namespace.as_deref().unwrap_or_default());
    in_namespace.iter().filter(|service| selects(service)).map(|service| Key::of(service.as_ref())).collect()
}
