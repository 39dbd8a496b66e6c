//! On which port of a Pod a Service's port ends.

use k8s_openapi::api::core::v1::{Pod, Service, ServicePort};
use k8s_openapi::api::discovery::v1::EndpointPort;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The Service's ports as this Pod serves them; those it does not have are left out.
pub(super) fn ports_of(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let resolved = ports.filter_map(|port| {
        Some(EndpointPort {
            // An empty name is a name: a Service's only port may have none.
            name: Some(port.name.clone().unwrap_or_default()),
            port: Some(target_of(port, pod)?),
            protocol: Some(protocol_of(port).to_owned()),
            app_protocol: port.app_protocol.clone(),
        })
    });
    let mut ports: Vec<EndpointPort> = resolved.collect();
    ports.sort_by(|a, b| (&a.name, a.port, &a.protocol).cmp(&(&b.name, b.port, &b.protocol)));
    ports
}

fn protocol_of(port: &ServicePort) -> &str {
    port.protocol.as_deref().unwrap_or("TCP")
}

/// A number is meant as it is; a name is looked up in the containers; nothing means the Service's own number.
fn target_of(port: &ServicePort, pod: &Pod) -> Option<i32> {
    match &port.target_port {
        None => Some(port.port),
        Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => named(name, protocol_of(port), pod),
    }
}

fn named(name: &str, protocol: &str, pod: &Pod) -> Option<i32> {
    let spec = pod.spec.as_ref()?;
    // A sidecar may serve too; an init container that ends may not.
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let mut ports = spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
    let found =
        ports.find(|port| port.name.as_deref() == Some(name) && port.protocol.as_deref().unwrap_or("TCP") == protocol);
    found.map(|port| port.container_port)
}
