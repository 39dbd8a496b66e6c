//! Which endpoints are for which zones and nodes: by the Service's traffic distribution, or in proportion to the CPUs of the zones.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointHints, ForNode, ForZone};
use kube::ResourceExt;
use pintle_meta::quantity::Quantity;
use pintle_runtime::conditions;
use pintle_runtime::plan::Note;

use super::ZONE;

const MODE: &str = "service.kubernetes.io/topology-mode";
const OLDER_MODE: &str = "service.kubernetes.io/topology-aware-hints";

/// Nodes on which no Pods of users run say nothing about how much traffic a zone can take.
const CONTROL_PLANE: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// By how much more than its part of the traffic an endpoint may get.
const OVERLOAD: f64 = 0.2;

/// The part of the cluster's CPUs that each zone has.
pub(in super::super) type Zones = BTreeMap<String, f64>;

/// Whether the hints of a Service depend on the zones of all nodes.
pub(in super::super) fn follow_zones(service: &Service) -> bool {
    let annotations = service.annotations();
    // The older name counts where both are there.
    let mode = annotations.get(OLDER_MODE).or_else(|| annotations.get(MODE)).map(String::as_str);
    matches!(mode, Some("Auto" | "auto"))
}

/// What of a node counts for zones: its zone and CPUs in thousandths. Nothing if it does not count.
pub(in super::super) fn capacity(node: &Node) -> Option<(Option<String>, i64)> {
    let status = node.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    if CONTROL_PLANE.iter().any(|label| node.labels().contains_key(*label)) || !conditions::is_true(conditions, "Ready")
    {
        return None;
    }
    let cpu = status.and_then(|status| status.allocatable.as_ref()?.get("cpu"));
    let cpu = cpu.and_then(|cpu| Quantity::parse(&cpu.0).ok()).map_or(0, |cpu| cpu.milli());
    Some((node.labels().get(ZONE).cloned().filter(|zone| !zone.is_empty()), cpu))
}

/// Nothing if a node does not say where it is, or all are in one zone.
pub(in super::super) fn zones<'a>(nodes: impl Iterator<Item = &'a Node>) -> Option<Zones> {
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    for (zone, cpu) in nodes.filter_map(capacity) {
        *sums.entry(zone.filter(|_| cpu > 0)?).or_default() += cpu;
    }
    let total: i64 = sums.values().sum();
    (sums.len() > 1).then(|| sums.into_iter().map(|(zone, cpu)| (zone, cpu as f64 / total as f64)).collect())
}

/// Gives ready endpoints their hints, and takes them from all others; an Event if hints were asked for and cannot be given.
pub(super) fn assign(
    service: &Service,
    family: &str,
    endpoints: &mut [&mut Endpoint],
    zones: Option<&Zones>,
) -> Option<Note> {
    endpoints.iter_mut().for_each(|endpoint| endpoint.hints = None);
    let mut ready: Vec<&mut &mut Endpoint> = endpoints
        .iter_mut()
        .filter(|endpoint| endpoint.conditions.as_ref().is_some_and(|conditions| conditions.ready == Some(true)))
        .collect();
    if follow_zones(service) {
        return match in_proportion(&ready, zones) {
            Ok(chosen) => {
                for (endpoint, zone) in ready.iter_mut().zip(chosen) {
                    endpoint.hints =
                        Some(EndpointHints { for_zones: Some(vec![ForZone { name: zone }]), for_nodes: None });
                }
                None
            }
            Err(why) => Some(Note::warning("TopologyAwareHintsDisabled", format!("{why}, addressType: {family}"))),
        };
    }
    let wanted = service.spec.as_ref().and_then(|spec| spec.traffic_distribution.as_deref());
    let of_nodes = wanted == Some("PreferSameNode");
    if of_nodes || matches!(wanted, Some("PreferClose" | "PreferSameZone")) {
        for endpoint in ready {
            let for_zones = endpoint.zone.clone().map(|name| vec![ForZone { name }]);
            let for_nodes = endpoint.node_name.clone().filter(|_| of_nodes).map(|name| vec![ForNode { name }]);
            let is_near = for_zones.is_some() || for_nodes.is_some();
            endpoint.hints = is_near.then_some(EndpointHints { for_nodes, for_zones });
        }
    }
    None
}

/// The zone that each endpoint is for: its own, unless another zone needs it more. The same endpoints always go the same way.
fn in_proportion(ready: &[&mut &mut Endpoint], zones: Option<&Zones>) -> Result<Vec<String>, String> {
    let Some(zones) = zones else {
        return Err(
            "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes".to_owned()
        );
    };
    let count = ready.len();
    if zones.len() > count {
        return Err(format!("Insufficient number of endpoints ({count} endpoints, {} zones)", zones.len()));
    }
    let least = |ratio: f64| (ratio * count as f64 / (1.0 + OVERLOAD)).ceil();
    if zones.values().map(|ratio| least(*ratio)).sum::<f64>() > count as f64 {
        let message = "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold";
        return Err(format!("{message} ({count} endpoints, {} zones)", zones.len()));
    }
    let own: Option<Vec<String>> = ready.iter().map(|endpoint| endpoint.zone.clone()).collect();
    let mut chosen = own.ok_or("One or more endpoints do not have a zone specified")?;
    // How many more each zone has than it needs.
    let mut spare: BTreeMap<String, f64> = BTreeMap::new();
    for zone in &chosen {
        *spare.entry(zone.clone()).or_default() += 1.0;
    }
    for (zone, ratio) in zones {
        let needed = (ratio * count as f64).max(least(*ratio));
        *spare.entry(zone.clone()).or_default() -= needed;
    }
    loop {
        let by_spare =
            |one: &(&String, &f64), other: &(&String, &f64)| one.1.total_cmp(other.1).then(other.0.cmp(one.0));
        let (Some((giver, most)), Some((taker, lack))) = (spare.iter().max_by(by_spare), spare.iter().min_by(by_spare))
        else {
            break;
        };
        // Half an endpoint too many or too few cannot be helped.
        if (*most < 1.0 && *lack > -1.0) || *most < 0.5 || *lack > -0.5 {
            break;
        }
        let (giver, taker) = (giver.clone(), taker.clone());
        let Some(moved) = chosen.iter_mut().find(|zone| **zone == giver) else { break };
        moved.clone_from(&taker);
        *spare.entry(giver).or_default() -= 1.0;
        *spare.entry(taker).or_default() += 1.0;
    }
    Ok(chosen)
}
