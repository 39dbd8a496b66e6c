//! What Pods would lose: every name.

use k8s_openapi::api::core::v1::{Node, Service};
use serde_json::json;

use super::plan::{self, Step, plan};

fn node(server: Option<&str>) -> Node {
    let annotations = server.map(|address| json!({"network.pintle.dev/name-server": address}));
    serde_json::from_value(json!({"metadata": {"name": "n1", "uid": "u1", "annotations": annotations},
        "spec": {"podCIDRs": ["10.244.1.0/24"]}}))
    .unwrap()
}

fn service() -> Service {
    serde_json::from_value(plan::service()).unwrap()
}

#[test]
fn a_node_that_answers_names_stands_behind_the_service() {
    let (with, without, service) = (node(Some("10.244.1.1")), node(None), service());
    let slice = plan::slice_of(&with).unwrap();
    assert_eq!(slice.endpoints.as_ref().unwrap()[0].addresses, ["10.244.1.1"]);
    assert_eq!(slice.metadata.owner_references.as_ref().unwrap()[0].uid, "u1", "it goes with the node");
    for (found, expected) in [
        (plan(None, Some(&with), None), Step::MakeService),
        (plan(Some(&service), Some(&with), None), Step::MakeSlice),
        (plan(Some(&service), Some(&with), Some(&slice)), Step::Nothing),
        (plan(Some(&service), Some(&without), Some(&slice)), Step::RemoveSlice),
        (plan(Some(&service), None, Some(&slice)), Step::RemoveSlice),
        (plan(None, Some(&without), None), Step::Nothing),
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
fn whoever_runs_coredns_has_it_asked_instead() {
    let mut service = service();
    service.spec.as_mut().unwrap().selector = Some([("k8s-app".to_owned(), "kube-dns".to_owned())].into());
    let with = node(Some("10.244.1.1"));
    let slice = plan::slice_of(&with);
    assert_eq!(plan(Some(&service), Some(&with), slice.as_ref()), Step::RemoveSlice);
    assert_eq!(plan(Some(&service), Some(&with), None), Step::Nothing);
}
