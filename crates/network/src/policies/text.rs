//! How rules are written for `nft`.

use std::net::IpAddr;

use super::plan::Contents;
use crate::address::{Family, Protocol};
use crate::services::Here;

impl Here {
    /// The name of the tables of policies. Services have tables of their own, which are written anew without these.
    pub fn policy_table(&self) -> String {
        format!("{}-policy", self.table)
    }

    /// The name of the tables that stand in while those are written anew.
    pub(crate) fn policy_guard(&self) -> String {
        format!("{}-policy-guard", self.table)
    }
}

/// The table of one family with everything that does not depend on policies, in place of what was there.
///
/// Packets are judged when they are forwarded, after a Service's address became an endpoint's and before a sender's address
/// becomes the node's. What the node itself sends or is sent is not forwarded: the kubelet's probes always pass. So do the
/// answers of a connection that was allowed when it began, and a Pod that calls itself through a Service.
pub(super) fn base(family: Family, table: &str) -> String {
    let (word, address) = (family.word(), family.address_type());
    // Pods of one bridge find each other by these, which nobody's connection is.
    let neighbours = match family {
        Family::V4 => "",
        Family::V6 => {
            "icmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert } accept\n"
        }
    };
    format!(
        "table {word} {table}\n\
         delete table {word} {table}\n\
         table {word} {table} {{\n\
         map ingress {{ type {address} : verdict; }}\n\
         map egress {{ type {address} : verdict; }}\n\
         set own {{ type {address} . {address}; }}\n\
         chain forward {{\n\
         type filter hook forward priority filter;\n\
         ct state established,related accept\n\
         {neighbours}\
         {word} saddr . {word} daddr @own accept\n\
         {word} saddr vmap @egress\n\
         {word} daddr vmap @ingress\n\
         }}\n\
         }}\n"
    )
}

/// What stands between the braces of a set.
pub(super) fn definition(family: Family, contents: &Contents) -> String {
    let address = family.address_type();
    match contents.port {
        None => format!("type {address};"),
        Some(_) => format!("type {address} . inet_proto . inet_service;"),
    }
}

/// One that is in a set: an address, or one of its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Element {
    pub address: IpAddr,
    pub port: Option<(Protocol, u16)>,
}

impl Element {
    pub(super) fn written(&self) -> String {
        match self.port {
            None => self.address.to_string(),
            Some((protocol, port)) => format!("{} . {} . {port}", self.address, protocol.word()),
        }
    }
}
