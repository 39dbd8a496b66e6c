//! Which address a proxied request goes to: that of a Pod, of a ready Pod behind a Service, or of a node.

use crate::ApiServer;
use crate::call::Call;
use crate::codec;
use crate::nodes::Place;
use crate::outbound::service;
use pintle_meta::{Status, object};
use serde_json::Value;

/// Where a request is answered.
#[derive(Debug, PartialEq, Eq)]
pub enum To {
    /// The agent of a node.
    Agent(Place),
    Address {
        host: String,
        port: u16,
        tls: bool,
    },
}

/// `web`, `web:80`, `web:http` or `https:web:443`, as the name in the path says it.
#[derive(Debug, PartialEq, Eq)]
struct Named<'a> {
    tls: bool,
    name: &'a str,
    port: &'a str,
}

fn split(id: &str) -> Option<Named<'_>> {
    let parts: Vec<&str> = id.split(':').collect();
    let (scheme, name, port) = match parts.as_slice() {
        [name] => ("", *name, ""),
        [name, port] => ("", *name, *port),
        [scheme, name, port] => (*scheme, *name, *port),
        _ => return None,
    };
    (!name.is_empty() && matches!(scheme, "" | "http" | "https")).then_some(Named {
        tls: scheme == "https",
        name,
        port,
    })
}

/// Finds who answers, or says why nobody does.
pub async fn find(server: &ApiServer, call: &Call) -> Result<To, Status> {
    let id = call.path.name.as_str();
    let kind = call.path.resource.strip_suffix('s').unwrap_or_default();
    let invalid = || Status::bad_request(format!("invalid {kind} request {id:?}"));
    let named = split(id).ok_or_else(invalid)?;
    match kind {
        "node" => node(server.find_node(named.name).await?, &named).ok_or_else(invalid),
        "service" => of_service(server, call, &named).await,
        _ => {
            let pod = read(server, "pods", call.namespace(), named.name).await?;
            let port = if named.port.is_empty() {
                Some(first_port(&pod).unwrap_or(default_port(named.tls)))
            } else {
                named.port.parse().ok()
            };
            let host = addresses(&pod).next().ok_or_else(not_allowed)?.to_owned();
            Ok(To::Address { host, port: port.ok_or_else(invalid)?, tls: named.tls })
        }
    }
}

/// A refusal in the words that clients know.
pub fn not_allowed() -> Status {
    Status::bad_request("address not allowed")
}

/// The agent's own port is asked as the agent is always asked; every other port is just an address. None for a port that is
/// no number.
fn node(place: Place, named: &Named<'_>) -> Option<To> {
    let agent = place.endpoint.as_ref().map(|(_, port)| *port);
    let asked: Option<u16> = if named.port.is_empty() { agent } else { Some(named.port.parse().ok()?) };
    match (asked, &place.endpoint) {
        (Some(port), Some((host, own))) if port != *own => {
            Some(To::Address { host: host.clone(), port, tls: named.tls })
        }
        _ => Some(To::Agent(place)),
    }
}

async fn of_service(server: &ApiServer, call: &Call, named: &Named<'_>) -> Result<To, Status> {
    let (namespace, id) = (call.namespace(), &call.path.name);
    let service = read(server, "services", namespace, named.name).await?;
    let port = port_name(&service, named)?;
    let slices = service::slices(&server.registry, namespace, named.name).await?;
    if slices.iter().all(|slice| object::list(slice, &["endpoints"]).is_empty()) {
        return Err(Status::unavailable(format!("no endpoints available for service {:?}", named.name)));
    }
    let candidates = candidates(&slices, &port, namespace);
    let first = server.registry.random.below(candidates.len().max(1) as u64) as usize;
    for candidate in candidates.iter().cycle().skip(first).take(candidates.len()) {
        // Anybody who may write slices could name any address: only those of Pods are connected to.
        let Ok(pod) = read(server, "pods", namespace, candidate.pod).await else { continue };
        if addresses(&pod).any(|address| address == candidate.address) {
            let (host, port) = (candidate.address.to_owned(), candidate.port);
            return Ok(To::Address { host, port, tls: named.tls });
        }
    }
    Err(Status::unavailable(format!("no endpoints available for service {id:?}")))
}

/// A number stands for the name of the port that has it.
fn port_name(service: &Value, named: &Named<'_>) -> Result<String, Status> {
    let Ok(number) = named.port.parse::<u16>() else { return Ok(named.port.to_owned()) };
    service::port_name(service, number)
}

