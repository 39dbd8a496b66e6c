//! What Pods of two machines would lose: each other.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use super::{Route, Tunnel, plan};
use crate::address::Range;
use crate::dataplane::Way;

fn node(name: &str, at: u32, cidr: &str, address: &str) -> Node {
    serde_json::from_value(
        json!({"metadata": {"name": name, "creationTimestamp": format!("2026-01-01T00:00:{at:02}Z")},
        "spec": {"podCIDRs": [cidr]}, "status": {"addresses": [{"type": "Hostname", "address": name},
            {"type": "InternalIP", "address": address}]}}),
    )
    .unwrap()
}

fn shown(routes: &BTreeMap<Range, std::net::IpAddr>) -> Vec<String> {
    routes.iter().map(|(range, machine)| format!("{range} {machine}")).collect()
}

#[test]
fn every_other_machine_has_the_packets_of_its_pods() {
    let nodes =
        [node("a", 1, "10.244.0.0/24", "192.0.2.1"), node("b", 2, "10.244.1.0/24", "192.0.2.2"), node("c", 3, "", "")];
    let nodes: Vec<&Node> = nodes.iter().collect();
    assert_eq!(shown(&plan(&nodes, "a")), ["10.244.1.0/24 192.0.2.2"]);
    assert_eq!(shown(&plan(&nodes, "b")), ["10.244.0.0/24 192.0.2.1"]);
}

#[test]
fn a_machine_that_claims_the_addresses_of_others_gets_none_of_their_packets() {
    let nodes = [
        node("a", 1, "10.244.0.0/24", "192.0.2.1"),
        node("b", 2, "10.244.1.0/24", "192.0.2.2"),
        node("thief", 3, "10.244.0.0/16", "192.0.2.9"),
    ];
    let nodes: Vec<&Node> = nodes.iter().collect();
    assert_eq!(shown(&plan(&nodes, "a")), ["10.244.1.0/24 192.0.2.2"]);
    let late = [node("early", 1, "10.244.0.0/16", "192.0.2.9"), node("me", 5, "10.244.3.0/24", "192.0.2.1")];
    assert!(plan(&late.iter().collect::<Vec<_>>(), "me").is_empty(), "not even what it claimed first");
}

#[test]
fn only_what_changes_is_told_to_the_kernel() {
    let tunnel = Tunnel::new("pintle00c0ffee", vec!["10.244.0.0/24".parse().unwrap()], &[]);
    let route = |machine: &str, is_direct| Route {
        machine: machine.parse().unwrap(),
        way: Way { device: "eth0".to_owned(), mtu: 1500, from: "192.0.2.1".parse().unwrap(), is_direct },
    };
    let of = |routes: &[(&str, Route)]| -> BTreeMap<Range, Route> {
        routes.iter().map(|(range, route)| (range.parse().unwrap(), route.clone())).collect()
    };
    let none = BTreeMap::new();
    let near = of(&[("10.244.1.0/24", route("192.0.2.2", true))]);
    let lines = tunnel.lines(&none, &near);
    assert_eq!(lines.ip, ["route replace 10.244.1.0/24 via 192.0.2.2 dev eth0 proto 187"]);
    assert!(tunnel.lines(&near, &near).is_empty());
    assert_eq!(tunnel.lines(&near, &none).forgiving, ["route delete 10.244.1.0/24 proto 187"]);

    let far = of(&[("10.244.1.0/24", route("198.51.100.2", false))]);
    let lines = tunnel.lines(&near, &far);
    assert!(lines.ip[0].starts_with("link add pvx00c0ffee address 0a:58:0a:f4:00:00 mtu 1450 type vxlan"), "{lines:?}");
    assert_eq!(lines.bridge, ["fdb replace 0a:58:0a:f4:01:00 dev pvx00c0ffee dst 198.51.100.2"]);
    let back = tunnel.lines(&far, &near);
    assert!(back.forgiving.contains(&"link delete pvx00c0ffee".to_owned()), "{back:?}");
}
