//! Service networks and the addresses given out of them.

use crate::resources::described::{Described, PLAIN};
use crate::resources::print::{AGE, NAME, text};
use pintle_meta::object;
use serde_json::Value;

pub const IP_ADDRESS: Described = Described {
    names: |name| match name.parse::<std::net::IpAddr>() {
        Ok(_) => Vec::new(),
        Err(_) => vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()],
    },
    printed: Some(&[
        NAME,
        text("ParentRef", "networking.v1.IPAddressSpec.parentRef", |address, _| {
            let part = |key: &str| object::text(address, &["spec", "parentRef", key]).to_owned();
            let parts = [part("resource"), part("group"), part("namespace"), part("name")];
            let kind = if parts[1].is_empty() { parts[0].clone() } else { format!("{}.{}", parts[0], parts[1]) };
            [kind, parts[2].clone(), parts[3].clone()]
                .into_iter()
                .filter(|p| !p.is_empty())
                .collect::<Vec<_>>()
                .join("/")
                .into()
        }),
    ]),
    ..PLAIN
};

pub const SERVICE_CIDR: Described = Described {
    printed: Some(&[
        NAME,
        text("CIDRs", "networking.v1.ServiceCIDRSpec.cidrs", |cidr, _| {
            let all: Vec<&str> = object::list(cidr, &["spec", "cidrs"]).iter().filter_map(Value::as_str).collect();
            all.join(",").into()
        }),
        AGE,
    ]),
    ..PLAIN
};
