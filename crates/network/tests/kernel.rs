//! What the rules do to packets.
//!
//! Needs root, `ip` and `nft`; where they are missing the tests are reported as skipped.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use pintle_network::Dataplane;
use serde_json::{Value, json};

use net::{NODE, Net, STRANGER, can_run, ip, within};

mod net;

fn cluster_ip(address: &str) -> Value {
    json!({"clusterIP": address, "clusterIPs": [address], "ports": [{"name": "web", "port": 80, "protocol": "TCP"}]})
}

#[tokio::test]
async fn a_service_reaches_every_endpoint_and_each_sees_who_calls() {
    if !can_run() {
        return;
    }
    let mut net = Net::new(&[1, 2, 3]).await;
    (1..=2).for_each(|pod| net.serve(pod, 8080));
    net.put("web", cluster_ip("10.96.0.5"), json!({}), &[(1, 8080), (2, 8080)]).await;
    let tally = net.tally("3", "10.96.0.5:80", 40);
    assert_eq!(tally.values().sum::<usize>(), 40, "{tally:?}");
    assert!(tally.keys().eq(["1", "2"]) && tally.values().all(|count| *count > 5), "{tally:?}");
    assert!(net.ask("3", "10.96.0.5:80").ends_with(" 10.244.0.3"), "a Pod's own address is seen");
    // One that is sent to itself sees the node instead.
    assert_eq!(net.tally("1", "10.96.0.5:80", 20).values().sum::<usize>(), 20);
    assert_eq!(net.tally("node", "10.96.0.5:80", 10).keys().collect::<Vec<_>>(), ["1", "2"]);
    // One endpoint less, and then another in its place.
    net.put("web", cluster_ip("10.96.0.5"), json!({}), &[(2, 8080)]).await;
    assert_eq!(net.tally("3", "10.96.0.5:80", 10), BTreeMap::from([("2".to_owned(), 10)]));
    net.put("web", cluster_ip("10.96.0.5"), json!({}), &[(1, 8080)]).await;
    assert_eq!(net.tally("3", "10.96.0.5:80", 10), BTreeMap::from([("1".to_owned(), 10)]));
}

#[tokio::test]
async fn what_nobody_serves_is_refused_and_never_leaves_the_node() {
    if !can_run() {
        return;
    }
    let mut net = Net::new(&[1, 2]).await;
    net.serve(1, 8080);
    let mut spec = cluster_ip("10.96.0.5");
    spec["type"] = json!("NodePort");
    spec["ports"][0]["nodePort"] = json!(30080);
    net.put("web", spec.clone(), json!({}), &[]).await;
    for (from, to) in
        [("2", "10.96.0.5:80"), ("node", "10.96.0.5:80"), ("2", "10.96.0.9:80"), ("stranger", "192.0.2.1:30080")]
    {
        assert_eq!(net.ask(from, to), "refused", "{from} {to}");
    }
    net.put("web", spec, json!({}), &[(1, 8080)]).await;
    assert_eq!(net.ask("2", "10.96.0.5:81"), "refused", "another port");
    assert_eq!(net.ask("2", "10.96.0.5:80"), "1 10.244.0.2");
    net.remove("web").await;
    assert_eq!(net.ask("2", "10.96.0.5:80"), "refused", "it is gone");
    let rules = net.rules();
    assert!(!rules.contains("30080") && !rules.contains("pick-"), "nothing is left:\n{rules}");
}

