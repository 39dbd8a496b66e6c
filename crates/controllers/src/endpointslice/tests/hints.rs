//! What a client would lose that wants to stay near, and who measures how soon nodes follow.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};

use super::{after, planned, service, slice_in};
use crate::endpointslice::plan::{self, Backends};

const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// Pods on nodes whose names begin with their zones: `a1`, `a2`, `b1`.
fn on(nodes: &[&str], ready: &str) -> Backends {
    let pod = |(index, node): (usize, &&str)| -> Arc<Pod> {
        let at = format!("2026-01-01T00:00:{:02}Z", 10 + index);
        let conditions = json!([{"type": "Ready", "status": ready, "lastTransitionTime": at}]);
        let metadata = json!({"name": format!("web-{index}"), "namespace": "shop", "uid": format!("p{index:02}"), "labels": {"app": "web"}});
        let containers = json!([{"name": "c", "ports": [{"name": "web", "containerPort": 80}]}]);
        let status = json!({"phase": "Running", "podIP": format!("10.1.0.{index}"), "conditions": conditions});
        let pod = json!({"metadata": metadata, "spec": {"nodeName": node, "containers": containers}, "status": status});
        Arc::new(serde_json::from_value(pod).unwrap())
    };
    let zone_of_node: BTreeMap<String, String> = nodes
        .iter()
        .filter(|node| !node.starts_with('?'))
        .map(|node| ((*node).to_owned(), node[..1].to_owned()))
        .collect();
    Backends { pods: nodes.iter().enumerate().map(pod).collect(), zone_of_node, zones: None }
}

/// The zones, and after a slash the nodes, that each endpoint is for.
fn hints(slice: &EndpointSlice) -> Vec<String> {
    let hint = |endpoint: &k8s_openapi::api::discovery::v1::Endpoint| {
        let Some(hints) = &endpoint.hints else { return String::new() };
        let zones: Vec<&str> = hints.for_zones.iter().flatten().map(|zone| zone.name.as_str()).collect();
        let nodes: Vec<&str> = hints.for_nodes.iter().flatten().map(|node| node.name.as_str()).collect();
        if nodes.is_empty() { zones.join(",") } else { format!("{}/{}", zones.join(","), nodes.join(",")) }
    };
    slice.endpoints.iter().flatten().map(hint).collect()
}

fn hinted(service: &Service, backends: &Backends) -> Vec<String> {
    hints(&slice_in(&planned(service, backends, &[])[0]))
}

#[test]
fn traffic_stays_near_if_the_service_prefers_that() {
    let with = |wanted: Value| service(json!({"trafficDistribution": wanted}));
    let near = on(&["a1", "b1", "?1"], "True");
    let cases = [
        (Value::Null, ["", "", ""]),
        (json!("PreferClose"), ["a", "b", ""]),
        (json!("PreferSameZone"), ["a", "b", ""]),
        (json!("PreferSameNode"), ["a/a1", "b/b1", "/?1"]),
        (json!("SomethingNew"), ["", "", ""]),
    ];
    for (wanted, expected) in cases {
        assert_eq!(hinted(&with(wanted.clone()), &near), expected, "{wanted}");
    }
    assert_eq!(
        hinted(&with(json!("PreferSameZone")), &on(&["a1"], "False")),
        [""],
        "nobody is sent to one that is not ready"
    );
}

#[test]
fn hints_that_are_wrong_or_not_wanted_any_more_are_written_again() {
    let (near, plain) = (on(&["a1", "b1"], "True"), service(json!({})));
    let close = service(json!({"trafficDistribution": "PreferClose"}));
    let without = after(&[], &planned(&plain, &near, &[]));
    assert!(planned(&plain, &near, &without).is_empty());
    let with = after(&without, &planned(&close, &near, &without));
    assert_eq!(hints(&with[0]), ["a", "b"]);
    assert!(planned(&close, &near, &with).is_empty());
    let again = after(&with, &planned(&plain, &near, &with));
    assert_eq!(hints(&again[0]), ["", ""]);
}

fn automatic() -> Service {
    let mut service = service(json!({}));
    service.metadata.annotations = Some([("service.kubernetes.io/topology-mode".to_owned(), "Auto".to_owned())].into());
    service
}

