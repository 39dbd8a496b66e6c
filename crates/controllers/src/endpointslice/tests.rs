//! What a client of a Service would lose.

mod hints;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};

use pintle_runtime::Write;
use pintle_runtime::plan::What;

use super::plan::{self, Backends};

fn service(change: Value) -> Service {
    let mut spec = json!({"selector": {"app": "web"}, "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"],
                          "ports": [{"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"}]});
    spec.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "s", "labels": {"team": "a"}}, "spec": spec,
    }))
    .unwrap()
}

fn pod(number: usize, port: i32, ready: bool) -> Arc<Pod> {
    let status = if ready { "True" } else { "False" };
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": format!("web-{number}"), "namespace": "shop", "uid": format!("p{number:04}"),
                         "labels": {"app": "web"}},
            "spec": {"nodeName": "n1",
                     "containers": [{"name": "c", "ports": [{"name": "web", "containerPort": port}]}]},
            "status": {"phase": "Running", "podIP": format!("10.1.{}.{}", number / 250, number % 250),
                       "conditions": [{"type": "Ready", "status": status}]},
        }))
        .unwrap(),
    )
}

fn backends(pods: Vec<Arc<Pod>>) -> Backends {
    Backends { pods, zone_of_node: BTreeMap::from([("n1".to_owned(), "z1".to_owned())]), zones: None }
}

/// The writes of slices, and that of the Endpoints object.
fn planned(service: &Service, backends: &Backends, slices: &[Arc<EndpointSlice>]) -> Vec<Write> {
    let mut plan = plan::plan(service, backends, slices, None);
    plan.writes.retain(|write| write.collection.ends_with("/endpointslices"));
    plan.writes
}

fn legacy(service: &Service, backends: &Backends, present: Option<&Endpoints>) -> Option<Endpoints> {
    let mut plan = plan::plan(service, backends, &[], present);
    plan.writes.retain(|write| write.collection.ends_with("/endpoints"));
    plan.writes.pop().map(|write| serde_json::from_value(write.body()).unwrap())
}

fn slice_in(write: &Write) -> EndpointSlice {
    serde_json::from_value(write.body()).unwrap()
}

fn created(writes: &[Write]) -> EndpointSlice {
    let [write @ Write { what: What::Create { .. }, .. }] = writes else { panic!("{writes:?}") };
    slice_in(write)
}

/// What the slices are after the writes; creations are named by their order.
fn after(existing: &[Arc<EndpointSlice>], writes: &[Write]) -> Vec<Arc<EndpointSlice>> {
    let mut slices: Vec<EndpointSlice> = existing.iter().map(|slice| slice.as_ref().clone()).collect();
    for write in writes {
        match &write.what {
            What::Create { .. } => {
                let mut slice = slice_in(write);
                slice.metadata.name = Some(format!("web-{}", slices.len()));
                slices.push(slice);
            }
            What::Replace { .. } => {
                let updated = slice_in(write);
                let index = slices.iter().position(|slice| slice.metadata.name == updated.metadata.name).unwrap();
                slices[index] = updated;
            }
            What::Delete { .. } => slices.retain(|slice| slice.metadata.name.as_ref() != Some(&write.name)),
            other => panic!("{other:?}"),
        }
    }
    slices.into_iter().map(Arc::new).collect()
}

fn described(writes: &[Write]) -> Vec<String> {
    writes.iter().map(ToString::to_string).collect()
}

fn sizes(slices: &[Arc<EndpointSlice>]) -> Vec<usize> {
    slices.iter().map(|slice| slice.endpoints.as_ref().unwrap().len()).collect()
}

#[test]
fn a_ready_pod_is_reached_at_its_port_by_name() {
    let writes = planned(&service(json!({})), &backends(vec![pod(1, 8080, true)]), &[]);
    let slice = created(&writes);
    let labels = slice.metadata.labels.as_ref().unwrap();
    assert_eq!(labels["kubernetes.io/service-name"], "web");
    assert_eq!(labels["endpointslice.kubernetes.io/managed-by"], "endpointslice-controller.k8s.io");
    assert_eq!(labels["team"], "a");
    assert_eq!(slice.metadata.owner_references.as_ref().unwrap()[0].uid, "s");
    assert_eq!(slice.ports.as_ref().unwrap()[0].port, Some(8080));
    let endpoint = &slice.endpoints.as_ref().unwrap()[0];
    assert_eq!(endpoint.addresses, ["10.1.0.1"]);
    assert_eq!((endpoint.node_name.as_deref(), endpoint.zone.as_deref()), (Some("n1"), Some("z1")));
    assert_eq!(endpoint.target_ref.as_ref().unwrap().name.as_deref(), Some("web-1"));
    assert_eq!(endpoint.conditions.as_ref().unwrap().ready, Some(true));
}

