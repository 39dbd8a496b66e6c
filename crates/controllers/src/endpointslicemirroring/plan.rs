//! The slices that an Endpoints object stands for: one for each of its subsets and family of addresses.

use core::net::IpAddr;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset, Endpoints, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pintle_runtime::plan::Note;
use pintle_runtime::{Key, Plan, Write, owner};

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";

/// On Endpoints: they are not mirrored, or they are a lock and no endpoints at all.
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

/// Annotations that say something about the Endpoints object alone.
const OWN_ANNOTATIONS: [&str; 2] =
    ["endpoints.kubernetes.io/last-change-trigger-time", "kubectl.kubernetes.io/last-applied-configuration"];

/// Addresses of one subset, at most.
const LARGEST: usize = 1000;

/// The Service that a slice of this loop is about.
pub(super) fn service_of(slice: &EndpointSlice) -> Option<Key> {
    let labels = slice.metadata.labels.as_ref()?;
    let is_mirrored = labels.get(MANAGED_BY).is_some_and(|by| by == MANAGER);
    Some(Key::new(slice.metadata.namespace.clone()?, labels.get(SERVICE_NAME)?.clone())).filter(|_| is_mirrored)
}

pub(super) fn plan(endpoints: Option<&Endpoints>, service: Option<&Service>, present: &[Arc<EndpointSlice>]) -> Plan {
    let Some(endpoints) = endpoints.filter(|endpoints| is_mirrored(endpoints, service)) else {
        // With a selector another loop writes the slices.
        return Plan::of(present.iter().map(|slice| Write::delete(slice.as_ref())).collect());
    };
    let (wanted, skipped) = groups(endpoints);
    let mut left: Vec<&EndpointSlice> = present.iter().map(AsRef::as_ref).collect();
    left.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    // Those of an Endpoints object that had the name before go with it: one that is changed now would go too.
    let (mut left, mut gone): (Vec<_>, Vec<_>) =
        left.into_iter().partition(|slice| owner::is_controlled_by(&slice.metadata, endpoints.metadata.uid.as_deref()));
    let (mut updates, mut missing) = (Vec::new(), Vec::new());
    for (key, (family, ports, found)) in wanted {
        let slice = slice_of(endpoints, family, ports, found);
        match left
            .iter()
            .position(|slice| group_key(&slice.address_type, slice.ports.as_deref().unwrap_or_default()) == key)
        {
            Some(index) => updates.extend(update(left.remove(index), slice)),
            None => missing.push(slice),
        }
    }
    let mut writes = Vec::new();
    for slice in missing {
        // What is no longer wanted is changed into what is, rather than deleted.
        match left.iter().position(|old| old.address_type == slice.address_type) {
            Some(index) => updates.extend(update(left.remove(index), slice)),
            None if endpoints.metadata.deletion_timestamp.is_some() => {}
            None => writes.push(Write::create(&slice)),
        }
    }
    writes.extend(updates);
    gone.extend(left);
    writes.extend(gone.into_iter().map(Write::delete));
    let mut plan = Plan::of(writes).about(endpoints);
    plan.events.extend(skipped.notes());
    plan
}

fn is_mirrored(endpoints: &Endpoints, service: Option<&Service>) -> bool {
    let has = |map: &Option<BTreeMap<String, String>>, name: &str| map.as_ref().and_then(|map| map.get(name)).cloned();
    let skips = has(&endpoints.metadata.labels, SKIP).is_some_and(|value| value == "true");
    let is_lock = has(&endpoints.metadata.annotations, LEADER).is_some();
    let by_hand = service.is_some_and(|service| service.spec.as_ref().is_none_or(|spec| spec.selector.is_none()));
    by_hand && !skips && !is_lock
}

/// What cannot be shown.
#[derive(Default)]
struct Skipped {
    invalid: usize,
    too_many: usize,
}

impl Skipped {
    fn notes(&self) -> impl Iterator<Item = Note> {
        let invalid = (self.invalid > 0).then(|| {
            let message = format!("Skipped {} invalid IP addresses when mirroring to EndpointSlices", self.invalid);
            Note::warning("InvalidIPAddress", message)
        });
        let too_many = (self.too_many > 0).then(|| {
            let message = format!(
                "A max of {LARGEST} addresses can be mirrored to EndpointSlices per Endpoints subset. {} addresses were skipped",
                self.too_many
            );
            Note::warning("TooManyAddressesToMirror", message)
        });
        invalid.into_iter().chain(too_many)
    }
}

