//! Spreads endpoints over slices of a hundred, changing as few slices as possible.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pintle_runtime::plan::{Note, Pace};
use pintle_runtime::{Write, owner};

use super::hints;
use super::ports::ports_of;
use super::triggers::Triggers;
use super::{
    Backends, HEADLESS, MANAGED_BY, MANAGER, SERVICE_NAME, address_of, families, hostname_of, is_headless,
    publishes_not_ready, reference_to,
};
use crate::pods;

/// Endpoints in a slice, at most.
const LARGEST: usize = 100;

/// What to write so that the slices tell what the Pods are.
pub(super) fn slices(
    service: &Service,
    backends: &Backends,
    existing: &[Arc<EndpointSlice>],
    triggers: &Triggers,
) -> (Vec<Write>, Vec<Note>) {
    let (families, mut notes) = (families(service), Vec::new());
    let of_other_families = existing.iter().filter(|slice| !families.contains(&slice.address_type));
    let mut writes: Vec<Write> = of_other_families.map(|slice| deletion(slice)).collect();
    for family in &families {
        let present: Vec<&EndpointSlice> =
            existing.iter().map(Arc::as_ref).filter(|slice| slice.address_type == *family).collect();
        let (of_family, note) = of_family(service, backends, family, (&present, triggers));
        writes.extend(of_family);
        notes.extend(note);
    }
    (writes, notes)
}

fn deletion(slice: &EndpointSlice) -> Write {
    said(Write::delete(slice), "deleting", slice)
}

/// One that fails does not keep the others from being tried.
fn said(write: Write, verb: &str, slice: &EndpointSlice) -> Write {
    let (namespace, labels) = (slice.metadata.namespace.as_deref(), slice.metadata.labels.as_ref());
    let service = labels.and_then(|labels| labels.get(SERVICE_NAME)).map_or("", String::as_str);
    let message =
        format!("Error {verb} Endpoint Slices for Service {}/{service}: {{error}}", namespace.unwrap_or_default());
    write.paced(Pace::Together).warning("FailedToUpdateEndpointSlices", message)
}

fn of_family(
    service: &Service,
    backends: &Backends,
    family: &str,
    (present, triggers): (&[&EndpointSlice], &Triggers),
) -> (Vec<Write>, Option<Note>) {
    let mut by_ports: BTreeMap<String, (Vec<EndpointPort>, Vec<Endpoint>)> = BTreeMap::new();
    for pod in backends.pods.iter().filter(|pod| !pods::is_terminal(pod)) {
        if let Some(endpoint) = endpoint_of(service, pod, family, &backends.zone_of_node) {
            let ports = ports_of(service, pod);
            by_ports.entry(port_key(&ports)).or_insert_with(|| (ports, Vec::new())).1.push(endpoint);
        }
    }
    let mut all: Vec<&mut Endpoint> = by_ports.values_mut().flat_map(|(_, endpoints)| endpoints).collect();
    all.sort_by_key(|endpoint| identity(endpoint));
    let note = hints::assign(service, family, &mut all, backends.zones.as_ref());
    // A Service without endpoints has one empty slice, so that readers can tell it from one not looked at yet.
    if by_ports.is_empty() {
        by_ports.insert(String::new(), (Vec::new(), Vec::new()));
    }
    let mut writes = Vec::new();
    let mut kept = BTreeSet::new();
    for (key, (ports, endpoints)) in by_ports {
        let same_ports: Vec<&EndpointSlice> = present
            .iter()
            .filter(|slice| port_key(slice.ports.as_deref().unwrap_or_default()) == key)
            .copied()
            .collect();
        kept.extend(same_ports.iter().filter_map(|slice| slice.metadata.name.clone()));
        let fresh = || blank(service, family, &ports);
        writes.extend(spread(endpoints, (&same_ports, triggers), &fresh));
    }
    let obsolete = present.iter().filter(|slice| slice.metadata.name.as_ref().is_none_or(|name| !kept.contains(name)));
    writes.extend(obsolete.map(|slice| deletion(slice)));
    (writes, note)
}