#[test]
fn a_pod_that_is_not_ready_or_on_its_way_out_gets_no_new_connections() {
    let mut leaving = pod(1, 80, true).as_ref().clone();
    leaving.metadata.deletion_timestamp = Some(jiff::Timestamp::UNIX_EPOCH.into());
    let conditions = |service: &Service, pod: Arc<Pod>| {
        let writes = planned(service, &backends(vec![pod]), &[]);
        let slice = created(&writes);
        let conditions = slice.endpoints.as_ref().unwrap()[0].conditions.clone().unwrap();
        [conditions.ready, conditions.serving, conditions.terminating].map(Option::unwrap)
    };
    let plain = service(json!({}));
    assert_eq!(conditions(&plain, pod(1, 80, false)), [false, false, false]);
    assert_eq!(conditions(&plain, Arc::new(leaving.clone())), [false, true, true]);
    let published = service(json!({"publishNotReadyAddresses": true}));
    assert_eq!(conditions(&published, pod(1, 80, false)), [true, false, false]);
    assert_eq!(conditions(&published, Arc::new(leaving)), [true, true, true]);
}

#[test]
fn a_service_without_pods_has_one_empty_slice_and_keeps_it() {
    let none = backends(Vec::new());
    let slices = after(&[], &planned(&service(json!({})), &none, &[]));
    assert_eq!(sizes(&slices), [0]);
    assert!(planned(&service(json!({})), &none, &slices).is_empty());
    let writes = planned(&service(json!({})), &backends(vec![pod(1, 80, true)]), &slices);
    assert_eq!(sizes(&after(&slices, &writes)), [1]);
}

#[test]
fn many_pods_fill_slices_of_a_hundred_and_one_change_touches_one_slice() {
    let mut all: Vec<Arc<Pod>> = (0..250).map(|number| pod(number, 80, true)).collect();
    let plain = service(json!({}));
    let slices = after(&[], &planned(&plain, &backends(all.clone()), &[]));
    assert_eq!(sizes(&slices), [100, 100, 50]);
    assert!(planned(&plain, &backends(all.clone()), &slices).is_empty(), "nothing has changed");
    all[7] = pod(7, 80, false);
    let writes = planned(&plain, &backends(all.clone()), &slices);
    assert_eq!(described(&writes), ["replace endpointslices/web-0"]);
    all.push(pod(250, 80, true));
    let writes = planned(&plain, &backends(all.clone()), &after(&slices, &writes));
    assert_eq!(described(&writes), ["replace endpointslices/web-2"], "the last slice has room");
    let writes = planned(&plain, &backends(all[..100].to_vec()), &slices);
    assert_eq!(sizes(&after(&slices, &writes)).iter().sum::<usize>(), 100);
    assert_eq!(writes.iter().filter(|write| matches!(write.what, What::Delete { .. })).count(), 2);
}

#[test]
fn pods_that_serve_on_different_ports_are_told_apart() {
    let pods = vec![pod(1, 8080, true), pod(2, 9090, true)];
    let slices = after(&[], &planned(&service(json!({})), &backends(pods), &[]));
    let ports: Vec<i32> = slices.iter().map(|slice| slice.ports.as_ref().unwrap()[0].port.unwrap()).collect();
    assert_eq!(ports, [8080, 9090]);
}

#[test]
fn a_headless_service_tells_its_pods_names() {
    let mut named = pod(1, 80, true).as_ref().clone();
    let spec = named.spec.as_mut().unwrap();
    (spec.hostname, spec.subdomain) = (Some("db-0".into()), Some("web".into()));
    let headless = service(json!({"clusterIP": "None", "ports": []}));
    let writes = planned(&headless, &backends(vec![Arc::new(named)]), &[]);
    let slice = created(&writes);
    assert!(slice.metadata.labels.as_ref().unwrap().contains_key("service.kubernetes.io/headless"));
    assert_eq!(slice.endpoints.as_ref().unwrap()[0].hostname.as_deref(), Some("db-0"));
}

#[test]
fn endpoints_tell_the_same_to_older_readers() {
    let pods = backends(vec![pod(2, 80, true), pod(1, 80, true), pod(3, 80, false)]);
    let endpoints = legacy(&service(json!({})), &pods, None).unwrap();
    let subsets = endpoints.subsets.as_ref().unwrap();
    let addresses: Vec<&str> = subsets[0].addresses.iter().flatten().map(|address| address.ip.as_str()).collect();
    assert_eq!((subsets.len(), addresses), (1, vec!["10.1.0.1", "10.1.0.2"]));
    assert_eq!(subsets[0].not_ready_addresses.as_ref().unwrap().len(), 1);
    assert_eq!(legacy(&service(json!({})), &pods, Some(&endpoints)), None);
    let many = backends((0..1100).map(|number| pod(number, 80, true)).collect());
    let cut = legacy(&service(json!({})), &many, Some(&endpoints)).unwrap();
    assert_eq!(cut.subsets.as_ref().unwrap()[0].addresses.as_ref().unwrap().len(), 1000);
    let annotated = |endpoints: &Endpoints| endpoints.metadata.annotations.clone().unwrap_or_default().len();
    assert_eq!((annotated(&endpoints), annotated(&cut)), (0, 1));
}

#[test]
fn a_service_without_a_selector_is_its_owners_business() {
    assert!(plan::is_ours(&service(json!({}))));
    assert!(!plan::is_ours(&service(json!({"selector": null}))));
    assert!(!plan::is_ours(&service(json!({"type": "ExternalName"}))));
}
