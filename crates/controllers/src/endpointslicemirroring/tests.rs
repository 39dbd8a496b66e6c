//! What people who write Endpoints by hand would lose.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use pintle_runtime::Plan;
use serde_json::{Value, json};

use super::plan;

fn endpoints(subsets: Value, metadata: Value) -> Endpoints {
    let mut whole = json!({"name": "db", "namespace": "shop", "uid": "e"});
    whole.as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
    serde_json::from_value(json!({"metadata": whole, "subsets": subsets})).unwrap()
}

fn service(selector: Value) -> Service {
    serde_json::from_value(json!({"metadata": {"name": "db", "namespace": "shop"}, "spec": {"selector": selector}}))
        .unwrap()
}

fn subset(ips: &[&str], unready: &[&str], port: i32) -> Value {
    let addresses = |ips: &[&str]| ips.iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>();
    json!({"addresses": addresses(ips), "notReadyAddresses": addresses(unready), "ports": [{"port": port, "protocol": "TCP"}]})
}

/// The slices after a plan, as the server would have them.
fn slices_after(plan: &Plan, before: &[Arc<EndpointSlice>]) -> Vec<Arc<EndpointSlice>> {
    let mut slices: Vec<EndpointSlice> = before.iter().map(|slice| slice.as_ref().clone()).collect();
    for (index, write) in plan.writes.iter().enumerate() {
        let verb = write.to_string();
        if verb.starts_with("create") {
            let mut made: EndpointSlice = serde_json::from_value(write.body()).unwrap();
            made.metadata.name = Some(format!("db-{index}"));
            slices.push(made);
        } else {
            slices.retain(|slice| slice.metadata.name.as_deref() != Some(&write.name));
            if verb.starts_with("replace") {
                slices.push(serde_json::from_value(write.body()).unwrap());
            }
        }
    }
    slices.into_iter().map(Arc::new).collect()
}

fn mirrored(endpoints: &Endpoints, before: &[Arc<EndpointSlice>]) -> Vec<Arc<EndpointSlice>> {
    let plan = plan::plan(Some(endpoints), Some(&service(Value::Null)), before);
    let after = slices_after(&plan, before);
    let again = plan::plan(Some(endpoints), Some(&service(Value::Null)), &after);
    assert!(again.writes.is_empty(), "{again}");
    after
}

fn shown(slices: &[Arc<EndpointSlice>]) -> Vec<String> {
    let mut shown: Vec<String> = slices
        .iter()
        .map(|slice| {
            let endpoints = slice.endpoints.iter().flatten().map(|endpoint| {
                let ready = endpoint.conditions.as_ref().unwrap().ready.unwrap();
                format!("{}{}", endpoint.addresses[0], if ready { "" } else { "!" })
            });
            let port = slice.ports.as_ref().unwrap()[0].port.unwrap();
            format!("{} {port}: {}", slice.address_type, endpoints.collect::<Vec<_>>().join(" "))
        })
        .collect();
    shown.sort();
    shown
}

#[test]
fn every_address_is_shown_once_in_a_slice_of_its_family_and_ports() {
    let subsets = json!([
        subset(&["10.1.2.3", "fd00::1"], &["10.1.2.4"], 80),
        subset(&["10.1.2.3"], &[], 81),
        subset(&["10.1.2.3", "10.1.2.5", "not an address"], &[], 80)
    ]);
    let wanted = endpoints(subsets, json!({}));
    let after = mirrored(&wanted, &[]);
    assert_eq!(shown(&after), ["IPv4 80: 10.1.2.3 10.1.2.4! 10.1.2.5", "IPv4 81: 10.1.2.3", "IPv6 80: fd00::1"]);
    let owner = &after[0].metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.uid.as_str()), ("Endpoints", "e"));
    assert_eq!(plan::service_of(&after[0]).unwrap().to_string(), "shop/db");
    let told = &plan::plan(Some(&wanted), Some(&service(Value::Null)), &[]).events[0];
    assert_eq!(
        (told.reason, told.message.as_str()),
        ("InvalidIPAddress", "Skipped 1 invalid IP addresses when mirroring to EndpointSlices")
    );
}

