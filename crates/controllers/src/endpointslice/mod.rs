//! The endpointslice loop: which Pods stand behind a Service, as EndpointSlices and as an Endpoints object.
//!
//! Watches Services; Pods, by the selectors that match them before or after a change; and what it writes, which it puts
//! right when someone else changes it; Nodes, whose zones and CPUs decide over the hints of some Services.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use pintle_runtime::{
    Action, Attempt, Change, Context, Controller, Error, Executor, Informer, Key, Plan, Reconciler, Write, when,
};

use plan::{Backends, ZONE};

/// Index of slices: the Service, of those that this loop writes.
fn service(slice: &EndpointSlice) -> Vec<String> {
    plan::service_of(slice).map(|key| key.to_string()).into_iter().collect()
}

/// Runs until the context's shutdown fires. Keys are Services.
pub(crate) async fn run(context: Context) {
    let services = context.informers.of::<Service>();
    let pods = context.informers.of::<Pod>();
    let nodes = context.informers.of::<Node>();
    let endpoints = context.informers.of::<Endpoints>();
    let slices = context.informers.of::<EndpointSlice>();
    slices.index(service);
    let executor = Executor::new(&context, "endpoint-slice-controller");

    Controller::new("endpointslice", &context)
        .workers(5)
        .watch(&services, |change| vec![change.key()])
        .watch(&pods, {
            let services = services.clone();
            move |change| services_of(change, &services)
        })
        .watch(&slices, |change| {
            let states = change.old().into_iter().chain([change.object()]);
            states.filter_map(|slice| plan::service_of(slice)).take(1).collect()
        })
        .watch(&endpoints, |change| match change.is_deleted() || plan::is_written_here(change.object()) {
            true => vec![change.key()],
            false => Vec::new(),
        })
        .watch(&nodes, {
            let services = services.clone();
            move |change| match when::differs(change, plan::capacity) {
                true => following_zones(&services),
                false => Vec::new(),
            }
        })
        .run(Slices { executor, services, pods, nodes, slices, endpoints })
        .await;
}

/// The Services whose hints depend on all nodes.
fn following_zones(services: &Informer<Service>) -> Vec<Key> {
    let follow = |service: &&std::sync::Arc<Service>| plan::follow_zones(service);
    services.all().iter().filter(follow).map(|service| Key::of(service.as_ref())).collect()
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

struct Slices {
    executor: Executor,
    services: Informer<Service>,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    slices: Informer<EndpointSlice>,
    endpoints: Informer<Endpoints>,
}

impl Reconciler for Slices {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let endpoints = self.endpoints.get(key);
        let Some(service) = self.services.get(key) else {
            // The slices go with their owner; the Endpoints object has none.
            let left = Plan::of(endpoints.iter().map(|endpoints| Write::delete(endpoints.as_ref())).collect());
            return Ok(self.executor.carry_out(left).await?);
        };
        if !plan::is_ours(&service) || service.metadata.deletion_timestamp.is_some() {
            return Ok(Action::done());
        }
        let slices = self.slices.by(self::service, &key.to_string());
        let plan = plan::plan(&service, &self.backends_of(&service, key), &slices, endpoints.as_deref());
        Ok(self.executor.execute(service.as_ref(), plan).await?)
    }
}

impl Slices {
    fn backends_of(&self, service: &Service, key: &Key) -> Backends {
        let mut pods = self.pods.in_namespace(key.namespace());
        pods.retain(|pod| plan::selects(service, pod));
        let mut zone_of_node = BTreeMap::new();
        for node in pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()) {
            let zone = self.nodes.get(&Key::cluster(&node)).and_then(|node| node.labels().get(ZONE).cloned());
            zone_of_node.extend(zone.map(|zone| (node, zone)));
        }
        let zones = match plan::follow_zones(service) {
            true => plan::zones(self.nodes.all().iter().map(AsRef::as_ref)),
            false => None,
        };
        Backends { pods, zone_of_node, zones }
    }
}
