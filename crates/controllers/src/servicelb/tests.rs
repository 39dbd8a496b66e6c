//! What a user of LoadBalancer Services would lose.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};

use super::plan;

fn service(name: &str, second: u32, change: Value) -> Arc<Service> {
    let mut spec = json!({"type": "LoadBalancer", "ports": [{"port": 80}], "ipFamilies": ["IPv4"]});
    spec.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    let created = format!("2026-01-01T00:00:{second:02}Z");
    let metadata = json!({"name": name, "namespace": "shop", "uid": name, "creationTimestamp": created});
    Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
}

fn node(name: &str, addresses: &[(&str, &str)], ready: &str, labels: Value) -> Arc<Node> {
    let addresses: Vec<Value> =
        addresses.iter().map(|(kind, address)| json!({"type": kind, "address": address})).collect();
    let status = json!({"addresses": addresses, "conditions": [{"type": "Ready", "status": ready}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}});
    Arc::new(serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}, "status": status})).unwrap())
}

fn nodes() -> Vec<Arc<Node>> {
    vec![
        node("a", &[("InternalIP", "10.0.0.1"), ("InternalIP", "fd00::1"), ("Hostname", "a")], "True", json!({})),
        node("b", &[("InternalIP", "10.0.0.2"), ("ExternalIP", "203.0.113.2")], "True", json!({})),
        node("c", &[("InternalIP", "10.0.0.3")], "False", json!({})),
        node(
            "d",
            &[("InternalIP", "10.0.0.4")],
            "True",
            json!({"node.kubernetes.io/exclude-from-external-load-balancers": ""}),
        ),
    ]
}

fn slice(service: &str, namespace: &str, endpoints: Value, port: i32) -> Arc<EndpointSlice> {
    let metadata = json!({"name": service, "namespace": namespace, "labels": {"kubernetes.io/service-name": service}});
    Arc::new(
        serde_json::from_value(
            json!({"metadata": metadata, "addressType": "IPv4", "ports": [{"port": port}], "endpoints": endpoints}),
        )
        .unwrap(),
    )
}

/// The addresses that it gets, and what is told.
fn given(service: &Service, all: &[Arc<Service>], slices: &[Arc<EndpointSlice>]) -> (Vec<String>, Option<String>) {
    let plan = plan::plan(service, all, &nodes(), slices);
    let wanted = plan.status.as_ref().map(|status| status.wanted()["loadBalancer"]["ingress"].clone());
    let ips = wanted.iter().flat_map(|list| list.as_array().into_iter().flatten());
    let ips = ips.map(|one| {
        assert_eq!(one["ipMode"], "VIP");
        one["ip"].as_str().unwrap().to_owned()
    });
    (ips.collect(), plan.events.first().map(|note| note.message.clone()))
}

#[test]
fn a_service_is_reached_at_the_addresses_of_the_nodes() {
    let near = slice(
        "web",
        "shop",
        json!([{"addresses": ["10.9.0.1"], "nodeName": "a", "conditions": {"ready": true}},
        {"addresses": ["10.9.0.2"], "nodeName": "b", "conditions": {"ready": false}}]),
        8080,
    );
    let cases = [
        (json!({}), vec!["10.0.0.1", "203.0.113.2"]),
        (json!({"ipFamilies": ["IPv6"]}), vec!["fd00::1"]),
        (json!({"ipFamilies": ["IPv4", "IPv6"]}), vec!["10.0.0.1", "203.0.113.2", "fd00::1"]),
        (json!({"externalTrafficPolicy": "Local"}), vec!["10.0.0.1"]),
    ];
    for (change, expected) in cases {
        let web = service("web", 1, change.clone());
        let (ips, told) = given(&web, std::slice::from_ref(&web), std::slice::from_ref(&near));
        assert_eq!(
            (ips, told.as_deref()),
            (expected.iter().map(|ip| (*ip).to_owned()).collect(), Some("Ensured load balancer")),
            "{change}"
        );
    }
}

#[test]
fn other_load_balancers_keep_their_services() {
    for change in
        [json!({"loadBalancerClass": "example.com/own"}), json!({"type": "NodePort"}), json!({"type": "ClusterIP"})]
    {
        assert!(!plan::is_ours(&service("web", 1, change)));
    }
    assert!(plan::is_ours(&service("web", 1, json!({}))));
}

#[test]
fn a_port_of_the_nodes_has_one_owner() {
    let ports = |ports: Value| json!({"ports": ports});
    let old = service("old", 1, ports(json!([{"port": 80}, {"port": 53, "protocol": "UDP"}])));
    let api = slice("kubernetes", "default", json!([{"addresses": ["10.0.0.1"]}]), 6443);
    let cases = [
        (json!([{"port": 8080}]), None),
        (json!([{"port": 80}]), Some("port 80/TCP of the nodes is used by Service shop/old")),
        (
            json!([{"port": 8080}, {"port": 53, "protocol": "UDP"}]),
            Some("port 53/UDP of the nodes is used by Service shop/old"),
        ),
        (json!([{"port": 53, "protocol": "TCP"}]), None),
        (json!([{"port": 10250}]), Some("port 10250/TCP of the nodes is used by the node agent")),
        (json!([{"port": 6443}]), Some("port 6443/TCP of the nodes is used by the API server")),
        (json!([{"port": 6443, "protocol": "UDP"}]), None),
    ];
    for (wanted, why) in cases {
        let web = service("web", 2, ports(wanted.clone()));
        let (ips, told) = given(&web, &[old.clone(), web.clone()], std::slice::from_ref(&api));
        match why {
            None => assert_eq!(ips.len(), 2, "{wanted}"),
            Some(why) => {
                assert_eq!((ips.len(), told), (0, Some(format!("Error syncing load balancer: {why}"))), "{wanted}")
            }
        }
    }
    let younger = service("young", 3, json!({}));
    assert_eq!(given(&old, &[old.clone(), younger], &[]).0.len(), 2, "who came first keeps it");
}

#[test]
fn what_is_so_is_not_written_again() {
    let web = service("web", 1, json!({}));
    let plan = plan::plan(&web, std::slice::from_ref(&web), &nodes(), &[]);
    let mut done = web.as_ref().clone();
    done.status = serde_json::from_value(plan.status.unwrap().wanted().clone()).unwrap();
    let again = plan::plan(&done, std::slice::from_ref(&web), &nodes(), &[]);
    assert!(again.status.is_none() && again.events.is_empty());
    let alone = plan::plan(&done, std::slice::from_ref(&web), &nodes()[2..], &[]);
    assert_eq!(alone.events[0].reason, "UnAvailableLoadBalancer");
    assert_eq!(alone.status.unwrap().wanted()["loadBalancer"]["ingress"], json!([]));
}
