//! One Service becomes a fragment of the rules. Nothing here knows of other Services, or of the kernel.
//!
//! ```text
//! packet to 10.96.3.7:80/tcp ──services──▶ tcp-pick-0-3 ──tcp-endpoints[10.96.3.7, 80, a number below 3]──▶ 10.244.1.9:8080
//! ```
//!
//! Two maps say everything that a plain Service needs: which chain an address leads to, and which endpoint stands at which number
//! of it. Chains depend on how many endpoints there are and not on which, so that Services share them.

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use pintle_meta::hash;

use super::Here;
use super::choose::{Asked, Chosen, Span, choose};
use super::reading::{Port, View};
use super::text::{self, MARK};
use crate::address::{Family, OfFamily, Protocol};

/// Where packets for a Service arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum At {
    Address(IpAddr, Protocol, u16),
    /// A port of every address of the node.
    NodePort(Family, Protocol, u16),
}

impl At {
    pub fn family(&self) -> Family {
        match self {
            At::Address(address, ..) => Family::of(*address),
            At::NodePort(family, ..) => *family,
        }
    }
}

/// What becomes of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Go {
    /// To one of these endpoints.
    Pick(Span),
    /// The same, and the answer comes back through this node.
    External(Span),
    /// From outside to the endpoints of this node, from Pods and the node itself to any.
    Local { local: Span, cluster: Span },
    /// To a chain that only this Service has.
    Own(String),
    /// Nobody serves it, and the client is told so.
    Reject,
    /// Others serve it, but not this node.
    Drop,
}

/// By what right a Service has a frontend. The server gives out cluster addresses and node ports; anybody who may write a Service
/// writes outside addresses into it, also those that are somebody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    Allocation,
    Claim,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frontend {
    pub by: By,
    pub go: Go,
    pub endpoints: Arc<[SocketAddr]>,
    /// The chain that knows who may come.
    pub guard: Option<String>,
}

/// What only one Service needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Own {
    Chain(Vec<String>),
    /// What stands between the braces.
    Set(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fragment {
    pub frontends: BTreeMap<At, Frontend>,
    pub own: BTreeMap<(Family, String), Own>,
    /// Endpoints on this node: one that calls its own Service must not be sent its own packets.
    pub here: BTreeSet<IpAddr>,
    /// Where balancers ask whether this node serves it, and how many endpoints do.
    pub health_check: Option<(u16, usize)>,
}

/// What is to be in the kernel for a Service.
pub fn plan(service: &Service, slices: &[Arc<EndpointSlice>], here: &Here) -> Fragment {
    let mut fragment = Fragment::default();
    let Some(view) = View::of(service) else { return fragment };
    let families: BTreeSet<Family> = view.cluster.iter().map(|address| Family::of(*address)).collect();
    let mut most_here = 0;
    for port in &view.ports {
        for family in &families {
            let backends = View::backends(port, *family, slices.iter().map(Arc::as_ref));
            let asked = Asked {
                cluster: !view.internal_local || has_outside(&view, port),
                local: view.internal_local || view.external_local,
            };
            let chosen = choose(&backends, asked, here);
            most_here = most_here.max(chosen.ready_here);
            let of_here = backends.iter().filter(|one| one.node == here.node).map(|one| one.address.ip());
            fragment.here.extend(of_here);
            Ways::new(service, &view, port, *family, &chosen).add_to(&mut fragment);
        }
    }
    fragment.health_check = view.health_check.filter(|_| view.external_local).map(|at| (at, most_here));
    fragment
}

fn has_outside(view: &View, port: &Port) -> bool {
    port.node_port.is_some() || !view.external.is_empty() || !view.balanced.is_empty()
}

/// The ways to one port in one family.
struct Ways<'a> {
    view: &'a View,
    port: &'a Port,
    family: Family,
    chosen: &'a Chosen,
    /// Tells the chains of this port from others'.
    mark: String,
}

impl<'a> Ways<'a> {
    fn new(service: &Service, view: &'a View, port: &'a Port, family: Family, chosen: &'a Chosen) -> Self {
        let (namespace, name) = (service.metadata.namespace.as_deref(), service.metadata.name.as_deref());
        let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
        let lasts = view.affinity.unwrap_or_default();
        let identity = format!("{namespace}/{name}/{}/{}/{lasts}", port.protocol.word(), port.port);
        let mark = format!("{:016x}", hash::stable(identity.as_bytes()));
        Ways { view, port, family, chosen, mark }
    }

    fn add_to(&self, fragment: &mut Fragment) {
        let Port { protocol, port, node_port, .. } = *self.port;
        let of_family = |list: &'a [IpAddr]| list.iter().filter(|one| Family::of(**one) == self.family);
        let outside = self.outside(fragment);
        for address in of_family(&self.view.external) {
            self.add(fragment, (At::Address(*address, protocol, port), By::Claim), outside.clone(), None);
        }
        let guard = self.guard(fragment);
        for address in of_family(&self.view.balanced) {
            self.add(fragment, (At::Address(*address, protocol, port), By::Claim), outside.clone(), guard.clone());
        }
        if let Some(node_port) = node_port {
            self.add(fragment, (At::NodePort(self.family, protocol, node_port), By::Allocation), outside, None);
        }
        // Last, so that an outside address that is also a cluster address does not change the way inside.
        let inside = self.inside(fragment);
        for address in of_family(&self.view.cluster) {
            self.add(fragment, (At::Address(*address, protocol, port), By::Allocation), inside.clone(), None);
        }
    }

