//! What Pods would lose: every name.

use k8s_openapi::api::core::v1::{Node, Service};
use serde_json::json;

use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::plan;

fn node(server: Option<&str>) -> Node {
    let annotations = server.map(|address| json!({"network.pintle.dev/name-server": address}));
    serde_json::from_value(json!({"metadata": {"name": "n1", "uid": "u1", "annotations": annotations},
        "spec": {"podCIDRs": ["10.244.1.0/24"]}}))
    .unwrap()
}

fn service() -> Service {
    plan::service().unwrap()
}

fn planned(service: Option<&Service>, node: Option<&Node>, slice: Option<&EndpointSlice>) -> String {
    plan::plan(service, node, slice).to_string()
}

#[test]
fn a_node_that_answers_names_stands_behind_the_service() {
    let (with, without, service) = (node(Some("10.244.1.1")), node(None), service());
    let slice = plan::slice_of(&with).unwrap();
    assert_eq!(slice.endpoints.as_ref().unwrap()[0].addresses, ["10.244.1.1"]);
    assert_eq!(slice.metadata.owner_references.as_ref().unwrap()[0].uid, "u1", "it goes with the node");
    for (found, expected) in [
        (planned(None, Some(&with), None), "create services/kube-dns"),
        (planned(Some(&service), Some(&with), None), "create endpointslices/kube-dns-n1"),
        (planned(Some(&service), Some(&with), Some(&slice)), ""),
        (planned(Some(&service), Some(&without), Some(&slice)), "delete endpointslices/kube-dns-n1"),
        (planned(Some(&service), None, Some(&slice)), "delete endpointslices/kube-dns-n1"),
        (planned(None, Some(&without), None), ""),
    ] {
        assert_eq!(found, expected);
    }
}

#[test]
fn a_node_cannot_send_others_to_an_address_that_is_not_its_own() {
    assert!(plan::slice_of(&node(Some("10.244.2.1"))).is_none());
    assert!(plan::slice_of(&node(Some("banana"))).is_none());
}

#[test]
fn somebody_who_runs_coredns_has_it_asked_instead() {
    let mut service = service();
    service.spec.as_mut().unwrap().selector = Some([("k8s-app".to_owned(), "kube-dns".to_owned())].into());
    let with = node(Some("10.244.1.1"));
    let slice = plan::slice_of(&with);
    assert_eq!(planned(Some(&service), Some(&with), slice.as_ref()), "delete endpointslices/kube-dns-n1");
    assert_eq!(planned(Some(&service), Some(&with), None), "");
}
