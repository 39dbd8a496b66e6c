//! The servicelb loop: Services of type LoadBalancer get the addresses of the nodes, where a cluster has no other load balancer.
//!
//! Watches Services, Nodes and EndpointSlices; keys are Services. The network of each node serves these addresses.

mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use pintle_runtime::{Context, Controller, Executor, Informer, Key, Plan, when};

/// Index of slices: the Service.
fn service(slice: &EndpointSlice) -> Vec<String> {
    plan::service_of(slice).map(|key| key.to_string()).into_iter().collect()
}

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    let (services, nodes) = (context.informers.of::<Service>(), context.informers.of::<Node>());
    let slices = context.informers.of::<EndpointSlice>();
    slices.index(service);
    let executor = Executor::new(&context, "service-lb-controller");
    let (by_service, by_node, known) = (services.clone(), services.clone(), services.clone());
    Controller::new("service-lb", &context)
        .watch(&services, move |change| {
            let mut keys = vec![change.key()];
            let states = [Some(change.object()), change.old()];
            let concerns_ours = states.into_iter().flatten().any(|service| plan::is_ours(service));
            // Its ports may have come free for another.
            if !change.is_resync() && concerns_ours {
                keys.extend(balanced(&by_service));
            }
            keys
        })
        .watch(&nodes, move |change| match when::differs(change, plan::place) {
            true => balanced(&by_node),
            false => Vec::new(),
        })
        .watch(&slices, move |change| {
            let states = [Some(change.object()), change.old()];
            let mut keys: Vec<Key> = states.into_iter().flatten().filter_map(|slice| plan::service_of(slice)).collect();
            keys.retain(|key| known.get(key).is_some_and(|service| plan::is_ours(&service)));
            keys.dedup();
            keys
        })
        .run_plans(executor, move |key| {
            let Some(service) = services.get(key).filter(|service| plan::is_ours(service)) else {
                return Plan::default();
            };
            let mut own = slices.by(self::service, &key.to_string());
            own.extend(slices.by(self::service, plan::API_SERVER));
            plan::plan(&service, &services.all(), &nodes.all(), &own).about(service.as_ref())
        })
        .await;
}

/// The Services that get their addresses here.
fn balanced(services: &Informer<Service>) -> Vec<Key> {
    services.all().iter().filter(|service| plan::is_ours(service)).map(|service| Key::of(service.as_ref())).collect()
}