#[derive(Debug, PartialEq, Eq)]
struct Candidate<'a> {
    address: &'a str,
    port: u16,
    pod: &'a str,
}

/// The ready Pods of a namespace behind a port, by what the slices say.
fn candidates<'a>(slices: &'a [Value], port: &'a str, namespace: &str) -> Vec<Candidate<'a>> {
    let pods = service::of_slices(slices, port).filter_map(|(address, port, endpoint)| {
        let target = &endpoint["targetRef"];
        let is_pod = target["kind"] == "Pod" && target["namespace"] == namespace;
        is_pod.then(|| Candidate { address, port, pod: object::text(target, &["name"]) })
    });
    pods.collect()
}

async fn read(server: &ApiServer, resource: &str, namespace: &str, name: &str) -> Result<Value, Status> {
    let catalogue = server.registry.catalogue.latest();
    let resource = catalogue.get("", "v1", resource).ok_or_else(Status::no_such_resource)?;
    Ok(codec::decode(&server.registry.get(resource, namespace, name).await?.value))
}

fn addresses(pod: &Value) -> impl Iterator<Item = &str> {
    object::list(pod, &["status", "podIPs"]).iter().map(|one| object::text(one, &["ip"]))
}

fn first_port(pod: &Value) -> Option<u16> {
    let containers = object::list(pod, &["spec", "containers"]).iter();
    let mut ports = containers.flat_map(|container| object::list(container, &["ports"]));
    ports.next().and_then(|port| object::integer(port, &["containerPort"])).and_then(|port| u16::try_from(port).ok())
}

fn default_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_name_may_say_the_scheme_and_the_port() {
        let named = |tls, name, port| Some(Named { tls, name, port });
        for (id, expected) in [
            ("web", named(false, "web", "")),
            ("web:80", named(false, "web", "80")),
            ("web:http", named(false, "web", "http")),
            ("https:web:443", named(true, "web", "443")),
            ("http:web:", named(false, "web", "")),
            (":web:1", named(false, "web", "1")),
            ("", None),
            (":80", None),
            ("ftp:web:21", None),
            ("https:web:443:x", None),
        ] {
            assert_eq!(split(id), expected, "{id}");
        }
    }

    #[test]
    fn a_port_of_a_node_other_than_its_agents_is_an_address() {
        let place = || Place { name: "n".to_owned(), endpoint: Some(("10.0.0.1".to_owned(), 10250)) };
        let to = |id| node(place(), &split(id).unwrap());
        assert_eq!(to("n"), Some(To::Agent(place())));
        assert_eq!(to("n:10250"), Some(To::Agent(place())));
        assert_eq!(to("https:n:9100"), Some(To::Address { host: "10.0.0.1".to_owned(), port: 9100, tls: true }));
        assert_eq!(to("n:metrics"), None);
    }

    #[test]
    fn only_ready_pods_of_the_namespace_answer_for_a_service() {
        let endpoint = |address: &str, ready: Value, namespace: &str, kind: &str| {
            json!({"addresses": [address], "conditions": {"ready": ready},
                "targetRef": {"kind": kind, "namespace": namespace, "name": format!("pod-{address}")}})
        };
        let slices = [json!({"ports": [{"name": "http", "port": 8080}, {"port": 9}], "endpoints": [
            endpoint("a", json!(true), "n", "Pod"),
            endpoint("b", json!(false), "n", "Pod"),
            endpoint("c", json!(null), "n", "Pod"),
            endpoint("d", json!(true), "other", "Pod"),
            endpoint("e", json!(true), "n", "Node"),
            json!({"addresses": ["f"], "conditions": {"ready": true}}),
        ]})];
        let found =
            |port| candidates(&slices, port, "n").into_iter().map(|one| (one.address, one.port)).collect::<Vec<_>>();
        assert_eq!(found("http"), [("a", 8080), ("c", 8080)]);
        assert_eq!(found(""), [("a", 9), ("c", 9)]);
        assert!(found("https").is_empty());
    }

    #[test]
    fn the_number_of_a_service_port_stands_for_its_name() {
        let service = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"name": "http", "port": 80}, {"name": "admin", "port": 81}]}});
        let name = |id| port_name(&service, &split(id).unwrap()).map_err(|status| (status.code, status.message));
        assert_eq!(name("web:81"), Ok("admin".to_owned()));
        assert_eq!(name("web:http"), Ok("http".to_owned()));
        assert_eq!(name("web:82"), Err((503, "no service port 82 found for service \"web\"".to_owned())));
    }
}