#[tokio::test]
async fn strangers_come_through_ports_of_the_node_as_the_policy_says() {
    if !can_run() {
        return;
    }
    let mut net = Net::new(&[1, 2, 101]).await;
    [1, 101].iter().for_each(|pod| net.serve(*pod, 8080));
    let spec = |policy: &str| {
        json!({"type": "LoadBalancer", "clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5"], "externalIPs": ["198.51.100.7"],
            "externalTrafficPolicy": policy, "ports": [{"name": "web", "port": 80, "protocol": "TCP", "nodePort": 30080}],
            "loadBalancerSourceRanges": ["192.0.2.0/24"]})
    };
    let status = json!({"loadBalancer": {"ingress": [{"ip": "198.51.100.9"}]}});
    ip(&format!("-n {} route add 198.51.100.0/24 via {NODE}", net.space(STRANGER)));
    net.put("web", spec("Cluster"), status.clone(), &[(1, 8080), (101, 8080)]).await;
    for to in ["192.0.2.1:30080", "198.51.100.7:80", "198.51.100.9:80"] {
        let tally = net.tally(STRANGER, to, 20);
        assert_eq!(tally.keys().collect::<Vec<_>>(), ["1", "101"], "{to}");
        assert!(!net.ask(STRANGER, to).ends_with(" 192.0.2.2"), "the answer must come back through the node");
    }
    net.put("web", spec("Local"), status.clone(), &[(1, 8080), (101, 8080)]).await;
    for to in ["192.0.2.1:30080", "198.51.100.9:80"] {
        assert_eq!(
            net.tally(STRANGER, to, 10),
            BTreeMap::from([("1".to_owned(), 10)]),
            "{to}: only those of this node"
        );
        assert_eq!(net.ask(STRANGER, to), "1 192.0.2.2", "and they see who calls");
    }
    assert_eq!(net.ask("2", "198.51.100.9:80"), "nothing", "its addresses are not in the ranges");
    assert_eq!(net.tally("2", "198.51.100.7:80", 20).keys().collect::<Vec<_>>(), ["1", "101"], "Pods reach all");
    net.put("web", spec("Local"), status, &[(101, 8080)]).await;
    assert_eq!(net.ask(STRANGER, "192.0.2.1:30080"), "nothing", "a balancer must go elsewhere");
}

#[tokio::test]
async fn a_client_comes_back_to_the_endpoint_that_it_had() {
    if !can_run() {
        return;
    }
    let mut net = Net::new(&[1, 2, 3, 4]).await;
    (1..=3).for_each(|pod| net.serve(pod, 8080));
    let mut spec = cluster_ip("10.96.0.5");
    spec["sessionAffinity"] = json!("ClientIP");
    spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": 60}});
    net.put("web", spec.clone(), json!({}), &[(1, 8080), (2, 8080), (3, 8080)]).await;
    let tally = net.tally("4", "10.96.0.5:80", 20);
    assert_eq!(tally.len(), 1, "{tally:?}");
    let had: u8 = tally.keys().next().unwrap().parse().unwrap();
    let others: Vec<(u8, u16)> = (1..=3).filter(|pod| *pod != had).map(|pod| (pod, 8080)).collect();
    // The others change: it stays where it was. Its own goes: it finds another, and stays there.
    net.put("web", spec.clone(), json!({}), &[(had, 8080), others[0]]).await;
    assert_eq!(net.tally("4", "10.96.0.5:80", 10), BTreeMap::from([(had.to_string(), 10)]));
    net.put("web", spec.clone(), json!({}), &others).await;
    let tally = net.tally("4", "10.96.0.5:80", 20);
    assert!(tally.len() == 1 && !tally.contains_key(&had.to_string()), "{tally:?}");
    spec["sessionAffinity"] = json!("None");
    net.put("web", spec, json!({}), &others).await;
    assert_eq!(net.tally("4", "10.96.0.5:80", 30).len(), 2);
    assert!(!net.rules().contains("clients-"), "nothing is left");
}

