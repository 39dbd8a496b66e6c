//! Which Pods stand behind a Service, on which ports, and how that is written.

mod hints;
mod legacy;
mod ports;
mod slices;
mod triggers;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service};

use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use pintle_runtime::{Key, Plan};

pub(super) use hints::{Zones, capacity, follow_zones, zones};
pub(super) use legacy::is_written_here;
use legacy::legacy;
use slices::slices;
use triggers::Triggers;

use crate::pods;

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
const HEADLESS: &str = "service.kubernetes.io/headless";

/// The Service that a slice of this loop is about; slices of others are left alone.
pub(super) fn service_of(slice: &EndpointSlice) -> Option<Key> {
    let labels =
        slice.metadata.labels.as_ref().filter(|labels| labels.get(MANAGED_BY).is_some_and(|by| by == MANAGER))?;
    Some(Key::new(slice.metadata.namespace.clone().unwrap_or_default(), labels.get(SERVICE_NAME)?.clone()))
}

/// The Pods of a Service, the zones of their nodes, and how large the zones of the cluster are, if that counts.
pub(super) struct Backends {
    pub(super) pods: Vec<Arc<Pod>>,
    pub(super) zone_of_node: BTreeMap<String, String>,
    pub(super) zones: Option<Zones>,
}

/// What to write so that slices and Endpoints tell what the Pods are.
pub(super) fn plan(
    service: &Service,
    backends: &Backends,
    existing: &[Arc<EndpointSlice>],
    endpoints: Option<&Endpoints>,
) -> Plan {
    let triggers = Triggers::of(service, backends, existing.is_empty());
    let mut plan = Plan::of(legacy(service, backends, endpoints, &triggers).into_iter().collect());
    let (writes, notes) = slices(service, backends, existing, &triggers);
    plan.writes.extend(writes);
    plan.events.extend(notes);
    plan
}

/// Whether this loop writes for the Service: it has a selector, and is not another name for something outside.
pub(super) fn is_ours(service: &Service) -> bool {
    let Some(spec) = &service.spec else { return false };
    spec.type_.as_deref() != Some("ExternalName") && spec.selector.as_ref().is_some_and(|selector| !selector.is_empty())
}

pub(super) fn selects(service: &Service, pod: &Pod) -> bool {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let labels = pod.metadata.labels.as_ref();
    let has = |key: &String, value: &String| labels.is_some_and(|labels| labels.get(key) == Some(value));
    selector.is_some_and(|selector| !selector.is_empty() && selector.iter().all(|(key, value)| has(key, value)))
}

/// Whether two states of a Pod look the same from behind a Service: most status updates do.
pub(super) fn serves_alike(old: &Pod, new: &Pod) -> bool {
    let seen = |pod: &Pod| {
        let status = pod.status.clone().unwrap_or_default();
        let place = (pods::node_name(pod).to_owned(), pods::is_terminal(pod), pods::is_ready(pod));
        (place, status.pod_ips, status.pod_ip, pod.metadata.labels.clone(), pod.metadata.deletion_timestamp.is_some())
    };
    seen(old) == seen(new) && old.metadata.uid == new.metadata.uid
}

fn publishes_not_ready(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses).unwrap_or(false)
}

fn is_headless(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()) == Some("None")
}

/// `IPv4`, `IPv6` or both, the first being the Service's own.
fn families(service: &Service) -> Vec<String> {
    let spec = service.spec.clone().unwrap_or_default();
    match spec.ip_families.filter(|families| !families.is_empty()) {
        Some(families) => families,
        None => vec![if spec.cluster_ip.is_some_and(|ip| ip.contains(':')) { "IPv6" } else { "IPv4" }.to_owned()],
    }
}

/// The Pod's address of a family.
fn address_of(pod: &Pod, family: &str) -> Option<String> {
    let status = pod.status.as_ref()?;
    let listed = status.pod_ips.iter().flatten().map(|ip| ip.ip.clone());
    let mut addresses = listed.chain(status.pod_ip.clone());
    addresses.find(|ip| !ip.is_empty() && ip.contains(':') == (family == "IPv6"))
}

fn reference_to(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".into()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// The name under which DNS knows the Pod, if it asked for one below this Service.
fn hostname_of(pod: &Pod, service: &Service) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let below = spec.subdomain.is_some() && spec.subdomain == service.metadata.name;
    spec.hostname.clone().filter(|hostname| below && !hostname.is_empty())
}
