//! An EndpointSlice: some of the addresses behind a Service.

use crate::resources::check;
use crate::resources::print::{AGE, NAME, UNSET, or, text};
use crate::resources::rules::items;
use crate::strategy::{Printed, Strategy};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::Value;
use std::net::IpAddr;

const COLUMNS: &[Printed] = &[
    NAME,
    text("AddressType", "discovery.v1.EndpointSlice.addressType", |slice, _| {
        object::text(slice, &["addressType"]).into()
    }),
    text("Ports", "discovery.v1.EndpointSlice.ports", |slice, _| ports(slice).into()),
    text("Endpoints", "discovery.v1.EndpointSlice.endpoints", |slice, _| addresses(slice).into()),
    AGE,
];
/// More than so many are not shown.
const SHOWN: usize = 3;
const MOST_ENDPOINTS: usize = 1000;

pub struct EndpointSlice;

impl Strategy for EndpointSlice {
    fn validate(&self, slice: &Value, _old: Option<&Value>, errors: &mut Errors) {
        let endpoints = object::list(slice, &["endpoints"]);
        if endpoints.len() > MOST_ENDPOINTS {
            errors.push(Error::too_many(&Path::new("endpoints"), endpoints.len(), MOST_ENDPOINTS));
        }
        let kind = object::text(slice, &["addressType"]);
        for (here, endpoint) in items(slice, &Path::root(), "endpoints") {
            for (i, address) in object::list(endpoint, &["addresses"]).iter().filter_map(Value::as_str).enumerate() {
                let fits = match (kind, address.parse::<IpAddr>()) {
                    ("IPv4", Ok(IpAddr::V4(_))) | ("IPv6", Ok(IpAddr::V6(_))) => true,
                    ("IPv4" | "IPv6", _) => false,
                    _ => true,
                };
                if !fits {
                    let example = if kind == "IPv4" { "10.9.8.7" } else { "2001:db8::ffff" };
                    let detail = format!("must be a valid {kind} address, (e.g. {example})");
                    errors.push(Error::invalid(&here.child("addresses").index(i), address, detail));
                }
            }
        }
    }

    fn validate_update(&self, slice: &Value, old: &Value, _subresource: &str, errors: &mut Errors) {
        check::immutable(slice, old, &["addressType"], errors);
    }

    fn counts_generations(&self) -> bool {
        true
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}

fn ports(slice: &Value) -> String {
    let all: Vec<String> = object::list(slice, &["ports"])
        .iter()
        .map(|port| match (object::text(port, &["name"]), object::integer(port, &["port"])) {
            (_, Some(number)) => number.to_string(),
            ("", None) => "*".to_owned(),
            (name, None) => name.to_owned(),
        })
        .collect();
    shortened(&all)
}

fn addresses(slice: &Value) -> String {
    let all: Vec<String> = object::list(slice, &["endpoints"])
        .iter()
        .flat_map(|endpoint| object::list(endpoint, &["addresses"]))
        .filter_map(|address| address.as_str().map(str::to_owned))
        .collect();
    shortened(&all)
}

fn shortened(all: &[String]) -> String {
    let shown = all[..all.len().min(SHOWN)].join(",");
    match all.len().saturating_sub(SHOWN) {
        0 => or(&shown, UNSET).to_owned(),
        more => format!("{shown} + {more} more..."),
    }
}
