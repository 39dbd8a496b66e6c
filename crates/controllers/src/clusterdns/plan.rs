//! What stands behind the Service `kube-dns`.

use core::net::IpAddr;

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use pintle_meta::network::{DNS_ADDRESS, NAME_SERVER, pod_ranges};
use pintle_runtime::{Plan, Write};
use serde_json::json;

pub(super) const NAMESPACE: &str = "kube-system";
pub(super) const NAME: &str = "kube-dns";
const PORT: u16 = 53;

/// What is to be written for one node. The Service comes first; its slices when it is seen.
pub(super) fn plan(service: Option<&Service>, node: Option<&Node>, slice: Option<&EndpointSlice>) -> Plan {
    let wanted = node.and_then(slice_of);
    let write = match (service, wanted, slice) {
        (None, Some(_), _) => self::service().map(|service| Write::create(&service).unless_there()),
        // A Service with a selector has Pods that answer in place of the nodes.
        (Some(service), Some(wanted), slice) if !has_selector(service) => publish(wanted, slice),
        (_, _, slice) => slice.map(Write::delete),
    };
    Plan::of(write.into_iter().collect())
}

fn has_selector(service: &Service) -> bool {
    service.spec.as_ref().is_some_and(|spec| spec.selector.as_ref().is_some_and(|selector| !selector.is_empty()))
}

fn publish(wanted: EndpointSlice, present: Option<&EndpointSlice>) -> Option<Write> {
    let Some(present) = present else { return Some(Write::create(&wanted).unless_there()) };
    if is_alike(&wanted, present) {
        return None;
    }
    let mut changed = present.clone();
    (changed.endpoints, changed.ports) = (wanted.endpoints, wanted.ports);
    changed.metadata.labels = wanted.metadata.labels;
    Some(Write::replace(&changed))
}

fn is_alike(one: &EndpointSlice, other: &EndpointSlice) -> bool {
    one.endpoints == other.endpoints && one.ports == other.ports && one.metadata.labels == other.metadata.labels
}

/// Where a node answers names: an address of its own Pods' range, since others would be somebody else's.
fn name_server(node: &Node) -> Option<IpAddr> {
    let address: IpAddr = node.metadata.annotations.as_ref()?.get(NAME_SERVER)?.parse().ok()?;
    let spec = node.spec.as_ref()?;
    let ranges = pod_ranges(spec.pod_cidr.as_ref(), spec.pod_cidrs.as_ref());
    ranges.iter().any(|range| range.contains(address)).then_some(address)
}

pub(super) fn slice_name(node: &str) -> String {
    format!("{NAME}-{node}")
}

/// The slice with one node's name server. It goes with the Node.
pub(super) fn slice_of(node: &Node) -> Option<EndpointSlice> {
    let address = name_server(node)?;
    let name = node.metadata.name.clone()?;
    let slice = json!({
        "metadata": {"name": slice_name(&name), "namespace": NAMESPACE,
            "labels": {"kubernetes.io/service-name": NAME, "endpointslice.kubernetes.io/managed-by": "dns.pintle.dev"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid}]},
        "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{"addresses": [address], "nodeName": name,
            "conditions": {"ready": true, "serving": true, "terminating": false}}],
        "ports": [{"name": "dns", "port": PORT, "protocol": "UDP"}, {"name": "dns-tcp", "port": PORT, "protocol": "TCP"}]});
    serde_json::from_value(slice).ok()
}

/// Each node asks itself.
pub(super) fn service() -> Option<Service> {
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": NAME, "namespace": NAMESPACE,
            "labels": {"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"}},
        "spec": {"clusterIP": DNS_ADDRESS, "internalTrafficPolicy": "Local", "ports": [
            {"name": "dns", "port": PORT, "protocol": "UDP", "targetPort": PORT},
            {"name": "dns-tcp", "port": PORT, "protocol": "TCP", "targetPort": PORT}]}});
    serde_json::from_value(service).ok()
}
