//! A Service in one line.

use crate::resources::print::{AGE, NAME, NONE, labels, or, text, wide};
use crate::strategy::Printed;
use pintle_meta::object;
use serde_json::Value;

pub const COLUMNS: &[Printed] = &[
    NAME,
    text("Type", "core.v1.ServiceSpec.type", |service, _| object::text(service, &["spec", "type"]).into()),
    text("Cluster-IP", "core.v1.ServiceSpec.clusterIP", |service, _| {
        let first = object::list(service, &["spec", "clusterIPs"]).first().and_then(Value::as_str);
        first.unwrap_or(NONE).into()
    }),
    text("External-IP", "core.v1.ServiceSpec.externalIPs", |service, _| external(service).into()),
    text("Port(s)", "core.v1.ServiceSpec.ports", |service, _| ports(service).into()),
    AGE,
    wide("Selector", "core.v1.ServiceSpec.selector", |service, _| {
        labels(object::at(service, &["spec", "selector"])).into()
    }),
];

fn external(service: &Value) -> String {
    let own: Vec<&str> = object::list(service, &["spec", "externalIPs"]).iter().filter_map(Value::as_str).collect();
    match object::text(service, &["spec", "type"]) {
        "ClusterIP" | "NodePort" => or(&own.join(","), NONE).to_owned(),
        "LoadBalancer" => {
            let given = object::list(service, &["status", "loadBalancer", "ingress"]);
            let mut all: Vec<&str> =
                given.iter().map(|i| or(object::text(i, &["ip"]), object::text(i, &["hostname"]))).collect();
            all.extend(own);
            or(&all.join(","), "<pending>").to_owned()
        }
        "ExternalName" => object::text(service, &["spec", "externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn ports(service: &Value) -> String {
    let all: Vec<String> = object::list(service, &["spec", "ports"])
        .iter()
        .map(|port| {
            let number = |key: &str| object::integer(port, &[key]).unwrap_or(0);
            let protocol = object::text(port, &["protocol"]);
            match number("nodePort") {
                0 => format!("{}/{protocol}", number("port")),
                node_port => format!("{}:{node_port}/{protocol}", number("port")),
            }
        })
        .collect();
    or(&all.join(","), NONE).to_owned()
}