#[tokio::test]
async fn datagrams_find_a_service_too() {
    if !can_run() {
        return;
    }
    let mut net = Net::new(&[1, 2]).await;
    net.serve(1, 5353);
    let spec = json!({"clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"],
        "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]});
    net.put("dns", spec.clone(), json!({}), &[(1, 5353)]).await;
    assert_eq!(net.ask_udp("2", "10.96.0.10:53"), "1 10.244.0.2");
    net.put("dns", spec, json!({}), &[]).await;
    assert_eq!(net.ask_udp("2", "10.96.0.10:53"), ErrorKind::ConnectionRefused.to_string());
}

#[tokio::test]
async fn a_service_is_found_at_its_addresses_of_both_families() {
    if !can_run() {
        return;
    }
    let mut net = Net::new(&[1, 2, 3]).await;
    [1, 2].iter().for_each(|pod| net.serve(*pod, 8080));
    let spec = |affinity: &str| {
        json!({"type": "NodePort", "clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5", "fd00:96::5"],
            "sessionAffinity": affinity, "ports": [{"name": "web", "port": 80, "protocol": "TCP", "nodePort": 30080}]})
    };
    let both = [(1, 8080), (2, 8080)];
    net.put("web", spec("None"), json!({}), &both).await;
    for to in ["10.96.0.5:80", "[fd00:96::5]:80"] {
        assert_eq!(net.tally("3", to, 30).keys().collect::<Vec<_>>(), ["1", "2"], "{to}");
        assert_eq!(net.tally("1", to, 20).values().sum::<usize>(), 20, "{to}: also one that finds itself");
        assert_eq!(net.tally("node", to, 20).keys().collect::<Vec<_>>(), ["1", "2"], "{to}");
    }
    assert!(net.ask("3", "[fd00:96::5]:80").ends_with(" fd00:244::3"), "a Pod's own address is seen");
    for to in ["192.0.2.1:30080", "[2001:db8::1]:30080"] {
        assert_eq!(net.tally(STRANGER, to, 30).keys().collect::<Vec<_>>(), ["1", "2"], "{to}");
    }
    net.put("web", spec("ClientIP"), json!({}), &both).await;
    assert_eq!(net.tally("3", "[fd00:96::5]:80", 20).len(), 1, "a client stays where it was");
    net.put("web", spec("None"), json!({}), &[]).await;
    for (from, to) in [
        ("3", "[fd00:96::5]:80"),
        ("node", "[fd00:96::5]:80"),
        ("3", "[fd00:96::9]:80"),
        (STRANGER, "[2001:db8::1]:30080"),
    ] {
        assert_eq!(net.ask(from, to), "refused", "{from} {to}");
    }
    let dns = json!({"clusterIP": "fd00:96::a", "clusterIPs": ["fd00:96::a"],
        "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]});
    net.put("dns", dns, json!({}), &[(1, 8080)]).await;
    assert_eq!(net.ask_udp("3", "[fd00:96::a]:53"), "1 fd00:244::3");
}

#[tokio::test]
async fn a_client_that_never_pauses_finds_the_endpoint_that_took_over() {
    if !can_run() {
        return;
    }
    let mut net = Net::new(&[1, 2, 3]).await;
    [1, 2].iter().for_each(|pod| net.serve(*pod, 5353));
    let spec = json!({"clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"],
        "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]});
    net.put("dns", spec.clone(), json!({}), &[(1, 5353)]).await;
    let to: SocketAddr = (IpAddr::from([10, 96, 0, 10]), 53).into();
    let socket = within(&net.space("3"), move || {
        let socket = UdpSocket::bind(("0.0.0.0", 4000)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket.connect(to).unwrap();
        socket
    });
    let ask = || {
        socket.send(b"?").unwrap();
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    assert_eq!(ask(), "1 10.244.0.3");
    net.put("dns", spec, json!({}), &[(2, 5353)]).await;
    assert_eq!(ask(), "2 10.244.0.3");
}

#[tokio::test]
async fn connections_survive_when_all_rules_are_written_anew() {
    if !can_run() {
        return;
    }
    let mut net = Net::new(&[1, 2]).await;
    let server = within(&net.space("1"), || TcpListener::bind(("0.0.0.0", 8080)).unwrap());
    net.put("web", cluster_ip("10.96.0.5"), json!({}), &[(1, 8080)]).await;
    let to: SocketAddr = (IpAddr::from([10, 96, 0, 5]), 80).into();
    let mut client = within(&net.space("2"), move || TcpStream::connect_timeout(&to, Duration::from_secs(5)).unwrap());
    let (mut served, _) = server.accept().unwrap();
    net.kernel.apply(&net.table.whole(&net.here)).await.expect("the kernel takes all of it again");
    assert!(net.kernel.has(&net.here.table).await);
    client.write_all(b"still there").unwrap();
    drop(client);
    let mut heard = String::new();
    served.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    served.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "still there");
    net.kernel.apply(&net.here.removal()).await.expect("it can be taken away");
    assert!(!net.kernel.has(&net.here.table).await);
    assert_eq!(net.rules().trim(), "");
}