fn node(zone: &str, cpu: &str, change: Value) -> Node {
    let mut node = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zone}},
        "status": {"allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": "True"}]}});
    node["metadata"]["labels"].as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    serde_json::from_value(node).unwrap()
}

#[test]
fn endpoints_are_shared_out_as_cpus_are_between_the_zones() {
    // CPUs of the zones a and b, where the endpoints are, which zones they are for.
    let cases = [
        (("4", "4"), vec!["a1", "a2", "b1", "b2"], vec!["a", "a", "b", "b"]),
        (("4", "4"), vec!["a1", "a2", "a3", "a4"], vec!["b", "b", "a", "a"]),
        (("4", "4"), vec!["a1", "a2", "a3", "b1"], vec!["b", "a", "a", "b"]),
        // One more or less is no reason to go elsewhere.
        (("4", "4"), vec!["a1", "a2", "a3", "a4", "b1", "b2", "b3"], vec!["a", "a", "a", "a", "b", "b", "b"]),
        (("6", "2"), vec!["a1", "a2", "b1", "b2"], vec!["a", "a", "a", "b"]),
        (("6", "2"), vec!["b1", "b2", "b3", "b4"], vec!["a", "a", "a", "b"]),
    ];
    for ((a, b), nodes, expected) in cases {
        let all = [node("a", a, json!({})), node("b", b, json!({}))];
        let backends = Backends { zones: plan::zones(all.iter()), ..on(&nodes, "True") };
        assert_eq!(hinted(&automatic(), &backends), expected, "{a} {b} {nodes:?}");
    }
}

#[test]
fn without_enough_endpoints_or_zones_traffic_goes_everywhere_and_that_is_told() {
    let (a, b) = (node("a", "4", json!({})), node("b", "4", json!({})));
    let tiny = node("b", "100m", json!({}));
    let master = node("b", "4", json!({"node-role.kubernetes.io/control-plane": ""}));
    let nowhere = node("", "4", json!({}));
    let few = "Insufficient number of endpoints (1 endpoints, 2 zones), addressType: IPv4";
    let unknown =
        "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes, addressType: IPv4";
    let unknown_endpoint = "One or more endpoints do not have a zone specified, addressType: IPv4";
    let overload = "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold \
                    (2 endpoints, 2 zones), addressType: IPv4";
    let cases = [
        (vec![&a, &b], vec!["a1"], few),
        (vec![&a], vec!["a1", "a2"], unknown),
        (vec![&a, &master], vec!["a1", "a2"], unknown),
        (vec![&a, &b, &nowhere], vec!["a1", "b1"], unknown),
        (vec![&a, &b], vec!["a1", "?1"], unknown_endpoint),
        (vec![&a, &tiny], vec!["a1", "b1"], overload),
    ];
    for (nodes, pods, why) in cases {
        let backends = Backends { zones: plan::zones(nodes.into_iter()), ..on(&pods, "True") };
        let plan = plan::plan(&automatic(), &backends, &[], None);
        assert_eq!((plan.events[0].reason, plan.events[0].message.as_str()), ("TopologyAwareHintsDisabled", why));
        assert!(hinted(&automatic(), &backends).iter().all(String::is_empty));
    }
}

#[test]
fn a_slice_tells_when_what_it_tells_came_about() {
    let mut plain = service(json!({}));
    plain.metadata.creation_timestamp = Some("2025-12-31T00:00:00Z".parse::<jiff::Timestamp>().unwrap().into());
    let at = |slice: &EndpointSlice| slice.metadata.annotations.as_ref().and_then(|all| all.get(TRIGGER).cloned());
    let two = on(&["a1", "a2"], "True");
    let first = after(&[], &planned(&plain, &two, &[]));
    assert_eq!(at(&first[0]).as_deref(), Some("2025-12-31T00:00:00Z"), "the Service is new");
    let four = on(&["a1", "a2", "a3", "a4"], "True");
    let more = after(&first, &planned(&plain, &four, &first));
    assert_eq!(at(&more[0]).as_deref(), Some("2026-01-01T00:00:12Z"), "the earlier of the two that came");
    let fewer = after(&more, &planned(&plain, &two, &more));
    assert_eq!(at(&fewer[0]), None, "nothing tells when a Pod went");
    assert!(planned(&plain, &two, &fewer).is_empty());
}
