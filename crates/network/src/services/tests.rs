//! What is planned for Services, by tables; what the rules do to packets is in `tests/`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use pintle_runtime::Key;
use serde_json::{Value, json};

use super::*;

fn here() -> Here {
    Here {
        table: "t".to_owned(),
        bridge: "pintle0".to_owned(),
        node: "here".to_owned(),
        zone: "z1".to_owned(),
        pods: vec!["10.244.0.0/16".parse().unwrap()],
        services: vec!["10.96.0.0/12".parse().unwrap()],
    }
}

fn service(spec: Value) -> Service {
    let mut whole = json!({"clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5"],
        "ports": [{"name": "web", "port": 80, "protocol": "TCP"}]});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": whole})).unwrap()
}

fn slice(endpoints: Value) -> Arc<EndpointSlice> {
    Arc::new(
        serde_json::from_value(
            json!({"metadata": {"namespace": "shop", "name": "web-1", "labels": {SERVICE_NAME: "web"}},
        "addressType": "IPv4", "ports": [{"name": "web", "port": 8080, "protocol": "TCP"}], "endpoints": endpoints}),
        )
        .unwrap(),
    )
}

fn endpoint(last: u8, node: &str) -> Value {
    json!({"addresses": [format!("10.244.0.{last}")], "nodeName": node, "conditions": {"ready": true}})
}

/// Where each address leads, and the last numbers of the endpoints that it picks from.
fn planned(spec: Value, endpoints: Value) -> Vec<String> {
    let fragment = plan(&service(spec), &[slice(endpoints)], &here());
    let last = |address: &std::net::SocketAddr| address.to_string().replace("10.244.0.", "").replace(":8080", "");
    let written = |(at, frontend): (&At, &Frontend)| {
        let all = &frontend.endpoints;
        let picked = |span: Span| span.of(all).iter().map(last).collect::<Vec<_>>().join(",");
        let go = match &frontend.go {
            Go::Pick(span) => format!("pick {}", picked(*span)),
            Go::External(span) => format!("external {}", picked(*span)),
            Go::Local { local, cluster } => format!("local {} else {}", picked(*local), picked(*cluster)),
            Go::Own(name) => name.split('-').next().unwrap_or_default().to_owned(),
            Go::Reject => "reject".to_owned(),
            Go::Drop => "drop".to_owned(),
        };
        format!("{}: {go}", at.key())
    };
    fragment.frontends.iter().map(written).collect()
}

