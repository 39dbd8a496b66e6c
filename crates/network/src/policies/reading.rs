//! What a NetworkPolicy and a Pod say, as far as packets are concerned.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::api::networking::v1::{IPBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pintle_meta::labels::Selector;

use crate::address::{Protocol, Range};

pub type Labels = BTreeMap<String, String>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    Ingress,
    Egress,
}

impl Direction {
    pub const ALL: [Direction; 2] = [Direction::Ingress, Direction::Egress];

    /// As it is called in rules and for people.
    pub fn word(self) -> &'static str {
        match self {
            Direction::Ingress => "ingress",
            Direction::Egress => "egress",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The Pods of its namespace that it isolates.
    pub pods: Selector,
    /// The directions in which it isolates them, with what is allowed there.
    pub allowed: BTreeMap<Direction, Vec<Rule>>,
}

/// One of these peers and one of these ports; all of them where nothing is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub peers: Option<Vec<Peer>>,
    pub ports: Option<Vec<Port>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    Pods(Group),
    Block { range: Range, except: Vec<Range> },
}

/// Pods, by what selects them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub namespaces: Namespaces,
    pub pods: Selector,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    Named(String),
    Selected(Selector),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Port {
    All(Protocol),
    Numbers(Protocol, u16, u16),
    /// As a container of the Pod that is sent to calls it.
    Named(Protocol, String),
}

/// A Pod that has addresses of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub labels: Labels,
    pub addresses: BTreeSet<IpAddr>,
    pub ports: Vec<(String, Protocol, u16)>,
    /// It is a Pod of this node.
    pub is_here: bool,
    /// It is being deleted: another may have its address already.
    pub is_ending: bool,
}

impl Policy {
    /// The server has validated it. What cannot be read all the same allows nothing.
    pub fn of(policy: &NetworkPolicy) -> Policy {
        let namespace = policy.metadata.namespace.as_deref().unwrap_or_default();
        let Some(spec) = &policy.spec else {
            return Policy {
                pods: Selector::everything(),
                allowed: BTreeMap::from([(Direction::Ingress, Vec::new())]),
            };
        };
        let ingress = spec
            .ingress
            .iter()
            .flatten()
            .map(|rule| Rule { peers: peers(rule.from.as_deref(), namespace), ports: ports(rule.ports.as_deref()) });
        let egress = spec
            .egress
            .iter()
            .flatten()
            .map(|rule| Rule { peers: peers(rule.to.as_deref(), namespace), ports: ports(rule.ports.as_deref()) });
        let has_egress = spec.egress.as_ref().is_some_and(|rules| !rules.is_empty());
        let concerns = |direction: &str| match spec.policy_types.as_deref() {
            Some(types) if !types.is_empty() => types.iter().any(|one| one == direction),
            _ => direction == "Ingress" || has_egress,
        };
        let mut allowed = BTreeMap::new();
        if concerns("Ingress") {
            allowed.insert(Direction::Ingress, ingress.collect());
        }
        if concerns("Egress") {
            allowed.insert(Direction::Egress, egress.collect());
        }
        let pods = spec.pod_selector.as_ref().map_or_else(Selector::everything, |one| {
            // It isolates too many rather than too few.
            selector(one).unwrap_or_default()
        });
        Policy { pods, allowed }
    }
}

fn peers(list: Option<&[NetworkPolicyPeer]>, namespace: &str) -> Option<Vec<Peer>> {
    let list = list.filter(|list| !list.is_empty())?;
    Some(list.iter().filter_map(|one| peer(one, namespace)).collect())
}

