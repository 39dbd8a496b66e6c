//! A Service: a name and an address for Pods that come and go.

mod addresses;
mod external;
mod print;
mod update;
mod validate;

use crate::kept::addresses::ip_address;
use crate::keys;
use crate::strategy::{Printed, Strategy};
use pintle_meta::field::{Error, Errors};
use pintle_meta::{object, rules};
use serde_json::{Value, json};

pub struct Service;

impl Strategy for Service {
    fn default(&self, service: &mut Value) {
        let spec = object::map_at(service, "spec");
        match spec.get("sessionAffinity").and_then(Value::as_str) {
            Some("ClientIP")
                if spec.get("sessionAffinityConfig").is_none_or(|c| c["clientIP"]["timeoutSeconds"].is_null()) =>
            {
                spec.insert("sessionAffinityConfig".into(), json!({"clientIP": {"timeoutSeconds": 10800}}));
            }
            Some("None") => drop(spec.remove("sessionAffinityConfig")),
            _ => {}
        }
        // What is reachable by an address outside the cluster has a say in which nodes take its traffic.
        let external = spec.get("externalIPs").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
        if external && spec.get("type").is_some_and(|kind| kind == "ClusterIP") {
            object::fill(spec, "externalTrafficPolicy", "Cluster");
        }
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            let number = port["port"].clone();
            let port = object::as_map(port);
            if port.get("targetPort").is_none_or(|t| t == 0 || t == "") {
                port.insert("targetPort".into(), number);
            }
        }
    }

    fn prepare_create(&self, service: &mut Value) {
        addresses::normalize(service);
        addresses::allocate(service);
    }

    fn prepare_update(&self, service: &mut Value, old: &Value, _subresource: &str) {
        update::carry_over(service, old);
        addresses::normalize(service);
        addresses::allocate(service);
    }

    fn validate(&self, service: &Value, _old: Option<&Value>, errors: &mut Errors) {
        validate::service(service, errors);
    }

    fn validate_update(&self, service: &Value, old: &Value, _subresource: &str, errors: &mut Errors) {
        update::check(service, old, errors);
    }

    fn name_problems(&self, name: &str) -> rules::Problems {
        rules::dns_label(name)
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.clusterIP", "spec.type"]
    }

    fn creates_on_update(&self) -> bool {
        true
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn claims(&self, service: &Value) -> Vec<String> {
        addresses::claims(service)
    }

    fn shown_claim(&self, service: &Value, claim: &str) -> Option<Value> {
        let address = keys::rest(claim, keys::SERVICE_ADDRESSES)?;
        Some(ip_address(address, object::namespace(service), object::name(service)))
    }

    fn claim_error(&self, service: &Value, claim: &str) -> Error {
        addresses::claim_error(service, claim)
    }

    fn reassign(&self, service: &mut Value, claim: &str) {
        addresses::reassign(service, claim);
    }

    fn printed(&self) -> &'static [Printed] {
        print::COLUMNS
    }
}

/// Does traffic reach it at an address of the cluster?
fn has_address(service: &Value) -> bool {
    matches!(object::text(service, &["spec", "type"]), "ClusterIP" | "NodePort" | "LoadBalancer")
}

fn is_headless(service: &Value) -> bool {
    object::text(service, &["spec", "clusterIP"]) == "None"
}

/// Does every node listen for it?
fn has_node_ports(service: &Value) -> bool {
    match object::text(service, &["spec", "type"]) {
        "NodePort" => true,
        "LoadBalancer" => {
            object::at(service, &["spec", "allocateLoadBalancerNodePorts"]).is_none_or(|v| *v != Value::Bool(false))
        }
        _ => false,
    }
}
