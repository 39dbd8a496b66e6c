//! A NetworkPolicy: who may speak with the Pods that it selects.

use crate::resources::print::{AGE, NAME, selector, text};
use crate::resources::rules::items;
use crate::strategy::{Printed, Strategy};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::{Value, json};
use std::net::IpAddr;

const COLUMNS: &[Printed] = &[
    NAME,
    text("Pod-Selector", "networking.v1.NetworkPolicySpec.podSelector", |policy, _| {
        selector(object::at(policy, &["spec", "podSelector"]))
    }),
    AGE,
];

pub struct NetworkPolicy;

impl Strategy for NetworkPolicy {
    /// One that does not say so speaks of what comes in, and of what goes out if it has rules for that.
    fn default(&self, policy: &mut Value) {
        let egress = !object::list(policy, &["spec", "egress"]).is_empty();
        let spec = object::map_at(policy, "spec");
        if spec.get("policyTypes").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
            spec.insert("policyTypes".into(), types);
        }
    }

    fn counts_generations(&self) -> bool {
        true
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}

pub fn check_spec(spec: &Value, path: &Path, errors: &mut Errors) {
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (here, rule) in items(spec, path, direction) {
            for (here, peer) in items(rule, &here, peers) {
                check_peer(peer, &here, errors);
            }
            for (here, port) in items(rule, &here, "ports") {
                check_port(port, &here, errors);
            }
        }
    }
    let types = object::list(spec, &["policyTypes"]);
    let here = path.child("policyTypes");
    if types.len() > 2 {
        errors.push(Error::invalid(&here, types.to_vec(), "may not specify more than two policyTypes"));
        return;
    }
    for (i, kind) in types.iter().filter_map(Value::as_str).enumerate() {
        if !matches!(kind, "Ingress" | "Egress") {
            errors.push(Error::not_supported(&here.index(i), kind, &["Egress", "Ingress"]));
        }
    }
}

fn check_peer(peer: &Value, path: &Path, errors: &mut Errors) {
    let given = |key: &str| peer.get(key).is_some_and(|v| !v.is_null());
    let selects = given("podSelector") || given("namespaceSelector");
    match (selects, given("ipBlock")) {
        (false, false) => errors.push(Error::required(path, "must specify a peer")),
        (true, true) => {
            let detail = "may not specify both ipBlock and another peer";
            errors.push(Error::forbidden(path, detail));
        }
        _ => {}
    }
    if given("ipBlock") {
        let here = path.child("ipBlock").child("cidr");
        match object::text(peer, &["ipBlock", "cidr"]) {
            "" => errors.push(Error::required(&here, "")),
            cidr if !is_cidr(cidr) => {
                errors.push(Error::invalid(
                    &here,
                    cidr,
                    "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
                ));
            }
            _ => {}
        }
    }
}

fn check_port(port: &Value, path: &Path, errors: &mut Errors) {
    let first = port.get("port").and_then(Value::as_i64);
    if let Some(last) = object::integer(port, &["endPort"]) {
        let here = path.child("endPort");
        match first {
            None => errors.push(Error::required(&path.child("port"), "must be specified when `endPort` is set")),
            Some(first) if last < first => {
                errors.push(Error::invalid(&here, last, "must be greater than or equal to `port`"));
            }
            Some(_) => {}
        }
    }
    if let Some(first) = first {
        let problems = pintle_meta::rules::port_number(first);
        errors.extend(problems.into_iter().map(|p| Error::invalid(&path.child("port"), first, p)));
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    match (address.parse::<IpAddr>(), bits.parse::<u8>()) {
        (Ok(IpAddr::V4(_)), Ok(bits)) => bits <= 32,
        (Ok(IpAddr::V6(_)), Ok(bits)) => bits <= 128,
        _ => false,
    }
}
