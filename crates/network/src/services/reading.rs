//! What a Service and its slices say, as far as packets are concerned.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

use crate::address::{Family, Protocol, Range};

/// A Service with this label is somebody else's to carry.
const OTHER_PROXY: &str = "service.kubernetes.io/service-proxy-name";
/// Slices with this label are for DNS alone.
const HEADLESS: &str = "service.kubernetes.io/headless";

/// A client that came back within this time finds the same endpoint, if nothing else is said.
const AFFINITY_SECONDS: u32 = 10800;

/// A Service that has addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub cluster: Vec<IpAddr>,
    /// Addresses of load balancers, and `externalIPs`.
    pub balanced: Vec<IpAddr>,
    pub external: Vec<IpAddr>,
    /// Who may come through a load balancer; everybody if it is empty.
    pub sources: Vec<Range>,
    pub affinity: Option<u32>,
    pub internal_local: bool,
    pub external_local: bool,
    pub ports: Vec<Port>,
    pub health_check: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Port {
    pub name: String,
    pub protocol: Protocol,
    pub port: u16,
    pub node_port: Option<u16>,
}

/// One that may be sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Backend {
    pub address: SocketAddr,
    pub ready: bool,
    pub serving: bool,
    pub terminating: bool,
    pub node: String,
    /// The nodes and zones that are asked to use it.
    pub for_nodes: Vec<String>,
    pub for_zones: Vec<String>,
}

impl View {
    /// Nothing for a Service without addresses, or one that another proxy carries.
    pub(super) fn of(service: &Service) -> Option<View> {
        let spec = service.spec.as_ref()?;
        let of_another = service.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(OTHER_PROXY));
        let kind = spec.type_.as_deref().unwrap_or("ClusterIP");
        if of_another || kind == "ExternalName" {
            return None;
        }
        let cluster = cluster_addresses(spec);
        if cluster.is_empty() {
            return None;
        }
        let is_external = kind != "ClusterIP" || spec.external_ips.as_ref().is_some_and(|ips| !ips.is_empty());
        let is_local = |policy: &Option<String>| policy.as_deref() == Some("Local");
        Some(View {
            cluster,
            balanced: balancers(service),
            external: addresses(spec.external_ips.as_deref().unwrap_or_default()),
            sources: ranges(spec.load_balancer_source_ranges.as_deref().unwrap_or_default()),
            affinity: affinity(spec),
            internal_local: is_local(&spec.internal_traffic_policy),
            external_local: is_external && is_local(&spec.external_traffic_policy),
            ports: ports(spec),
            health_check: spec.health_check_node_port.and_then(number),
        })
    }

    /// The endpoints behind one port, each once, in one family.
    pub(super) fn backends<'a>(
        port: &Port,
        family: Family,
        slices: impl IntoIterator<Item = &'a EndpointSlice>,
    ) -> Vec<Backend> {
        let mut found: BTreeMap<SocketAddr, Backend> = BTreeMap::new();
        for slice in slices {
            let labels = slice.metadata.labels.as_ref();
            let skipped = |label| labels.is_some_and(|labels| labels.contains_key(label));
            if skipped(OTHER_PROXY) || skipped(HEADLESS) || family_of(slice) != Some(family) {
                continue;
            }
            let of_port = slice.ports.iter().flatten().filter(|one| {
                one.name.as_deref().unwrap_or_default() == port.name
                    && Protocol::parse(one.protocol.as_deref()) == Some(port.protocol)
            });
            for number in of_port.filter_map(|one| one.port.and_then(number)) {
                for backend in slice.endpoints.iter().flatten().filter_map(|endpoint| backend(endpoint, family, number))
                {
                    found.insert(backend.address, backend);
                }
            }
        }
        found.into_values().collect()
    }
}

fn family_of(slice: &EndpointSlice) -> Option<Family> {
    match slice.address_type.as_str() {
        "IPv4" => Some(Family::V4),
        "IPv6" => Some(Family::V6),
        _ => None,
    }
}

fn backend(endpoint: &Endpoint, family: Family, port: u16) -> Option<Backend> {
    // Only the first of the addresses counts: they are the same endpoint.
    let address: IpAddr = endpoint.addresses.first()?.parse().ok()?;
    if Family::of(address) != family || address.is_loopback() || address.is_unspecified() {
        return None;
    }
    let conditions = endpoint.conditions.as_ref();
    let ready = conditions.and_then(|all| all.ready).unwrap_or(true);
    let hints = endpoint.hints.as_ref();
    Some(Backend {
        address: SocketAddr::new(address, port),
        ready,
        serving: conditions.and_then(|all| all.serving).unwrap_or(ready),
        terminating: conditions.and_then(|all| all.terminating).unwrap_or(false),
        node: endpoint.node_name.clone().unwrap_or_default(),
        for_nodes: hints
            .and_then(|hints| hints.for_nodes.as_ref())
            .into_iter()
            .flatten()
            .map(|one| one.name.clone())
            .collect(),
        for_zones: hints
            .and_then(|hints| hints.for_zones.as_ref())
            .into_iter()
            .flatten()
            .map(|one| one.name.clone())
            .collect(),
    })
}

/// Empty for a headless Service.
pub(crate) fn cluster_addresses(spec: &ServiceSpec) -> Vec<IpAddr> {
    match spec.cluster_ips.as_deref() {
        Some(several) if !several.is_empty() => addresses(several),
        _ => addresses(spec.cluster_ip.as_slice()),
    }
}

fn addresses(texts: &[String]) -> Vec<IpAddr> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

/// The addresses that a cloud's balancer gave, if packets to them come as they are.
fn balancers(service: &Service) -> Vec<IpAddr> {
    if service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) != Some("LoadBalancer") {
        return Vec::new();
    }
    let ingress = service.status.as_ref().and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref());
    let carried = ingress.into_iter().flatten().filter(|one| one.ip_mode.as_deref().unwrap_or("VIP") == "VIP");
    carried.filter_map(|one| one.ip.as_deref()?.parse().ok()).collect()
}

fn ranges(texts: &[String]) -> Vec<Range> {
    texts.iter().filter_map(|text| text.trim().parse().ok()).collect()
}

fn affinity(spec: &ServiceSpec) -> Option<u32> {
    if spec.session_affinity.as_deref() != Some("ClientIP") {
        return None;
    }
    let seconds = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref()?.timeout_seconds);
    Some(seconds.and_then(|seconds| u32::try_from(seconds).ok()).unwrap_or(AFFINITY_SECONDS))
}

fn ports(spec: &ServiceSpec) -> Vec<Port> {
    let port = |one: &k8s_openapi::api::core::v1::ServicePort| {
        Some(Port {
            name: one.name.clone().unwrap_or_default(),
            protocol: Protocol::parse(one.protocol.as_deref())?,
            port: number(one.port)?,
            node_port: one.node_port.and_then(number),
        })
    };
    spec.ports.iter().flatten().filter_map(port).collect()
}

fn number(port: i32) -> Option<u16> {
    u16::try_from(port).ok().filter(|port| *port > 0)
}
