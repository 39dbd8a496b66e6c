//! How rules are written for `nft`.

use std::net::SocketAddr;

use super::Here;
use super::choose::Span;
use super::plan::{At, Go};
use crate::address::{Family, OfFamily, Protocol};

/// Marks a packet whose answer must come back through this node. The bit is the one that others know from kube-proxy.
pub(super) const MARK: &str = "meta mark set meta mark | 0x4000";

/// The table of one family with everything that does not depend on Services. What was there before is gone in the same
/// transaction.
///
/// Addresses are rewritten in `nat`; what nobody serves is refused in `filter`, after that. Nothing addressed to the range of
/// Services goes on from there: it would leave by the default route, and a stranger's network might answer. Connections are reset:
/// a socket that is just connecting does not hear other refusals, and they are limited in number.
pub(super) fn base(family: Family, here: &Here) -> String {
    let (word, address, table) = (family.word(), family.address_type(), &here.table);
    let list = |ranges: &[crate::Range]| {
        let own: Vec<String> = ranges.iter().filter(|one| one.family() == family).map(ToString::to_string).collect();
        if own.is_empty() { String::new() } else { format!("elements = {{ {} }};", own.join(", ")) }
    };
    let (pods, services) = (list(&here.pods), list(&here.services));
    let loopback = if family == Family::V4 { "127.0.0.0/8" } else { "::1" };
    let key = format!("{word} daddr . meta l4proto . th dport");
    // The type of a number drawn by chance has no name: it is told by an example. One map for all protocols cannot be told so
    // that `nft` reads back what it wrote.
    let endpoints_of = |protocol: &Protocol| {
        let (protocol, number) = (protocol.word(), "numgen random mod 2");
        format!(
            "map {protocol}-endpoints {{ typeof {word} daddr . {protocol} dport . {number} : {word} daddr . {protocol} dport; }}\n\
             map {protocol}-node-endpoints {{ typeof {protocol} dport . {number} : {word} daddr . {protocol} dport; }}\n"
        )
    };
    let endpoints: String = Protocol::ALL.iter().map(endpoints_of).collect();
    format!(
        "table {word} {table}\n\
         delete table {word} {table}\n\
         table {word} {table} {{\n\
         set pods {{ type {address}; flags interval; {pods} }}\n\
         set service-range {{ type {address}; flags interval; {services} }}\n\
         set hairpins {{ type {address} . {address}; }}\n\
         map services {{ type {address} . inet_proto . inet_service : verdict; }}\n\
         map node-ports {{ type inet_proto . inet_service : verdict; }}\n\
         {endpoints}\
         map guarded {{ type {address} . inet_proto . inet_service : verdict; }}\n\
         map refused {{ type {address} . inet_proto . inet_service : verdict; }}\n\
         map refused-node-ports {{ type inet_proto . inet_service : verdict; }}\n\
         chain reject-it {{\nmeta l4proto tcp reject with tcp reset\nreject\n}}\n\
         chain drop-it {{\ndrop\n}}\n\
         chain find {{\n\
         iifname \"pintle*\" iifname != \"{bridge}\" return\n\
         {word} daddr @service-range {word} saddr != @pods {MARK}\n\
         {key} vmap @services\n\
         fib daddr type local {word} daddr != {loopback} meta l4proto . th dport vmap @node-ports\n\
         }}\n\
         chain prerouting {{\ntype nat hook prerouting priority dstnat;\njump find\n}}\n\
         chain output {{\ntype nat hook output priority -100;\njump find\n}}\n\
         chain postrouting {{\ntype nat hook postrouting priority srcnat;\n\
         ct status dnat {word} saddr . {word} daddr @hairpins masquerade\n\
         meta mark & 0x4000 == 0x4000 meta mark set meta mark ^ 0x4000 masquerade fully-random\n\
         }}\n\
         chain guard-prerouting {{\ntype filter hook prerouting priority -110;\nct state new {key} vmap @guarded\n}}\n\
         chain guard-output {{\ntype filter hook output priority -110;\nct state new {key} vmap @guarded\n}}\n\
         chain refuse {{\n\
         {key} vmap @refused\n\
         {word} daddr @service-range goto reject-it\n\
         }}\n\
         chain filter-forward {{\ntype filter hook forward priority filter;\nct state new jump refuse\n}}\n\
         chain filter-output {{\ntype filter hook output priority filter;\nct state new jump refuse\n}}\n\
         chain filter-input {{\ntype filter hook input priority filter;\n\
         ct state new {key} vmap @refused\n\
         ct state new fib daddr type local meta l4proto . th dport vmap @refused-node-ports\n\
         }}\n\
         }}\n",
        bridge = here.bridge,
    )
}