/// Keeps every endpoint in the slice it is in, fills what has changed anyway, and only then makes new slices.
fn spread(
    endpoints: Vec<Endpoint>,
    (present, triggers): (&[&EndpointSlice], &Triggers),
    fresh: &dyn Fn() -> EndpointSlice,
) -> Vec<Write> {
    let mut wanted: BTreeMap<String, Endpoint> =
        endpoints.into_iter().map(|endpoint| (identity(&endpoint), endpoint)).collect();
    let is_empty = wanted.is_empty();
    let mut slices: Vec<(EndpointSlice, bool)> = Vec::new();
    for slice in present {
        let mut updated = (*slice).clone();
        let standing = slice.endpoints.iter().flatten();
        updated.endpoints = Some(standing.filter_map(|endpoint| wanted.remove(&identity(endpoint))).collect());
        updated.ports = Some(fresh().ports.unwrap_or_default());
        updated.metadata.labels = fresh().metadata.labels;
        let before = (slice.endpoints.clone().unwrap_or_default(), slice.metadata.labels.clone());
        let changed = before != (updated.endpoints.clone().unwrap_or_default(), updated.metadata.labels.clone());
        slices.push((updated, changed));
    }
    let mut rest: Vec<Endpoint> = wanted.into_values().collect();
    for (slice, _) in slices.iter_mut().filter(|(_, changed)| *changed) {
        fill(slice, &mut rest);
    }
    let count = |slice: &EndpointSlice| slice.endpoints.as_ref().map_or(0, Vec::len);
    if !rest.is_empty() {
        // The fullest that can take all of them, so that slices become full rather than many.
        let fits = |slice: &EndpointSlice| count(slice) + rest.len() <= LARGEST;
        let fullest = slices.iter_mut().filter(|(slice, _)| fits(slice)).max_by_key(|(slice, _)| count(slice));
        if let Some((slice, changed)) = fullest {
            fill(slice, &mut rest);
            *changed = true;
        }
    }
    let mut writes = Vec::new();
    let mut left = slices.iter().filter(|(slice, _)| count(slice) > 0).count();
    for (mut slice, changed) in slices {
        // The placeholder of a Service without endpoints stays.
        let is_placeholder = is_empty && left == 0;
        match (count(&slice) == 0 && !is_placeholder, changed) {
            (true, _) => writes.push(deletion(&slice)),
            (false, true) => {
                let before = present.iter().find(|old| old.metadata.name == slice.metadata.name);
                triggers.stamp_slice(&mut slice, before.copied());
                writes.push(said(Write::replace(&slice), "updating", &slice));
            }
            (false, false) => {}
        }
        left += usize::from(is_placeholder);
    }
    while !rest.is_empty() || (is_empty && left == 0) {
        let mut slice = fresh();
        fill(&mut slice, &mut rest);
        triggers.stamp_slice(&mut slice, None);
        writes.push(said(Write::create(&slice), "creating", &slice));
        left += 1;
    }
    writes
}

fn fill(slice: &mut EndpointSlice, rest: &mut Vec<Endpoint>) {
    let endpoints = slice.endpoints.get_or_insert_default();
    let room = LARGEST.saturating_sub(endpoints.len()).min(rest.len());
    endpoints.extend(rest.drain(..room));
}

/// The same Pod at the same address is the same endpoint.
fn identity(endpoint: &Endpoint) -> String {
    let uid = endpoint.target_ref.as_ref().and_then(|reference| reference.uid.as_deref()).unwrap_or_default();
    format!("{uid}/{}", endpoint.addresses.first().map(String::as_str).unwrap_or_default())
}

fn port_key(ports: &[EndpointPort]) -> String {
    let describe = |port: &EndpointPort| {
        let (name, application) = (port.name.as_deref().unwrap_or_default(), port.app_protocol.as_deref());
        format!("{name} {:?} {:?} {application:?}", port.port, port.protocol)
    };
    let mut described: Vec<String> = ports.iter().map(describe).collect();
    described.sort();
    described.join(",")
}

fn endpoint_of(service: &Service, pod: &Pod, family: &str, zones: &BTreeMap<String, String>) -> Option<Endpoint> {
    let (serving, terminating) = (pods::is_ready(pod), pod.metadata.deletion_timestamp.is_some());
    let node = Some(pods::node_name(pod).to_owned()).filter(|node| !node.is_empty());
    Some(Endpoint {
        addresses: vec![address_of(pod, family)?],
        conditions: Some(EndpointConditions {
            ready: Some(publishes_not_ready(service) || (serving && !terminating)),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname: hostname_of(pod, service),
        zone: node.as_ref().and_then(|node| zones.get(node).cloned()),
        node_name: node,
        target_ref: Some(reference_to(pod)),
        ..Endpoint::default()
    })
}

fn blank(service: &Service, family: &str, ports: &[EndpointPort]) -> EndpointSlice {
    let name = service.metadata.name.clone().unwrap_or_default();
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS);
    if is_headless(service) {
        labels.insert(HEADLESS.into(), String::new());
    }
    labels.insert(SERVICE_NAME.into(), name.clone());
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![owner::controller_reference(service)]),
            ..ObjectMeta::default()
        },
        address_type: family.to_owned(),
        endpoints: Some(Vec::new()),
        ports: Some(ports.to_vec()),
    }
}
