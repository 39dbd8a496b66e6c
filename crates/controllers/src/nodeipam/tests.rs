//! What a cluster of several machines would lose: Pods that reach each other.

use k8s_openapi::api::core::v1::Node;
use pintle_meta::Range;
use serde_json::json;

use pintle_runtime::Plan;

use super::plan;

fn node(name: &str, at: u32, cidrs: &[&str]) -> Node {
    let node = json!({"metadata": {"name": name, "creationTimestamp": format!("2026-01-01T00:00:{at:02}Z")},
        "spec": {"podCIDR": cidrs.first(), "podCIDRs": (!cidrs.is_empty()).then_some(cidrs)}});
    serde_json::from_value(node).unwrap()
}

fn planned(nodes: &[Node], cluster: &[&str]) -> Plan {
    plan::plan(nodes.iter(), &ranges(cluster))
}

/// Which node gets what.
fn given(plan: &Plan) -> Vec<String> {
    let ranges = |spec: &serde_json::Value| {
        spec["podCIDRs"].as_array().unwrap().iter().map(|range| range.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    plan.writes.iter().map(|write| format!("{} {}", write.name, ranges(&write.body()["spec"]).join(" "))).collect()
}

/// Which node is told what.
fn told(plan: &Plan) -> Vec<String> {
    let name = |note: &pintle_runtime::plan::Note| note.about.clone().and_then(|about| about.name).unwrap_or_default();
    plan.events.iter().map(|note| format!("{} {}", name(note), note.reason)).collect()
}

fn ranges(texts: &[&str]) -> Vec<Range> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn every_node_gets_a_part_that_nobody_has() {
    let nodes = [node("c", 3, &[]), node("a", 1, &["10.244.0.0/24"]), node("b", 2, &[])];
    let plan = planned(&nodes, &["10.244.0.0/22"]);
    assert_eq!(given(&plan), ["b 10.244.1.0/24", "c 10.244.2.0/24"]);
    assert!(told(&plan).is_empty());
}

#[test]
fn a_node_gets_both_families_or_none() {
    let nodes = [node("a", 1, &["10.0.0.0/24", "fd00::/64"]), node("b", 2, &[]), node("c", 3, &[])];
    let plan = planned(&nodes, &["10.0.0.0/23", "fd00::/56"]);
    assert_eq!(given(&plan), ["b 10.0.1.0/24 fd00:0:0:1::/64"]);
    assert_eq!(told(&plan), ["c CIDRNotAvailable"]);
}

#[test]
fn of_two_nodes_with_the_same_addresses_the_later_one_is_told() {
    let plan =
        planned(&[node("late", 9, &["10.244.0.0/16"]), node("early", 1, &["10.244.7.0/24"])], &["10.244.0.0/16"]);
    assert_eq!(told(&plan), ["late CIDROverlap"]);
    assert!(plan.events[0].message.contains("10.244.7.0/24 of node early"), "{}", plan.events[0].message);
}

#[test]
fn simulated_nodes_take_no_addresses() {
    let mut node = node("s", 1, &[]);
    let info = json!({"nodeInfo": {"containerRuntimeVersion": "simulated://1", "architecture": "", "bootID": "",
        "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "",
        "osImage": "", "systemUUID": ""}});
    node.status = serde_json::from_value(info).unwrap();
    let plan = planned(&[node], &["10.244.0.0/16"]);
    assert!(given(&plan).is_empty() && told(&plan).is_empty());
}
