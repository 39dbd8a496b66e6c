//! Which packets go to which machine.

use core::net::IpAddr;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;

use crate::address::{OfFamily, Range};
use crate::bridge::hardware_address;
use crate::dataplane::{RouteLines, Way};
use crate::own_node::ranges_of;

/// The number under which the kernel keeps these routes apart from those of others.
pub const PROTOCOL: u8 = 187;
/// Where machines expect packets in an envelope.
const PORT: u16 = 8472;
/// What the envelope takes of a packet.
const ENVELOPE: u32 = 50;

/// The machine behind each range of Pods' addresses. Of two nodes that claim the same the earlier one has it, and nobody has what
/// is this node's own.
pub fn plan(nodes: &[&Node], own: &str) -> BTreeMap<Range, IpAddr> {
    let mut nodes = nodes.to_vec();
    nodes.sort_by_key(|node| (node.metadata.creation_timestamp.clone(), node.metadata.name.clone()));
    let (mine, others): (Vec<&Node>, Vec<&Node>) =
        nodes.into_iter().partition(|node| node.metadata.name.as_deref() == Some(own));
    let mut taken: Vec<Range> = mine.iter().filter_map(|node| ranges_of(node)).flat_map(|ranges| ranges.node).collect();
    let mut routes = BTreeMap::new();
    for node in others {
        for range in ranges_of(node).into_iter().flat_map(|ranges| ranges.node) {
            let is_free = !taken.iter().any(|other| other.overlaps(&range));
            // Pods of both families may be behind one machine of IPv4: the first address serves if none of the family is there.
            let address = address_of(node, |address| address.is_ipv4() == range.first().is_ipv4());
            if let (true, Some(address)) = (is_free, address.or_else(|| address_of(node, |_| true))) {
                taken.push(range);
                routes.insert(range, address);
            }
        }
    }
    routes
}

fn address_of(node: &Node, is_fine: impl Fn(&IpAddr) -> bool) -> Option<IpAddr> {
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    let internal = addresses.iter().filter(|one| one.type_ == "InternalIP");
    internal.filter_map(|one| one.address.parse().ok()).find(is_fine)
}

/// How a range is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub machine: IpAddr,
    pub way: Way,
}

impl Route {
    /// Whether packets can be handed to the machine as they are; else they go in an envelope, since the router between knows no
    /// Pods.
    fn is_direct(&self, range: &Range) -> bool {
        self.way.is_direct && self.machine.is_ipv4() == range.first().is_ipv4()
    }
}

/// What tells the kernel, and this machine's part of the way in envelopes.
#[derive(Clone, Debug)]
pub struct Tunnel {
    pub device: String,
    /// All machines of a cluster have the same, other clusters another.
    pub id: u32,
    /// This machine's own ranges.
    pub own: Vec<Range>,
}

/// The device that puts packets of a bridge's Pods into envelopes.
pub fn tunnel_device(bridge: &str) -> String {
    format!("pvx{}", bridge.trim_start_matches("pintle"))
}

impl Tunnel {
    pub fn new(bridge: &str, own: Vec<Range>, cluster: &[Range]) -> Self {
        let text = cluster.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let id = pintle_meta::hash::stable(text.as_bytes()) & 0x00ff_fffe | 1;
        Tunnel { device: tunnel_device(bridge), id: u32::try_from(id).unwrap_or(1), own }
    }

    /// What brings the kernel from one set of routes to another.
    pub fn lines(&self, old: &BTreeMap<Range, Route>, new: &BTreeMap<Range, Route>) -> RouteLines {
        let mut lines = RouteLines::default();
        let in_envelopes =
            |routes: &BTreeMap<Range, Route>| routes.iter().any(|(range, route)| !route.is_direct(range));
        if in_envelopes(new) && !in_envelopes(old) {
            self.open(new, &mut lines);
        }
        for (range, route) in old.iter().filter(|(range, route)| new.get(range) != Some(route)) {
            if !new.contains_key(range) {
                lines.forgiving.push(format!("route delete {range} proto {PROTOCOL}"));
            }
            if !route.is_direct(range) {
                self.forget(range, &mut lines);
            }
        }
        for (range, route) in new.iter().filter(|(range, route)| old.get(range) != Some(route)) {
            match route.is_direct(range) {
                true => lines.ip.push(format!(
                    "route replace {range} via {} dev {} proto {PROTOCOL}",
                    route.machine, route.way.device
                )),
                false => self.wrap(range, route, &mut lines),
            }
        }
        if in_envelopes(old) && !in_envelopes(new) {
            lines.forgiving.push(format!("link delete {}", self.device));
        }
        lines
    }

    fn open(&self, routes: &BTreeMap<Range, Route>, lines: &mut RouteLines) {
        let device = &self.device;
        let ways = routes.iter().filter(|(range, route)| !route.is_direct(range)).map(|(_, route)| &route.way);
        let mtu = ways.clone().map(|way| way.mtu).min().unwrap_or(1500).saturating_sub(ENVELOPE).max(576);
        let Some((from, first)) = ways.map(|way| way.from).next().zip(self.own.first()) else { return };
        let mac = hardware_address(first.first());
        lines.forgiving.push(format!("link delete {device}"));
        lines.ip.push(format!(
            "link add {device} address {mac} mtu {mtu} type vxlan id {} dstport {PORT} local {from} nolearning",
            self.id
        ));
        for range in &self.own {
            let widest = if range.first().is_ipv4() { 32 } else { 128 };
            lines.ip.push(format!("addr replace {}/{widest} dev {device}", range.first()));
        }
        lines.ip.push(format!("link set {device} up"));
    }

    fn wrap(&self, range: &Range, route: &Route, lines: &mut RouteLines) {
        let (device, peer, mac) = (&self.device, range.first(), hardware_address(range.first()));
        let family = if peer.is_ipv4() { "" } else { "-6 " };
        lines.ip.push(format!("neigh replace {peer} lladdr {mac} dev {device} nud permanent"));
        lines.ip.push(format!("{family}route replace {range} via {peer} dev {device} onlink proto {PROTOCOL}"));
        lines.bridge.push(format!("fdb replace {mac} dev {device} dst {}", route.machine));
    }

    fn forget(&self, range: &Range, lines: &mut RouteLines) {
        let (device, mac) = (&self.device, hardware_address(range.first()));
        lines.forgiving.push(format!("neigh delete {} dev {device}", range.first()));
        lines.forgotten.push(format!("fdb delete {mac} dev {device}"));
    }

    /// Takes everything away.
    pub fn removal(&self, routes: &BTreeMap<Range, Route>) -> RouteLines {
        let mut lines = self.lines(routes, &BTreeMap::new());
        lines.forgotten.clear();
        lines
    }
}

/// Routes of ours that nobody wants: left by a process that was killed.
pub(super) fn left(there: &[Range], wanted: &BTreeMap<Range, Route>, cluster: &[Range]) -> RouteLines {
    let is_ours =
        |range: &&Range| cluster.iter().any(|all| all.family() == range.family() && all.contains(range.first()));
    let stale = there.iter().filter(is_ours).filter(|range| !wanted.contains_key(range));
    RouteLines {
        forgiving: stale.map(|range| format!("route delete {range} proto {PROTOCOL}")).collect(),
        ..RouteLines::default()
    }
}
