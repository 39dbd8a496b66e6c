//! Endpoints: the addresses behind a Service, as older clients read them.

use crate::resources::print::{AGE, NAME, NONE, text};
use crate::resources::rules::items;
use crate::strategy::{Printed, Strategy};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use serde_json::Value;

const COLUMNS: &[Printed] =
    &[NAME, text("Endpoints", "core.v1.Endpoints.subsets", |endpoints, _| addresses(endpoints).into()), AGE];
/// More than so many are not shown.
const SHOWN: usize = 3;

pub struct Endpoints;

impl Strategy for Endpoints {
    fn deprecation(&self) -> Option<&'static str> {
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    }

    fn validate(&self, endpoints: &Value, _old: Option<&Value>, errors: &mut Errors) {
        for (here, subset) in items(endpoints, &Path::root(), "subsets") {
            let none = |key: &str| object::list(subset, &[key]).is_empty();
            if none("addresses") && none("notReadyAddresses") {
                errors.push(Error::required(&here, "must specify `addresses` or `notReadyAddresses`"));
            }
            let ports = object::list(subset, &["ports"]);
            for (here, port) in items(subset, &here, "ports") {
                if ports.len() > 1 && object::text(port, &["name"]).is_empty() {
                    errors.push(Error::required(&here.child("name"), ""));
                }
                let number = object::integer(port, &["port"]).unwrap_or(0);
                let problems = rules::port_number(number);
                errors.extend(problems.into_iter().map(|p| Error::invalid(&here.child("port"), number, p)));
            }
        }
    }

    fn creates_on_update(&self) -> bool {
        true
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}

fn addresses(endpoints: &Value) -> String {
    let subsets = object::list(endpoints, &["subsets"]);
    if subsets.is_empty() {
        return NONE.to_owned();
    }
    let mut all: Vec<String> = Vec::new();
    for subset in subsets {
        let ips = object::list(subset, &["addresses"]).iter().map(|a| object::text(a, &["ip"]));
        let ports = object::list(subset, &["ports"]);
        if ports.is_empty() {
            all.extend(ips.map(str::to_owned));
            continue;
        }
        for port in ports {
            let number = object::integer(port, &["port"]).unwrap_or(0);
            all.extend(
                ips.clone()
                    .map(|ip| if ip.contains(':') { format!("[{ip}]:{number}") } else { format!("{ip}:{number}") }),
            );
        }
    }
    let more = all.len().saturating_sub(SHOWN);
    all.truncate(SHOWN);
    let shown = all.join(",");
    if more > 0 { format!("{shown} + {more} more...") } else { shown }
}
