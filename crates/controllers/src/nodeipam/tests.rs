//! What a cluster of several machines would lose: Pods that reach each other.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use pintle_meta::Range;
use serde_json::json;

use super::plan::plan;

fn node(name: &str, at: u32, cidrs: &[&str]) -> Node {
    let node = json!({"metadata": {"name": name, "creationTimestamp": format!("2026-01-01T00:00:{at:02}Z")},
        "spec": {"podCIDR": cidrs.first(), "podCIDRs": (!cidrs.is_empty()).then_some(cidrs)}});
    serde_json::from_value(node).unwrap()
}

fn ranges(texts: &[&str]) -> Vec<Range> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn every_node_gets_a_part_that_nobody_has() {
    let nodes = [node("c", 3, &[]), node("a", 1, &["10.244.0.0/24"]), node("b", 2, &[])];
    let found = plan(nodes.iter(), &ranges(&["10.244.0.0/22"]), &BTreeMap::new());
    assert_eq!(
        found.give,
        [("b".to_owned(), ranges(&["10.244.1.0/24"])), ("c".to_owned(), ranges(&["10.244.2.0/24"]))]
    );
    assert!(found.without.is_empty() && found.overlapping.is_empty());
}

#[test]
fn what_was_given_and_is_not_seen_yet_is_not_given_again() {
    let nodes = [node("a", 1, &[]), node("b", 2, &[])];
    let given = BTreeMap::from([("a".to_owned(), ranges(&["10.244.0.0/24"]))]);
    let found = plan(nodes.iter(), &ranges(&["10.244.0.0/23"]), &given);
    assert_eq!(found.give, [("b".to_owned(), ranges(&["10.244.1.0/24"]))]);
}

#[test]
fn a_node_gets_both_families_or_none() {
    let nodes = [node("a", 1, &["10.0.0.0/24", "fd00::/64"]), node("b", 2, &[]), node("c", 3, &[])];
    let found = plan(nodes.iter(), &ranges(&["10.0.0.0/23", "fd00::/56"]), &BTreeMap::new());
    assert_eq!(found.give, [("b".to_owned(), ranges(&["10.0.1.0/24", "fd00:0:0:1::/64"]))]);
    assert_eq!(found.without, ["c"]);
}

#[test]
fn of_two_nodes_with_the_same_addresses_the_later_one_is_told() {
    let nodes = [node("late", 9, &["10.244.0.0/16"]), node("early", 1, &["10.244.7.0/24"])];
    let found = plan(nodes.iter(), &ranges(&["10.244.0.0/16"]), &BTreeMap::new());
    let [(name, _, other, _)] = &found.overlapping[..] else { panic!("{found:?}") };
    assert_eq!((name.as_str(), other.as_str()), ("late", "early"));
}

#[test]
fn simulated_nodes_take_no_addresses() {
    let mut node = node("s", 1, &[]);
    let info = json!({"nodeInfo": {"containerRuntimeVersion": "simulated://1", "architecture": "", "bootID": "",
        "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "",
        "osImage": "", "systemUUID": ""}});
    node.status = serde_json::from_value(info).unwrap();
    let found = plan([node].iter(), &ranges(&["10.244.0.0/16"]), &BTreeMap::new());
    assert!(found.give.is_empty() && found.without.is_empty());
}
