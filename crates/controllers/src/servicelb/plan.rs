//! Which addresses a Service of type LoadBalancer gets.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use pintle_runtime::plan::Note;
use pintle_runtime::{Key, Plan};

/// The Service of the API server, whose port must stay its own.
pub(super) const API_SERVER: &str = "default/kubernetes";

const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// On a node: no load balancer may send it anything.
const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// A protocol and a number.
type Port = (String, i32);

/// Whether the Service gets its addresses here: one with a class is another load balancer's.
pub(super) fn is_ours(service: &Service) -> bool {
    let is_balanced = |service: &Service| {
        let spec = service.spec.as_ref()?;
        Some(spec.type_.as_deref() == Some("LoadBalancer") && spec.load_balancer_class.is_none())
    };
    service.metadata.deletion_timestamp.is_none() && is_balanced(service).unwrap_or(false)
}

pub(super) fn service_of(slice: &EndpointSlice) -> Option<Key> {
    Some(Key::new(slice.metadata.namespace.clone()?, slice.metadata.labels.as_ref()?.get(SERVICE_NAME)?.clone()))
}

/// What of a node counts: its addresses, if it may be reached.
pub(super) fn place(node: &Node) -> Option<Vec<String>> {
    let status = node.status.as_ref()?;
    let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready")?;
    let is_excluded = node.labels().contains_key(EXCLUDED) || node.metadata.deletion_timestamp.is_some();
    if ready.status != "True" || is_excluded {
        return None;
    }
    let of_type = |kind: &str| -> Vec<String> {
        let addresses = status.addresses.iter().flatten();
        addresses.filter(|address| address.type_ == kind).map(|address| address.address.clone()).collect()
    };
    // What the world knows a node by, if there is such an address.
    Some(Some(of_type("ExternalIP")).filter(|external| !external.is_empty()).unwrap_or_else(|| of_type("InternalIP")))
}

/// Writes the addresses of the nodes into the Service's status. A port of a node has one owner: the older Service, or the
/// node's own agent, or the API server.
pub(super) fn plan(
    service: &Service,
    all: &[Arc<Service>],
    nodes: &[Arc<Node>],
    slices: &[Arc<EndpointSlice>],
) -> Plan {
    let mut plan = Plan::default();
    let before = service.status.clone().unwrap_or_default();
    let had = before.load_balancer.clone().unwrap_or_default().ingress.unwrap_or_default();
    let reachable = reachable(service, nodes, slices);
    let taken = taken(service, all, nodes, slices);
    let ingress = match &taken {
        Some(_) => Vec::new(),
        None => reachable.into_iter().map(ingress).collect::<Vec<_>>(),
    };
    if ingress == had {
        // Told each time it is looked at; the recorder counts what is the same.
        plan.events.extend(taken.map(|why| Note::warning("SyncLoadBalancerFailed", why)));
        return plan;
    }
    plan.events.push(match taken {
        Some(why) => Note::warning("SyncLoadBalancerFailed", why),
        None if ingress.is_empty() => {
            Note::warning("UnAvailableLoadBalancer", "There are no available nodes for LoadBalancer")
        }
        None if had.is_empty() => Note::normal("EnsuredLoadBalancer", "Ensured load balancer"),
        None => Note::normal("UpdatedLoadBalancer", "Updated load balancer with new hosts"),
    });
    let mut after = before;
    after.load_balancer = Some(LoadBalancerStatus { ingress: Some(ingress) });
    plan.set_status(service, service.status.as_ref(), &after);
    plan
}

fn ingress(address: String) -> LoadBalancerIngress {
    LoadBalancerIngress { ip: Some(address), ip_mode: Some("VIP".to_owned()), ..LoadBalancerIngress::default() }
}

/// The addresses at which the Service answers: with the external policy `Local` only where it has endpoints.
fn reachable(service: &Service, nodes: &[Arc<Node>], slices: &[Arc<EndpointSlice>]) -> BTreeSet<String> {
    let spec = service.spec.clone().unwrap_or_default();
    let is_local = spec.external_traffic_policy.as_deref() == Some("Local");
    let key = Key::of(service);
    let own = slices.iter().filter(|slice| service_of(slice).as_ref() == Some(&key));
    let endpoints = own.flat_map(|slice| slice.endpoints.iter().flatten());
    let ready = endpoints
        .filter(|endpoint| endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true));
    let near: BTreeSet<&str> = ready.filter_map(|endpoint| endpoint.node_name.as_deref()).collect();
    let families = spec.ip_families.unwrap_or_default();
    let in_family = |address: &String| {
        let family = if address.contains(':') { "IPv6" } else { "IPv4" };
        families.is_empty() || families.iter().any(|one| one == family)
    };
    let serving = nodes.iter().filter(|node| !is_local || near.contains(node.name_any().as_str()));
    serving.filter_map(|node| place(node)).flatten().filter(in_family).collect()
}

/// Why the Service cannot have one of its ports, if it cannot.
fn taken(
    service: &Service,
    all: &[Arc<Service>],
    nodes: &[Arc<Node>],
    slices: &[Arc<EndpointSlice>],
) -> Option<String> {
    let wanted = ports(service);
    let owned = |port: &&Port| match agent_port(nodes) == Some(port.1) && port.0 == "TCP" {
        true => Some("the node agent".to_owned()),
        false if is_api_servers(port, nodes, slices) => Some("the API server".to_owned()),
        false => None,
    };
    let told = |port: &Port, owner: String| {
        format!("Error syncing load balancer: port {}/{} of the nodes is used by {owner}", port.1, port.0)
    };
    if let Some((port, owner)) = wanted.iter().find_map(|port| Some((port, owned(&port)?))) {
        return Some(told(port, owner));
    }
    let age = |service: &Service| (service.metadata.creation_timestamp.as_ref().map(|time| time.0), Key::of(service));
    let own_age = age(service);
    let mut older: Vec<&Arc<Service>> = all.iter().filter(|other| is_ours(other) && age(other) < own_age).collect();
    older.sort_by_key(|other| age(other));
    older.into_iter().find_map(|other| {
        let shared = ports(other).into_iter().find(|port| wanted.contains(port))?;
        Some(told(&shared, format!("Service {}", Key::of(other.as_ref()))))
    })
}

fn ports(service: &Service) -> BTreeSet<Port> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    ports.map(|port| (port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()), port.port)).collect()
}

fn agent_port(nodes: &[Arc<Node>]) -> Option<i32> {
    let mut endpoints = nodes.iter().filter_map(|node| node.status.as_ref()?.daemon_endpoints.as_ref());
    endpoints.find_map(|endpoints| Some(endpoints.kubelet_endpoint.as_ref()?.port))
}

fn is_api_servers(port: &Port, nodes: &[Arc<Node>], slices: &[Arc<EndpointSlice>]) -> bool {
    let addresses: BTreeSet<String> = nodes.iter().filter_map(|node| place(node)).flatten().collect();
    slices.iter().filter(|slice| service_of(slice).is_some_and(|key| key.to_string() == API_SERVER)).any(|slice| {
        let mut on_nodes = slice.endpoints.iter().flatten().flat_map(|endpoint| &endpoint.addresses);
        on_nodes.any(|address| addresses.contains(address))
            && port.0 == "TCP"
            && slice.ports.iter().flatten().any(|one| one.port == Some(port.1))
    })
}