#[test]
fn changes_are_followed_with_as_few_writes_as_there_can_be() {
    let first = mirrored(&endpoints(json!([subset(&["10.1.2.3"], &[], 80)]), json!({})), &[]);
    let second = endpoints(json!([subset(&["10.1.2.3", "10.1.2.9"], &[], 81)]), json!({}));
    let plan = plan::plan(Some(&second), Some(&service(Value::Null)), &first);
    assert_eq!(plan.to_string(), "replace endpointslices/db-0", "the slice of the old port is taken for the new one");
    assert_eq!(shown(&slices_after(&plan, &first)), ["IPv4 81: 10.1.2.3 10.1.2.9"]);
    let none = plan::plan(Some(&endpoints(json!([]), json!({}))), Some(&service(Value::Null)), &first);
    assert_eq!(none.to_string(), "delete endpointslices/db-0");
}

#[test]
fn more_addresses_than_a_slice_may_have_are_left_out_and_told() {
    let ips: Vec<String> = (0..1003).map(|n| format!("10.1.{}.{}", n / 250, n % 250)).collect();
    let ips: Vec<&str> = ips.iter().map(String::as_str).collect();
    let wanted = endpoints(json!([subset(&ips, &[], 80)]), json!({}));
    assert_eq!(mirrored(&wanted, &[])[0].endpoints.as_ref().unwrap().len(), 1000);
    let plan = plan::plan(Some(&wanted), Some(&service(Value::Null)), &[]);
    let message =
        "A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. 3 addresses were skipped";
    assert_eq!((plan.events[0].reason, plan.events[0].message.as_str()), ("TooManyAddressesToMirror", message));
}

/// Kubernetes issue 98026: annotations were not mirrored, and those of somebody else taken away.
#[test]
fn labels_and_annotations_are_those_of_the_endpoints() {
    let metadata = json!({"labels": {"tier": "back"}, "annotations": {"team": "db",
        "endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z",
        "kubectl.kubernetes.io/last-applied-configuration": "{}"}});
    let after = mirrored(&endpoints(json!([subset(&["10.1.2.3"], &[], 80)]), metadata), &[]);
    let slice = serde_json::to_value(after[0].as_ref()).unwrap();
    assert_eq!(slice["metadata"]["labels"]["tier"], "back");
    assert_eq!(slice["metadata"]["annotations"], json!({"team": "db"}));
}

/// Kubernetes issue 105987: a Service that got a selector back had the old slices beside the new ones for ever.
#[test]
fn what_is_not_mirrored_any_more_goes() {
    let subsets = json!([subset(&["10.1.2.3"], &[], 80)]);
    let by_hand = endpoints(subsets.clone(), json!({}));
    let before = mirrored(&by_hand, &[]);
    let lock = json!({"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}});
    let skipped = json!({"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}});
    let plain = service(Value::Null);
    let cases = [
        (Some(by_hand.clone()), Some(service(json!({"app": "db"})))),
        (Some(by_hand.clone()), Some(service(json!({})))),
        (Some(by_hand), None),
        (None, Some(plain.clone())),
        (Some(endpoints(subsets.clone(), lock)), Some(plain.clone())),
        (Some(endpoints(subsets, skipped)), Some(plain)),
    ];
    for (endpoints, service) in cases {
        let plan = plan::plan(endpoints.as_ref(), service.as_ref(), &before);
        assert_eq!(plan.to_string(), "delete endpointslices/db-0", "{endpoints:?} {service:?}");
    }
}

/// Kubernetes issue 125354: slices of Endpoints that were deleted and made again went with the old ones, and were not made again.
#[test]
fn endpoints_that_are_made_again_get_slices_of_their_own() {
    let subsets = json!([subset(&["10.1.2.3"], &[], 80)]);
    let old = mirrored(&endpoints(subsets.clone(), json!({"uid": "before"})), &[]);
    let plan = plan::plan(Some(&endpoints(subsets, json!({}))), Some(&service(Value::Null)), &old);
    assert_eq!(plan.to_string(), "create endpointslices, delete endpointslices/db-0");
}
