//! A Service that changes keeps what it was given, and lets go of what its new type has no use for.

use super::{has_address, has_node_ports};
use crate::resources::check::same;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::{Value, json};

pub fn carry_over(service: &mut Value, old: &Value) {
    keep_given(service, old);
    drop_useless(service, old);
}

/// An update that leaves out what the server chose does not mean to lose it.
fn keep_given(service: &mut Value, old: &Value) {
    if has_address(service) && has_address(old) {
        for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if let Some(value) = object::at(old, &["spec", key]) {
                object::fill(object::map_at(service, "spec"), key, value.clone());
            }
        }
    }
    if has_node_ports(service) && has_node_ports(old) {
        let number = |port: &Value| object::integer(port, &["nodePort"]).filter(|n| *n != 0);
        let used: Vec<i64> = object::list(service, &["spec", "ports"]).iter().filter_map(number).collect();
        let ports = object::at_mut(service, &["spec", "ports"]).and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten().filter(|port| number(port).is_none()) {
            let before = object::list(old, &["spec", "ports"])
                .iter()
                .find(|o| object::text(o, &["name"]) == object::text(port, &["name"]));
            if let Some(before) = before.and_then(number).filter(|n| !used.contains(n)) {
                object::as_map(port).insert("nodePort".into(), before.into());
            }
        }
    }
}

fn drop_useless(service: &mut Value, old: &Value) {
    let unchanged = |service: &Value, key: &str| {
        let at = |value: &Value| object::at(value, &["spec", key]).cloned().unwrap_or_default();
        same(&at(service), &at(old))
    };
    if has_address(old) && !has_address(service) {
        for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if unchanged(service, key) {
                object::remove(service, &["spec", key]);
            }
        }
    }
    if has_node_ports(old) && !has_node_ports(service) {
        let had: Vec<Value> = object::list(old, &["spec", "ports"]).iter().map(|p| p["nodePort"].clone()).collect();
        let ports = object::at_mut(service, &["spec", "ports"]).and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten() {
            if had.contains(&port["nodePort"]) {
                object::remove(port, &["nodePort"]);
            }
        }
    }
    let kind = object::text(service, &["spec", "type"]).to_owned();
    if kind != "LoadBalancer" {
        for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if unchanged(service, key) {
                object::remove(service, &["spec", key]);
            }
        }
        object::set(service, &["status", "loadBalancer"], json!({}));
    }
    let external = !object::list(service, &["spec", "externalIPs"]).is_empty();
    if !matches!(kind.as_str(), "NodePort" | "LoadBalancer") && !external && unchanged(service, "externalTrafficPolicy")
    {
        object::remove(service, &["spec", "externalTrafficPolicy"]);
    }
}

/// An address stays, except on the way from or to a name outside the cluster.
pub fn check(service: &Value, old: &Value, errors: &mut Errors) {
    if !has_address(service) || !has_address(old) {
        return;
    }
    let first = |value: &Value| object::list(value, &["spec", "clusterIPs"]).first().cloned();
    let (now, before) = (first(service), first(old));
    if before.is_some() && now != before {
        let here = Path::new("spec").child("clusterIPs").index(0);
        let shown = object::at(service, &["spec", "clusterIPs"]).cloned().unwrap_or_default();
        errors.push(Error::invalid(&here, shown, "may not change once set"));
    }
}
