//! The same as one Endpoints object, for readers that do not know slices.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pintle_runtime::Write;

use super::ports::ports_of;
use super::triggers::Triggers;
use super::{Backends, HEADLESS, address_of, families, hostname_of, is_headless, publishes_not_ready, reference_to};
use crate::pods;

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// Written by this loop; an Endpoints object of somebody else is left alone.
pub(in crate::endpointslice) fn is_written_here(endpoints: &Endpoints) -> bool {
    endpoints.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(MANAGED_BY))
}

/// Addresses in the object, at most.
const CAPACITY: usize = 1000;

/// What to write so that the object tells what the Pods are, if it does not.
pub(super) fn legacy(
    service: &Service,
    backends: &Backends,
    present: Option<&Endpoints>,
    triggers: &Triggers,
) -> Option<Write> {
    let (subsets, truncated) = truncate(subsets(service, backends));
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS);
    if is_headless(service) {
        labels.insert(HEADLESS.into(), String::new());
    }
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    let mut wanted = present.cloned().unwrap_or_else(|| Endpoints {
        metadata: ObjectMeta {
            name: service.metadata.name.clone(),
            namespace: service.metadata.namespace.clone(),
            ..ObjectMeta::default()
        },
        ..Endpoints::default()
    });
    wanted.subsets = Some(subsets).filter(|subsets| !subsets.is_empty());
    wanted.metadata.labels = Some(labels);
    let annotations = wanted.metadata.annotations.get_or_insert_default();
    match truncated {
        true => drop(annotations.insert(OVER_CAPACITY.into(), "truncated".into())),
        false => drop(annotations.remove(OVER_CAPACITY)),
    }
    if annotations.is_empty() {
        wanted.metadata.annotations = None;
    }
    if present == Some(&wanted) {
        return None;
    }
    triggers.stamp_endpoints(&mut wanted, present);
    Some(if present.is_some() { Write::replace(&wanted) } else { Write::create(&wanted) })
}

/// Addresses grouped by the ports on which they are served.
fn subsets(service: &Service, backends: &Backends) -> Vec<EndpointSubset> {
    let family = families(service).into_iter().next().unwrap_or_default();
    let has_ports = service.spec.as_ref().and_then(|spec| spec.ports.as_ref()).is_some_and(|ports| !ports.is_empty());
    let mut groups: BTreeMap<String, EndpointSubset> = BTreeMap::new();
    for pod in backends.pods.iter().filter(|pod| belongs(service, pod)) {
        let Some(address) = address_for(service, pod, &family) else { continue };
        let ports = ports_for(service, pod);
        if ports.is_empty() && (has_ports || !is_headless(service)) {
            continue;
        }
        let group = groups.entry(format!("{ports:?}")).or_insert_with(|| EndpointSubset {
            ports: Some(ports).filter(|ports| !ports.is_empty()),
            ..EndpointSubset::default()
        });
        let is_served = publishes_not_ready(service) || pods::is_ready(pod);
        let list = if is_served { &mut group.addresses } else { &mut group.not_ready_addresses };
        list.get_or_insert_default().push(address);
    }
    let sorted = |list: Option<Vec<EndpointAddress>>| {
        list.map(|mut list| {
            list.sort_by(|a, b| a.ip.cmp(&b.ip));
            list
        })
    };
    groups
        .into_values()
        .map(|group| EndpointSubset {
            addresses: sorted(group.addresses),
            not_ready_addresses: sorted(group.not_ready_addresses),
            ..group
        })
        .collect()
}

/// Unlike slices, the object has no word for a Pod on its way out.
fn belongs(service: &Service, pod: &Pod) -> bool {
    let going = pod.metadata.deletion_timestamp.is_some();
    !pods::is_terminal(pod) && (!going || publishes_not_ready(service))
}

fn address_for(service: &Service, pod: &Pod, family: &str) -> Option<EndpointAddress> {
    Some(EndpointAddress {
        ip: address_of(pod, family)?,
        hostname: hostname_of(pod, service),
        node_name: Some(pods::node_name(pod).to_owned()).filter(|node| !node.is_empty()),
        target_ref: Some(reference_to(pod)),
    })
}

fn ports_for(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let ports = ports_of(service, pod).into_iter().filter_map(|port| {
        Some(EndpointPort {
            name: port.name.filter(|name| !name.is_empty()),
            port: port.port?,
            protocol: port.protocol,
            app_protocol: port.app_protocol,
        })
    });
    ports.collect()
}

/// Cuts off what is too much, those not ready first; true if something was.
fn truncate(mut subsets: Vec<EndpointSubset>) -> (Vec<EndpointSubset>, bool) {
    let mut room = CAPACITY;
    let mut truncated = false;
    let mut cut = |list: &mut Option<Vec<EndpointAddress>>| {
        if let Some(list) = list {
            truncated |= list.len() > room;
            list.truncate(room);
            room -= list.len();
        }
    };
    subsets.iter_mut().for_each(|subset| cut(&mut subset.addresses));
    subsets.iter_mut().for_each(|subset| cut(&mut subset.not_ready_addresses));
    (subsets, truncated)
}