    fn add(&self, fragment: &mut Fragment, (at, by): (At, By), go: Go, guard: Option<String>) {
        let endpoints = match go {
            Go::Own(_) | Go::Reject | Go::Drop => Arc::default(),
            Go::Pick(_) | Go::External(_) | Go::Local { .. } => self.chosen.list.clone(),
        };
        fragment.frontends.insert(at, Frontend { by, go, endpoints, guard });
    }

    fn inside(&self, fragment: &mut Fragment) -> Go {
        let span = if self.view.internal_local { self.chosen.local } else { self.chosen.cluster };
        match span.is_empty() {
            true if self.chosen.is_served => Go::Drop,
            true => Go::Reject,
            false if self.view.affinity.is_some() => Go::Own(self.sticky(fragment, span)),
            false => Go::Pick(span),
        }
    }

    fn outside(&self, fragment: &mut Fragment) -> Go {
        let (cluster, local) = (self.chosen.cluster, self.chosen.local);
        if !self.chosen.is_served || !has_outside(self.view, self.port) {
            return Go::Reject;
        }
        match (self.view.affinity.is_some(), self.view.external_local) {
            (false, false) => Go::External(cluster),
            (false, true) => Go::Local { local, cluster },
            (true, false) => Go::Own(self.sticky_external(fragment, cluster)),
            (true, true) => Go::Own(self.sticky_local(fragment, local, cluster)),
        }
    }

    /// The chain that sends each client to where it was sent before, if that was not long ago.
    fn sticky(&self, fragment: &mut Fragment, span: Span) -> String {
        let (family, seconds) = (self.family, self.view.affinity.unwrap_or_default());
        let mut own = |name: String, what: Own| _ = fragment.own.insert((family, name), what);
        let source = format!("{} saddr", family.word());
        let (mut rules, mut ways) = (Vec::new(), Vec::new());
        for (number, endpoint) in span.of(&self.chosen.list).iter().enumerate() {
            let suffix = format!("{}-{}", self.mark, text::name_of(*endpoint));
            let (to, clients) = (format!("to-{suffix}"), format!("clients-{suffix}"));
            rules.push(format!("{source} @{clients} goto {to}"));
            ways.push(format!("{number} : goto {to}"));
            own(
                to,
                Own::Chain(vec![format!("update @{clients} {{ {source} }}"), text::to(self.port.protocol, *endpoint)]),
            );
            let kind = family.address_type();
            own(clients, Own::Set(format!("type {kind}; flags dynamic,timeout; timeout {seconds}s; size 65535;")));
        }
        rules.push(format!("numgen random mod {} vmap {{ {} }}", span.count, ways.join(", ")));
        let name = format!("sticky-{}-{}-{}", self.mark, span.first, span.count);
        own(name.clone(), Own::Chain(rules));
        name
    }

    fn sticky_external(&self, fragment: &mut Fragment, span: Span) -> String {
        let next = self.sticky(fragment, span);
        let name = format!("external-{}", self.mark);
        let rules = vec![MARK.to_owned(), format!("goto {next}")];
        fragment.own.insert((self.family, name.clone()), Own::Chain(rules));
        name
    }

    fn sticky_local(&self, fragment: &mut Fragment, local: Span, cluster: Span) -> String {
        let mut rules = Vec::new();
        if !cluster.is_empty() {
            let any = self.sticky(fragment, cluster);
            rules.push(format!("{} saddr @pods goto {any}", self.family.word()));
            rules.push(format!("fib saddr type local {MARK} goto {any}"));
        }
        rules.push(match local.is_empty() {
            true => "drop".to_owned(),
            false => format!("goto {}", self.sticky(fragment, local)),
        });
        let name = format!("local-{}", self.mark);
        fragment.own.insert((self.family, name.clone()), Own::Chain(rules));
        name
    }

    /// The chain that drops those who may not come through a load balancer.
    fn guard(&self, fragment: &mut Fragment) -> Option<String> {
        if self.view.sources.is_empty() || self.view.balanced.is_empty() {
            return None;
        }
        let word = self.family.word();
        let ranges = self.view.sources.iter().filter(|range| range.family() == self.family).map(ToString::to_string);
        // A node that holds the balancer's address itself may always use it.
        let balancers = self.view.balanced.iter().filter(|one| Family::of(**one) == self.family);
        let allowed: Vec<String> = ranges.chain(balancers.map(ToString::to_string)).collect();
        let rules = allowed.iter().map(|range| format!("{word} saddr {range} return")).chain(["drop".to_owned()]);
        let name = format!("guard-{}", self.mark);
        fragment.own.insert((self.family, name.clone()), Own::Chain(rules.collect()));
        Some(name)
    }
}