/// Family, ports and endpoints, by both of the former: subsets with the same ports are one.
type Groups = BTreeMap<String, (&'static str, Vec<EndpointPort>, Vec<Endpoint>)>;

fn groups(endpoints: &Endpoints) -> (Groups, Skipped) {
    let (mut groups, mut skipped) = (Groups::new(), Skipped::default());
    for subset in endpoints.subsets.iter().flatten() {
        let ports = ports_of(subset);
        let ready = subset.addresses.iter().flatten().map(|address| (address, true));
        let all = ready.chain(subset.not_ready_addresses.iter().flatten().map(|address| (address, false)));
        for (address, is_ready) in all {
            let Ok(ip) = address.ip.parse::<IpAddr>() else {
                skipped.invalid += 1;
                continue;
            };
            let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
            let group = groups.entry(group_key(family, &ports)).or_insert_with(|| (family, ports.clone(), Vec::new()));
            let shown = ip.to_string();
            let is_it = |known: &Endpoint| known.addresses[0] == shown && known.target_ref == address.target_ref;
            let known = group.2.iter().any(is_it);
            if group.2.len() >= LARGEST {
                skipped.too_many += 1;
            } else if !known {
                group.2.push(endpoint(address, ip, is_ready));
            }
        }
    }
    (groups, skipped)
}

fn ports_of(subset: &EndpointSubset) -> Vec<EndpointPort> {
    let port = |port: &k8s_openapi::api::core::v1::EndpointPort| EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        port: Some(port.port),
        protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
        app_protocol: port.app_protocol.clone(),
    };
    subset.ports.iter().flatten().map(port).collect()
}

fn group_key(family: &str, ports: &[EndpointPort]) -> String {
    let describe = |port: &EndpointPort| {
        let name = port.name.as_deref().unwrap_or_default();
        format!("{name} {:?} {:?} {:?}", port.port, port.protocol, port.app_protocol)
    };
    let mut described: Vec<String> = ports.iter().map(describe).collect();
    described.sort();
    format!("{family} {}", described.join(","))
}

fn endpoint(address: &EndpointAddress, ip: IpAddr, is_ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![ip.to_string()],
        conditions: Some(EndpointConditions { ready: Some(is_ready), ..EndpointConditions::default() }),
        hostname: address.hostname.clone().filter(|hostname| !hostname.is_empty()),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    }
}

fn slice_of(endpoints: &Endpoints, family: &str, ports: Vec<EndpointPort>, found: Vec<Endpoint>) -> EndpointSlice {
    let name = endpoints.metadata.name.clone().unwrap_or_default();
    let mut labels = endpoints.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.to_owned(), name.clone());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    let mut annotations = endpoints.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|name, _| !OWN_ANNOTATIONS.contains(&name.as_str()));
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            namespace: endpoints.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
            owner_references: Some(vec![owner::controller_reference(endpoints)]),
            ..ObjectMeta::default()
        },
        address_type: family.to_owned(),
        endpoints: Some(found),
        ports: Some(ports),
    }
}

/// The old slice with what the new one says; nothing if it says so already.
fn update(old: &EndpointSlice, new: EndpointSlice) -> Option<Write> {
    let mut updated = old.clone();
    updated.metadata.labels = new.metadata.labels;
    updated.metadata.annotations = new.metadata.annotations;
    (updated.endpoints, updated.ports) = (new.endpoints, new.ports);
    (!is_alike(old, &updated)).then(|| Write::replace(&updated))
}

fn is_alike(old: &EndpointSlice, new: &EndpointSlice) -> bool {
    let sorted = |slice: &EndpointSlice| {
        let mut endpoints: Vec<String> =
            slice.endpoints.iter().flatten().map(|endpoint| format!("{endpoint:?}")).collect();
        endpoints.sort();
        let ports = group_key(&slice.address_type, slice.ports.as_deref().unwrap_or_default());
        (endpoints, ports, slice.metadata.labels.clone(), slice.metadata.annotations.clone().unwrap_or_default())
    };
    sorted(old) == sorted(new)
}
