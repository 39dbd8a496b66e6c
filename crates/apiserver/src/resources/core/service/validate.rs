//! What a Service must say, by its type.

use super::{addresses, external, is_headless};
use crate::registry::validate_labels;
use crate::resources::check;
use crate::resources::rules::items;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::IpAddr;

pub fn service(service: &Value, errors: &mut Errors) {
    let spec = Path::new("spec");
    let kind = object::text(service, &["spec", "type"]);
    let ports = object::list(service, &["spec", "ports"]);
    if ports.is_empty() && !is_headless(service) && kind != "ExternalName" {
        errors.push(Error::required(&spec.child("ports"), ""));
    }
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(service) => {
            let detail = format!("may not be set to 'None' for {kind} services");
            errors.push(Error::invalid(&spec.child("clusterIPs").index(0), "None", detail));
        }
        "ExternalName" => external_name(service, &spec, errors),
        _ => {}
    }
    check_ports(service, kind, errors);
    validate_labels(object::at(service, &["spec", "selector"]), &spec.child("selector"), errors);
    if kind != "ExternalName" {
        check_addresses(service, &spec, errors);
    }
    external::check(service, &spec, errors);
    let affinity = object::integer(service, &["spec", "sessionAffinityConfig", "clientIP", "timeoutSeconds"]);
    if let Some(seconds) = affinity.filter(|s| !(1..=86400).contains(s)) {
        let here = spec.child("sessionAffinityConfig").child("clientIP").child("timeoutSeconds");
        errors.push(Error::invalid(&here, seconds, "must be greater than 0 and less than 86400"));
    }
    for (key, word) in [("allocateLoadBalancerNodePorts", ""), ("loadBalancerClass", "")] {
        if kind != "LoadBalancer" && object::at(service, &["spec", key]).is_some_and(|v| *v != word) {
            errors.push(Error::forbidden(&spec.child(key), "may only be used when `type` is 'LoadBalancer'"));
        }
    }
    if kind != "LoadBalancer" && !object::list(service, &["spec", "loadBalancerSourceRanges"]).is_empty() {
        let here = spec.child("LoadBalancerSourceRanges");
        errors.push(Error::forbidden(&here, "may only be used when `type` is 'LoadBalancer'"));
    }
}

fn external_name(service: &Value, spec: &Path, errors: &mut Errors) {
    for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if object::at(service, &["spec", key]).is_some_and(|v| !v.is_null()) {
            errors.push(Error::forbidden(&spec.child(key), "may not be set for ExternalName services"));
        }
    }
    match object::text(service, &["spec", "externalName"]).trim_end_matches('.') {
        "" => errors.push(Error::required(&spec.child("externalName"), "")),
        name => check::text(name, &spec.child("externalName"), rules::dns_subdomain, errors),
    }
}

fn check_ports(service: &Value, kind: &str, errors: &mut Errors) {
    let spec = service.get("spec").unwrap_or(&Value::Null);
    let named = object::list(spec, &["ports"]).len() > 1;
    let mut names = BTreeSet::new();
    let mut node_ports = BTreeSet::new();
    let mut numbers = BTreeSet::new();
    for (here, port) in items(spec, &Path::new("spec"), "ports") {
        let (name, protocol) = (object::text(port, &["name"]), object::text(port, &["protocol"]));
        if name.is_empty() && named {
            errors.push(Error::required(&here.child("name"), ""));
        } else if !name.is_empty() {
            check::text(name, &here.child("name"), rules::dns_label, errors);
            if !names.insert(name) {
                errors.push(Error::duplicate(&here.child("name"), name));
            }
        }
        let number = object::integer(port, &["port"]).unwrap_or(0);
        let problems = rules::port_number(number);
        errors.extend(problems.into_iter().map(|p| Error::invalid(&here.child("port"), number, p)));
        match port.get("targetPort") {
            Some(Value::Number(target)) => {
                let target = target.as_i64().unwrap_or(0);
                let problems = rules::port_number(target);
                errors.extend(problems.into_iter().map(|p| Error::invalid(&here.child("targetPort"), target, p)));
            }
            Some(Value::String(target)) => check::text(target, &here.child("targetPort"), rules::port_name, errors),
            _ => {}
        }
        let node_port = object::integer(port, &["nodePort"]).unwrap_or(0);
        if node_port != 0 {
            if kind == "ClusterIP" {
                let detail = "may not be used when `type` is 'ClusterIP'";
                errors.push(Error::forbidden(&here.child("nodePort"), detail));
            }
            if !node_ports.insert((protocol, node_port)) {
                errors.push(Error::duplicate(&here.child("nodePort"), node_port));
            }
        }
        if !numbers.insert((protocol, number)) {
            errors.push(Error::duplicate(&here, json!({"protocol": protocol, "port": number})));
        }
    }
}

fn check_addresses(service: &Value, spec: &Path, errors: &mut Errors) {
    let one = object::text(service, &["spec", "clusterIP"]);
    let many = object::list(service, &["spec", "clusterIPs"]);
    let here = spec.child("clusterIPs");
    if many.first().and_then(Value::as_str).is_some_and(|first| first != one) {
        errors.push(Error::invalid(&here, many.to_vec(), "first value must match `clusterIP`"));
    }
    for (i, address) in many.iter().filter_map(Value::as_str).enumerate() {
        if address == "None" {
            if many.len() > 1 {
                errors.push(Error::invalid(&here, many.to_vec(), "'None' must be the first and only value"));
            }
        } else if address.parse::<IpAddr>().is_err() {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.push(Error::invalid(&here.index(i), address, detail));
        }
    }
    if many.len() > 2 {
        errors.push(Error::invalid(&here, many.to_vec(), "may only hold up to 2 values"));
    }
    errors.extend(addresses::out_of_range(service));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_cannot_route_is_refused() {
        for (spec, error) in [
            (json!({"type": "ClusterIP"}), Some("spec.ports: Required value")),
            (json!({"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]}), None),
            (json!({"type": "ExternalName"}), Some("spec.externalName: Required value")),
            (
                json!({"type": "NodePort", "ports": [{"port": 80, "protocol": "TCP", "nodePort": 80}]}),
                Some(
                    "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767",
                ),
            ),
            (
                json!({"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}]}),
                Some("spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"),
            ),
        ] {
            let mut errors = Errors::new();
            service(&json!({"spec": spec}), &mut errors);
            assert_eq!(errors.first().map(ToString::to_string).as_deref(), error);
        }
    }
}
