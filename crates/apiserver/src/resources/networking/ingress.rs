//! An Ingress: which requests from outside go to which Service.

use crate::resources::check;
use crate::resources::print::{AGE, NAME, NONE, or, text, text_or};
use crate::resources::rules::items;
use crate::strategy::{Printed, Strategy};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::IpAddr;

const COLUMNS: &[Printed] =
    &[
        NAME,
        text("Class", "", |ingress, _| text_or(ingress, &["spec", "ingressClassName"], NONE)),
        text("Hosts", "", |ingress, _| hosts(ingress).into()),
        text("Address", "", |ingress, _| addresses(ingress).into()),
        text("Ports", "", |ingress, _| {
            if object::list(ingress, &["spec", "tls"]).is_empty() { "80".into() } else { "80, 443".into() }
        }),
        AGE,
    ];
/// More than so many are not shown.
const SHOWN: usize = 3;

pub struct Ingress;

impl Strategy for Ingress {
    fn prepare_create(&self, ingress: &mut Value) {
        object::set(ingress, &["status"], json!({"loadBalancer": {}}));
    }

    fn counts_generations(&self) -> bool {
        true
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}

pub fn check_spec(spec: &Value, path: &Path, errors: &mut Errors) {
    let backend = spec.get("defaultBackend").filter(|b| b.is_object());
    if backend.is_none() && object::list(spec, &["rules"]).is_empty() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(Error::invalid(path, spec.clone(), detail));
    }
    if let Some(backend) = backend {
        check_backend(backend, &path.child("defaultBackend"), errors);
    }
    for (here, rule) in items(spec, path, "rules") {
        check_host(object::text(rule, &["host"]), &here.child("host"), errors);
        if let Some(http) = rule.get("http") {
            for (here, route) in items(http, &here.child("http"), "paths") {
                check_route(route, &here, errors);
            }
        }
    }
    let class = object::text(spec, &["ingressClassName"]);
    if !class.is_empty() {
        check::text(class, &path.child("ingressClassName"), rules::dns_subdomain, errors);
    }
}

fn check_host(host: &str, path: &Path, errors: &mut Errors) {
    if host.is_empty() {
        return;
    }
    if host.parse::<IpAddr>().is_ok() {
        errors.push(Error::invalid(path, host, "must be a DNS name, not an IP address"));
    } else {
        check::text(host.strip_prefix("*.").unwrap_or(host), path, rules::dns_subdomain, errors);
    }
}

fn check_route(route: &Value, path: &Path, errors: &mut Errors) {
    let text = object::text(route, &["path"]);
    let here = path.child("path");
    match object::text(route, &["pathType"]) {
        "Exact" | "Prefix" => {
            if !text.starts_with('/') {
                errors.push(Error::invalid(&here, text, "must be an absolute path"));
            }
            for bad in ["//", "/./", "/../", "%2f", "%2F"] {
                if text.contains(bad) {
                    errors.push(Error::invalid(&here, text, format!("must not contain '{bad}'")));
                }
            }
        }
        _ if !text.is_empty() && !text.starts_with('/') => {
            errors.push(Error::invalid(&here, text, "must be an absolute path"));
        }
        _ => {}
    }
    if let Some(backend) = route.get("backend") {
        check_backend(backend, &path.child("backend"), errors);
    }
}

fn check_backend(backend: &Value, path: &Path, errors: &mut Errors) {
    let (service, resource) = (backend.get("service"), backend.get("resource"));
    if service.is_some() && resource.is_some() {
        errors.push(Error::invalid(path, "", "cannot set both resource and service backends"));
        return;
    }
    let Some(service) = service.filter(|s| s.is_object()) else {
        if resource.is_none() {
            errors.push(Error::required(path, "resource or service backend is required"));
        }
        return;
    };
    let here = path.child("service");
    let name = object::text(service, &["name"]);
    if !name.is_empty() {
        check::text(name, &here.child("name"), rules::dns_1035_label, errors);
    }
    let port = here.child("port");
    let (port_name, number) =
        (object::text(service, &["port", "name"]), object::integer(service, &["port", "number"]).unwrap_or(0));
    match (port_name, number) {
        ("", 0) => errors.push(Error::required(&port, "port name or number is required")),
        ("", number) => {
            let problems = rules::port_number(number);
            errors.extend(problems.into_iter().map(|p| Error::invalid(&port.child("number"), number, p)));
        }
        (_, 0) => check::text(port_name, &port.child("name"), rules::port_name, errors),
        _ => errors.push(Error::invalid(&port, "", "cannot set both port name & port number")),
    }
}

fn hosts(ingress: &Value) -> String {
    let rules = object::list(ingress, &["spec", "rules"]);
    let all: Vec<&str> = rules.iter().map(|r| object::text(r, &["host"])).filter(|h| !h.is_empty()).collect();
    let shown = all[..all.len().min(SHOWN)].join(",");
    if all.len() > SHOWN { format!("{shown} + {} more...", rules.len() - SHOWN) } else { or(&shown, "*").to_owned() }
}

fn addresses(ingress: &Value) -> String {
    let given = object::list(ingress, &["status", "loadBalancer", "ingress"]);
    let all: BTreeSet<&str> = given
        .iter()
        .map(|i| or(object::text(i, &["ip"]), object::text(i, &["hostname"])))
        .filter(|a| !a.is_empty())
        .collect();
    all.into_iter().collect::<Vec<_>>().join(",")
}
