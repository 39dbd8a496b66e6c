//! Where the ready endpoints of a Service are.

use crate::codec;
use crate::registry::{Registry, facets, read_error};
use pintle_meta::{Status, object};
use pintle_store::Range;
use serde_json::Value;

/// The label that says of which Service a slice is.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Addresses and ports behind a port of a Service, those first that chance puts first.
pub async fn endpoints(
    registry: &Registry,
    namespace: &str,
    name: &str,
    port: u16,
) -> Result<Vec<(String, u16)>, Status> {
    let missing = || Status::new(404, "NotFound", format!("service {name:?} not found"));
    let service = read(registry, "services", namespace, name).await?.ok_or_else(missing)?;
    if service["spec"]["type"] == "ExternalName" {
        return Ok(vec![(object::text(&service, &["spec", "externalName"]).to_owned(), port)]);
    }
    let port = port_name(&service, port)?;
    let mut found = ready(&slices(registry, namespace, name).await?, &port);
    if found.is_empty() {
        return Err(Status::unavailable(format!("no endpoints available for service {name:?}")));
    }
    let first = registry.random.below(found.len() as u64) as usize;
    found.rotate_left(first);
    Ok(found)
}

/// Endpoints are known by the names of the Service's ports.
pub fn port_name(service: &Value, port: u16) -> Result<String, Status> {
    let mut ports = object::list(service, &["spec", "ports"]).iter();
    let found = ports.find(|one| object::integer(one, &["port"]) == Some(i64::from(port)));
    let name = object::name(service);
    let missing = || Status::unavailable(format!("no service port {port} found for service {name:?}"));
    Ok(object::text(found.ok_or_else(missing)?, &["name"]).to_owned())
}

/// The EndpointSlices of a Service.
pub async fn slices(registry: &Registry, namespace: &str, service: &str) -> Result<Vec<Value>, Status> {
    let catalogue = registry.catalogue.latest();
    let resource = catalogue.get("discovery.k8s.io", "v1", "endpointslices").ok_or_else(Status::no_such_resource)?;
    let page = registry.store.range(Range::prefix(resource.scope(namespace))).await.map_err(read_error)?;
    let of_service = page.entries.iter().filter(|entry| facets(resource, entry).label(SERVICE_NAME) == Some(service));
    Ok(of_service.map(|entry| codec::decode(&entry.value)).collect())
}

/// The ready endpoints behind a port of the slices, each as an address and its port, with the endpoint itself.
pub fn of_slices<'a>(slices: &'a [Value], port: &'a str) -> impl Iterator<Item = (&'a str, u16, &'a Value)> {
    slices.iter().flat_map(move |slice| {
        let mut ports = object::list(slice, &["ports"]).iter();
        let number =
            ports.find(|one| object::text(one, &["name"]) == port).and_then(|one| object::integer(one, &["port"]));
        let port = number.and_then(|number| u16::try_from(number).ok());
        let endpoints = object::list(slice, &["endpoints"]).iter().filter(|endpoint| is_ready(endpoint));
        endpoints.filter_map(move |endpoint| {
            let address = object::list(endpoint, &["addresses"]).first().and_then(Value::as_str)?;
            Some((address, port?, endpoint))
        })
    })
}

fn ready(slices: &[Value], port: &str) -> Vec<(String, u16)> {
    of_slices(slices, port).map(|(address, port, _)| (address.to_owned(), port)).collect()
}

fn is_ready(endpoint: &Value) -> bool {
    object::at(endpoint, &["conditions", "ready"]).and_then(Value::as_bool).unwrap_or(true)
}

async fn read(registry: &Registry, resource: &str, namespace: &str, name: &str) -> Result<Option<Value>, Status> {
    let catalogue = registry.catalogue.latest();
    let resource = catalogue.get("", "v1", resource).ok_or_else(Status::no_such_resource)?;
    let entry = registry.store.get(&resource.key(namespace, name)).await.map_err(read_error)?;
    Ok(entry.map(|entry| codec::decode(&entry.value)))
}
