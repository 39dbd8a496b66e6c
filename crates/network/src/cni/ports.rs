//! Ports of the node that lead to Pods, and how Pods reach the world: by the node's address.
//!
//! A table of its own. Bases are laid with the bridge; the plugin adds and removes elements. What a Service wants goes first.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use super::books::Held;
use super::config::Mapping;
use crate::address::{Family, OfFamily, Protocol, Range};
use crate::bridge::Bridge;
use crate::dataplane::{Stale, removal};
use crate::services::At;

/// The rules for one bridge.
#[derive(Clone, Debug)]
pub struct Ports<'a> {
    bridge: &'a Bridge,
}

impl<'a> Ports<'a> {
    pub fn new(bridge: &'a Bridge) -> Self {
        Ports { bridge }
    }

    fn table(&self) -> String {
        format!("{}-pods", self.bridge.name)
    }

    /// Everything, in place of whatever is there.
    pub fn whole(&self, held: &BTreeMap<IpAddr, Held>) -> String {
        let mut out: String = self.bridge.pods.iter().map(|range| self.base(range)).collect();
        for (address, held) in held {
            out.push_str(&self.change("add", *address, &held.ports));
        }
        out
    }

    /// Lets ports lead to a Pod.
    pub fn open(&self, address: IpAddr, ports: &[Mapping]) -> String {
        self.change("add", address, ports)
    }

    /// Whatever else was wrong, ports that are closed are closed.
    pub fn close(&self, address: IpAddr, ports: &[Mapping]) -> String {
        // Removing what is not there would fail; adding what is there does not.
        self.change("add", address, ports) + &self.change("delete", address, ports)
    }

    pub fn removal(&self) -> String {
        removal(&[self.table()])
    }

    /// Flows of datagrams that still lead where the ports led before.
    pub fn stale(ports: &[Mapping], endpoints: &[SocketAddr]) -> Vec<Stale> {
        let udp = ports.iter().filter(|one| one.protocol() == Some(Protocol::Udp));
        let of = |mapping: &Mapping| {
            Family::ALL.map(|family| Stale {
                at: At::NodePort(family, Protocol::Udp, mapping.host_port),
                endpoints: endpoints.iter().copied().filter(|one| Family::of(one.ip()) == family).collect(),
            })
        };
        udp.flat_map(of).collect()
    }

    fn change(&self, verb: &str, address: IpAddr, ports: &[Mapping]) -> String {
        let family = Family::of(address);
        let mut out = String::new();
        for mapping in ports {
            let Some(protocol) = mapping.protocol() else { continue };
            let place = match mapping.only() {
                Some(only) if Family::of(only) != family => continue,
                Some(only) => format!("ports-at {{ {only} . {} . {}", protocol.word(), mapping.host_port),
                None => format!("ports {{ {} . {}", protocol.word(), mapping.host_port),
            };
            let value = format!("{address} . {}", mapping.container_port);
            // Writing to a string cannot fail.
            _ = writeln!(out, "{verb} element {} {} {place} : {value} }}", family.word(), self.table());
        }
        out
    }

    fn base(&self, own: &Range) -> String {
        let family = own.family();
        let (word, address, table, bridge) = (family.word(), family.address_type(), self.table(), &self.bridge.name);
        let mut inside: Vec<String> = vec![own.to_string()];
        let cluster = self.bridge.cluster.iter().filter(|range| range.family() == family);
        // A range inside of another would be refused.
        let around: Vec<&Range> = cluster.collect();
        if around.iter().any(|range| range.contains(own.first())) {
            inside.clear();
        }
        inside.extend(around.iter().map(ToString::to_string));
        let inside = inside.join(", ");
        let (loopback, many) = match family {
            Family::V4 => ("127.0.0.0/8", "224.0.0.0/4"),
            Family::V6 => ("::1", "ff00::/8"),
        };
        format!(
            "table {word} {table}\n\
             delete table {word} {table}\n\
             table {word} {table} {{\n\
             set cluster {{ type {address}; flags interval; elements = {{ {inside} }}; }}\n\
             map ports {{ type inet_proto . inet_service : {address} . inet_service; }}\n\
             map ports-at {{ type {address} . inet_proto . inet_service : {address} . inet_service; }}\n\
             chain find {{\n\
             iifname \"pintle*\" iifname != \"{bridge}\" return\n\
             {word} saddr {own} meta mark set meta mark | 0x2000\n\
             dnat {word} to {word} daddr . meta l4proto . th dport map @ports-at\n\
             fib daddr type local dnat {word} to meta l4proto . th dport map @ports\n\
             }}\n\
             chain prerouting {{\ntype nat hook prerouting priority -99;\njump find\n}}\n\
             chain output {{\ntype nat hook output priority -99;\njump find\n}}\n\
             chain postrouting {{\ntype nat hook postrouting priority 101;\n\
             oifname \"{bridge}\" {word} saddr {loopback} masquerade\n\
             oifname \"{bridge}\" ct status dnat meta mark & 0x2000 == 0x2000 masquerade\n\
             {word} saddr {own} {word} daddr != @cluster {word} daddr != {many} oifname != \"{bridge}\" masquerade fully-random\n\
             }}\n\
             chain loopback {{\ntype filter hook prerouting priority -310;\niifname \"{bridge}\" {word} daddr {loopback} drop\n}}\n\
             }}\n"
        )
    }
}