/// The maps that a frontend stands in.
pub(super) struct Maps {
    pub verdicts: &'static str,
    pub refused: &'static str,
    pub endpoints: &'static str,
}

impl At {
    pub(super) fn maps(&self) -> Maps {
        match self {
            At::Address(_, protocol, _) => Maps {
                verdicts: "services",
                refused: "refused",
                endpoints: match protocol {
                    Protocol::Tcp => "tcp-endpoints",
                    Protocol::Udp => "udp-endpoints",
                    Protocol::Sctp => "sctp-endpoints",
                },
            },
            At::NodePort(_, protocol, _) => Maps {
                verdicts: "node-ports",
                refused: "refused-node-ports",
                endpoints: match protocol {
                    Protocol::Tcp => "tcp-node-endpoints",
                    Protocol::Udp => "udp-node-endpoints",
                    Protocol::Sctp => "sctp-node-endpoints",
                },
            },
        }
    }

    /// Its key in the maps of verdicts.
    pub(super) fn key(&self) -> String {
        match self {
            At::Address(address, protocol, port) => format!("{address} . {} . {port}", protocol.word()),
            At::NodePort(_, protocol, port) => format!("{} . {port}", protocol.word()),
        }
    }

    /// The key of one of its endpoints.
    pub(super) fn key_of(&self, number: usize) -> String {
        match self {
            At::Address(address, _, port) => format!("{address} . {port} . {number}"),
            At::NodePort(_, _, port) => format!("{port} . {number}"),
        }
    }

    fn pick(&self, span: Span) -> String {
        let (word, map) = (self.family().word(), self.maps().endpoints);
        let looked_up = match self {
            At::Address(_, protocol, _) => format!("{word} daddr . {} dport", protocol.word()),
            At::NodePort(_, protocol, _) => format!("{} dport", protocol.word()),
        };
        let offset = if span.first == 0 { String::new() } else { format!(" offset {}", span.first) };
        format!("dnat {word} to {looked_up} . numgen random mod {}{offset} map @{map}", span.count)
    }

    /// What the names of chains for this kind of frontend begin with.
    fn prefix(&self) -> String {
        match self {
            At::Address(_, protocol, _) => protocol.word().to_owned(),
            At::NodePort(_, protocol, _) => format!("node-{}", protocol.word()),
        }
    }
}

impl Go {
    /// The chain that a frontend of this kind leads to.
    pub(super) fn chain(&self, at: &At) -> String {
        let prefix = at.prefix();
        match self {
            Go::Pick(span) => format!("{prefix}-pick-{}-{}", span.first, span.count),
            Go::External(span) => format!("{prefix}-external-{}-{}", span.first, span.count),
            Go::Local { local, cluster } => {
                format!("{prefix}-local-{}-{}-{}", local.count, cluster.first, cluster.count)
            }
            Go::Own(name) => name.clone(),
            Go::Reject => "reject-it".to_owned(),
            Go::Drop => "drop-it".to_owned(),
        }
    }

    /// The rules of a chain that Services share; nothing for one of their own, or for what is always there.
    pub(super) fn rules(&self, at: &At) -> Option<Vec<String>> {
        let word = at.family().word();
        match self {
            Go::Pick(span) => Some(vec![at.pick(*span)]),
            Go::External(span) => Some(vec![MARK.to_owned(), at.pick(*span)]),
            Go::Local { local, cluster } => {
                let mut rules = Vec::new();
                if !cluster.is_empty() {
                    rules.push(format!("{word} saddr @pods {}", at.pick(*cluster)));
                    rules.push(format!("fib saddr type local {MARK} {}", at.pick(*cluster)));
                }
                rules.push(if local.is_empty() { "drop".to_owned() } else { at.pick(*local) });
                Some(rules)
            }
            Go::Own(_) | Go::Reject | Go::Drop => None,
        }
    }
}

/// Sends a packet to an endpoint.
pub(super) fn to(protocol: Protocol, endpoint: SocketAddr) -> String {
    let word = Family::of(endpoint.ip()).word();
    format!("meta l4proto {} dnat {word} to {endpoint}", protocol.word())
}

/// An endpoint as a part of a name.
pub(super) fn name_of(endpoint: SocketAddr) -> String {
    format!("{}.{}", endpoint.ip().to_string().replace(':', "_"), endpoint.port())
}

/// The endpoint as a value of a map.
pub(super) fn value_of(endpoint: SocketAddr) -> String {
    format!("{} . {}", endpoint.ip(), endpoint.port())
}