fn peer(peer: &NetworkPolicyPeer, namespace: &str) -> Option<Peer> {
    if let Some(IPBlock { cidr, except }) = &peer.ip_block {
        let range: Range = cidr.parse().ok()?;
        let except: Result<Vec<Range>, _> = except.iter().flatten().map(|one| one.parse()).collect();
        return Some(Peer::Block { range, except: except.ok()? });
    }
    if peer.pod_selector.is_none() && peer.namespace_selector.is_none() {
        return None;
    }
    let namespaces = match &peer.namespace_selector {
        None => Namespaces::Named(namespace.to_owned()),
        Some(several) => Namespaces::Selected(selector(several)?),
    };
    let pods = match &peer.pod_selector {
        None => Selector::everything(),
        Some(some) => selector(some)?,
    };
    Some(Peer::Pods(Group { namespaces, pods }))
}

fn selector(selector: &LabelSelector) -> Option<Selector> {
    Selector::from_label_selector(serde_json::to_value(selector).ok().as_ref())
}

fn ports(list: Option<&[NetworkPolicyPort]>) -> Option<Vec<Port>> {
    let list = list.filter(|list| !list.is_empty())?;
    Some(list.iter().filter_map(port).collect())
}

fn port(port: &NetworkPolicyPort) -> Option<Port> {
    let protocol = Protocol::parse(port.protocol.as_deref())?;
    Some(match &port.port {
        None => Port::All(protocol),
        Some(IntOrString::String(name)) => Port::Named(protocol, name.clone()),
        Some(IntOrString::Int(first)) => {
            let (first, last) = (number(*first)?, number(port.end_port.unwrap_or(*first))?);
            Port::Numbers(protocol, first, last.max(first))
        }
    })
}

fn number(port: i32) -> Option<u16> {
    u16::try_from(port).ok().filter(|port| *port > 0)
}

impl Member {
    /// Nothing for a Pod that shares its node's addresses, that has none yet, or whose containers have ended for good: its
    /// addresses are somebody else's soon.
    pub fn of(pod: &Pod, node: &str) -> Option<Member> {
        let (spec, status) = (pod.spec.as_ref()?, pod.status.as_ref()?);
        if spec.host_network == Some(true) || matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
            return None;
        }
        let several = status.pod_ips.iter().flatten().map(|one| &one.ip).chain(&status.pod_ip);
        let addresses: BTreeSet<IpAddr> = several.filter_map(|text| text.parse().ok()).collect();
        if addresses.is_empty() {
            return None;
        }
        let stays = |one: &&Container| one.restart_policy.as_deref() == Some("Always");
        let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten().filter(stays));
        let ports = containers.flat_map(|one| one.ports.iter().flatten()).filter_map(|one| {
            Some((one.name.clone()?, Protocol::parse(one.protocol.as_deref())?, number(one.container_port)?))
        });
        Some(Member {
            labels: pod.metadata.labels.clone().unwrap_or_default(),
            addresses,
            ports: ports.collect(),
            is_here: spec.node_name.as_deref() == Some(node),
            is_ending: pod.metadata.deletion_timestamp.is_some(),
        })
    }

    /// The numbers of a port's name; containers may give one to several.
    pub fn named(&self, protocol: Protocol, name: &str) -> impl Iterator<Item = u16> {
        self.ports.iter().filter(move |one| one.1 == protocol && one.0 == name).map(|one| one.2)
    }
}

/// Does a selector pick something with these labels?
pub fn picks(selector: &Selector, labels: &Labels) -> bool {
    selector.matches(|key| labels.get(key).map(String::as_str))
}

impl Group {
    pub fn everybody() -> Group {
        Group { namespaces: Namespaces::Selected(Selector::everything()), pods: Selector::everything() }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pods.is_everything() {
            true => write!(formatter, "all Pods")?,
            false => write!(formatter, "Pods with {}", self.pods)?,
        }
        match &self.namespaces {
            Namespaces::Named(name) => write!(formatter, " of namespace {name}"),
            Namespaces::Selected(selector) if selector.is_everything() => write!(formatter, " of all namespaces"),
            Namespaces::Selected(selector) => write!(formatter, " of namespaces with {selector}"),
        }
    }
}