#[test]
fn packets_go_where_the_policies_say() {
    let (one, other) = (endpoint(1, "here"), endpoint(2, "there"));
    let both = json!([one, other]);
    let node_port = |more: Value| {
        let mut spec = json!({"type": "NodePort", "ports": [{"name": "web", "port": 80, "nodePort": 30080}]});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let inside = "10.96.0.5 . tcp . 80";
    for (spec, endpoints, expected) in [
        (json!({}), both.clone(), vec![format!("{inside}: pick 1,2")]),
        (json!({}), json!([]), vec![format!("{inside}: reject")]),
        (json!({"internalTrafficPolicy": "Local"}), both.clone(), vec![format!("{inside}: pick 1")]),
        (json!({"internalTrafficPolicy": "Local"}), json!([other]), vec![format!("{inside}: drop")]),
        (json!({"internalTrafficPolicy": "Local"}), json!([]), vec![format!("{inside}: reject")]),
        (
            node_port(json!({})),
            both.clone(),
            vec![format!("{inside}: pick 1,2"), "tcp . 30080: external 1,2".to_owned()],
        ),
        (
            node_port(json!({"externalTrafficPolicy": "Local"})),
            both.clone(),
            vec![format!("{inside}: pick 1,2"), "tcp . 30080: local 1 else 1,2".to_owned()],
        ),
        (
            node_port(json!({"externalTrafficPolicy": "Local"})),
            json!([other]),
            vec![format!("{inside}: pick 2"), "tcp . 30080: local  else 2".to_owned()],
        ),
        (
            node_port(json!({"externalTrafficPolicy": "Local"})),
            json!([]),
            vec![format!("{inside}: reject"), "tcp . 30080: reject".to_owned()],
        ),
        (
            node_port(json!({"internalTrafficPolicy": "Local"})),
            both.clone(),
            vec![format!("{inside}: pick 1"), "tcp . 30080: external 1,2".to_owned()],
        ),
        (
            json!({"externalIPs": ["192.0.2.1"]}),
            both.clone(),
            vec![format!("{inside}: pick 1,2"), "192.0.2.1 . tcp . 80: external 1,2".to_owned()],
        ),
        (json!({"sessionAffinity": "ClientIP"}), both.clone(), vec![format!("{inside}: sticky")]),
        (json!({"clusterIP": "None", "clusterIPs": ["None"]}), both.clone(), vec![]),
        (json!({"type": "ExternalName", "externalName": "a.example"}), json!([]), vec![]),
    ] {
        assert_eq!(planned(spec.clone(), endpoints.clone()), expected, "{spec} {endpoints}");
    }
}

#[test]
fn who_is_about_to_end_serves_while_nobody_else_does() {
    let ending = |last: u8, serving: bool| {
        json!({"addresses": [format!("10.244.0.{last}")], "nodeName": "here",
            "conditions": {"ready": false, "serving": serving, "terminating": true}})
    };
    let inside = "10.96.0.5 . tcp . 80";
    assert_eq!(planned(json!({}), json!([ending(1, true), endpoint(2, "there")])), [format!("{inside}: pick 2")]);
    assert_eq!(planned(json!({}), json!([ending(1, true), ending(2, false)])), [format!("{inside}: pick 1")]);
    assert_eq!(planned(json!({}), json!([ending(2, false)])), [format!("{inside}: reject")]);
}

#[test]
fn a_zone_is_preferred_only_if_nobody_loses_by_it() {
    let hinted = |last: u8, zones: Value, nodes: Value| {
        let mut endpoint = endpoint(last, "there");
        endpoint["hints"] = json!({"forZones": zones, "forNodes": nodes});
        endpoint
    };
    let named = |name: &str| json!([{"name": name}]);
    let inside = "10.96.0.5 . tcp . 80: pick";
    for (endpoints, expected) in [
        (json!([hinted(1, named("z1"), json!([])), hinted(2, named("z2"), json!([]))]), "1"),
        (json!([hinted(1, named("z3"), json!([])), hinted(2, named("z2"), json!([]))]), "1,2"),
        (json!([hinted(1, named("z1"), json!([])), endpoint(2, "there")]), "1,2"),
        (json!([hinted(1, named("z1"), named("here")), hinted(2, named("z1"), named("there"))]), "1"),
        (json!([hinted(1, named("z1"), named("else")), hinted(2, named("z2"), named("there"))]), "1"),
    ] {
        assert_eq!(planned(json!({}), endpoints.clone()), [format!("{inside} {expected}")], "{endpoints}");
    }
    // An endpoint of this node that is meant for another zone still serves those who are sent to this node.
    let mut of_here = hinted(1, named("z2"), json!([]));
    of_here["nodeName"] = json!("here");
    let spec = json!({"type": "NodePort", "externalTrafficPolicy": "Local",
        "ports": [{"name": "web", "port": 80, "nodePort": 30080}]});
    let planned = planned(spec, json!([of_here, hinted(2, named("z1"), json!([]))]));
    assert_eq!(planned, ["10.96.0.5 . tcp . 80: pick 2", "tcp . 30080: local 1 else 2"]);
}

#[test]
fn a_change_of_one_endpoint_touches_nothing_else() {
    let (mut table, here) = (Table::default(), here());
    let key = Key::new("shop", "web");
    let put = |table: &mut Table, endpoints: Value| {
        let mut touched = Touched::default();
        table.put(&key, plan(&service(json!({})), &[slice(endpoints)], &here), &mut touched);
        table.script(&here, &touched)
    };
    put(&mut table, json!([endpoint(1, "there"), endpoint(2, "there")]));
    assert_eq!(put(&mut table, json!([endpoint(1, "there"), endpoint(2, "there")])), "", "nothing changed");
    assert_eq!(
        put(&mut table, json!([endpoint(1, "there"), endpoint(3, "there")])),
        "delete element ip t tcp-endpoints { 10.96.0.5 . 80 . 1 }\n\
         add element ip t tcp-endpoints { 10.96.0.5 . 80 . 1 : 10.244.0.3 . 8080 }\n"
    );
    assert_eq!(
        put(&mut table, json!([endpoint(1, "there")])),
        "add chain ip t tcp-pick-0-1\n\
         flush chain ip t tcp-pick-0-2\n\
         delete element ip t services { 10.96.0.5 . tcp . 80 }\n\
         delete element ip t tcp-endpoints { 10.96.0.5 . 80 . 1 }\n\
         add rule ip t tcp-pick-0-1 dnat ip to ip daddr . tcp dport . numgen random mod 1 map @tcp-endpoints\n\
         add element ip t services { 10.96.0.5 . tcp . 80 : goto tcp-pick-0-1 }\n\
         delete chain ip t tcp-pick-0-2\n"
    );
}

#[test]
fn of_two_services_with_one_address_the_first_has_it_until_it_goes() {
    let (mut table, here) = (Table::default(), here());
    let fragment = |address: &str, last: u8| {
        let spec = json!({"clusterIP": address, "clusterIPs": [address], "externalIPs": ["192.0.2.1"]});
        plan(&service(spec), &[slice(json!([endpoint(last, "there")]))], &here)
    };
    let (a, b) = (Key::new("shop", "a"), Key::new("shop", "b"));
    let mut touched = Touched::default();
    table.put(&b, fragment("10.96.0.6", 2), &mut touched);
    table.put(&a, fragment("10.96.0.7", 1), &mut touched);
    let script = table.script(&here, &touched);
    assert!(
        script.contains("192.0.2.1 . 80 . 0 : 10.244.0.1 . 8080")
            && !script.contains("192.0.2.1 . 80 . 0 : 10.244.0.2"),
        "{script}"
    );
    let mut touched = Touched::default();
    table.put(&a, Fragment::default(), &mut touched);
    let script = table.script(&here, &touched);
    assert!(script.contains("192.0.2.1 . 80 . 0 : 10.244.0.2 . 8080"), "{script}");
}

#[test]
fn nobody_draws_in_the_packets_of_another_service_by_naming_its_address() {
    let here = here();
    let of = |spec: Value, last: u8| plan(&service(spec), &[slice(json!([endpoint(last, "there")]))], &here);
    let victim = of(json!({"clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"]}), 1);
    let claims = |field: Value| {
        let mut spec = json!({"clusterIP": "10.96.0.66", "clusterIPs": ["10.96.0.66"]});
        spec.as_object_mut().unwrap().extend(field.as_object().unwrap().clone());
        of(spec, 2)
    };
    // Its name comes first, and it was there first or came later.
    let (thief, kube) = (Key::new("a", "a"), Key::new("kube-system", "dns"));
    for thief_is_first in [true, false] {
        let (mut table, mut touched) = (Table::default(), Touched::default());
        let steal = claims(json!({"externalIPs": ["10.96.0.10"]}));
        let mut puts = vec![(&thief, steal), (&kube, victim.clone())];
        if !thief_is_first {
            puts.reverse();
        }
        for (key, fragment) in puts {
            table.put(key, fragment, &mut touched);
        }
        let script = table.script(&here, &touched);
        assert!(script.contains("10.96.0.10 . 80 . 0 : 10.244.0.1 . 8080"), "{script}");
        assert!(!script.contains("10.96.0.10 . 80 . 0 : 10.244.0.2"), "{script}");
    }
}
