//! What NetworkPolicies do to packets.
//!
//! Needs root, `ip` and `nft`; where they are missing the tests are reported as skipped.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use pintle_network::Dataplane;
use pintle_network::policies::{Member, Policy, Table, Touched};
use pintle_runtime::Key;
use serde_json::{Value, json};

use net::{Net, STRANGER, can_run, ip, within};

#[expect(dead_code, reason = "the tests of Services need more of it")]
mod net;

/// For how long nothing must be heard.
const SILENCE: Duration = Duration::from_millis(500);

/// A node whose Pods have policies. Pod N of namespace `shop` has the labels `app=podN`; those from 100 on are of another node.
struct Guarded {
    net: Net,
    table: Table,
}

impl Guarded {
    async fn new(pods: &[u8]) -> Guarded {
        let net = Net::new(pods).await;
        let mut guarded = Guarded { net, table: Table::default() };
        let mut touched = Touched::default();
        guarded.table.put_namespace("shop", Some(labels(json!({"team": "shop"}))), &mut touched);
        guarded.table.put_namespace("bank", Some(labels(json!({"team": "bank"}))), &mut touched);
        for pod in pods {
            guarded.net.serve(*pod, 80);
            guarded.net.serve(*pod, 8080);
            let label = format!("pod{pod}");
            guarded.table.put_pod(&key("shop", *pod), member(*pod, json!({"app": label}), &[]), &mut touched);
        }
        guarded.table.settle(&mut touched);
        guarded.write_anew().await;
        guarded
    }

    async fn change(&mut self, change: impl FnOnce(&mut Table, &mut Touched)) {
        let mut touched = Touched::default();
        change(&mut self.table, &mut touched);
        self.table.settle(&mut touched);
        self.apply(self.table.steps(&self.net.here, &touched)).await;
    }

    async fn write_anew(&self) {
        self.apply(self.table.whole(&self.net.here)).await;
    }

    async fn apply(&self, scripts: Vec<String>) {
        for script in scripts {
            self.net.kernel.apply(&script).await.unwrap_or_else(|error| panic!("{error}\n{script}"));
        }
    }

    /// Puts a policy of `shop` in place of one of the same name.
    async fn policy(&mut self, name: &str, spec: Value) {
        let policy = policy(name, spec);
        self.change(|table, _| table.put_policy(&Key::new("shop", name), Some(policy))).await;
    }

    async fn lift(&mut self, name: &str) {
        self.change(|table, _| table.put_policy(&Key::new("shop", name), None)).await;
    }

    /// Puts a Pod into another namespace, or with other labels or ports.
    async fn pod(&mut self, namespace: &str, pod: u8, labels: Value, ports: &[(&str, u16)]) {
        let member = member(pod, labels, ports);
        self.change(|table, touched| {
            table.put_pod(&key("shop", pod), None, touched);
            table.put_pod(&key(namespace, pod), member, touched);
        })
        .await;
    }

    #[track_caller]
    fn passes(&self, from: &str, to: &str) {
        let heard = self.net.ask(from, to);
        assert!(
            heard.contains(' ') && heard.starts_with(|first: char| first.is_ascii_digit()),
            "{from} → {to}: {heard}"
        );
    }

    #[track_caller]
    fn is_dropped(&self, from: &str, to: &str) {
        assert_eq!(self.net.ask_for(from, to, SILENCE), "nothing", "{from} → {to}");
    }
}

fn key(namespace: &str, pod: u8) -> Key {
    Key::new(namespace, format!("pod{pod}"))
}

fn labels(labels: Value) -> std::collections::BTreeMap<String, String> {
    serde_json::from_value(labels).unwrap()
}

fn member(pod: u8, labels: Value, ports: &[(&str, u16)]) -> Option<Member> {
    let ports: Vec<Value> = ports.iter().map(|(name, port)| json!({"name": name, "containerPort": port})).collect();
    let pod: Pod = serde_json::from_value(json!({"metadata": {"labels": labels},
        "spec": {"nodeName": if pod < 100 {"here"} else {"there"}, "containers": [{"name": "a", "ports": ports}]},
        "status": {"phase": "Running", "podIPs": [{"ip": format!("10.244.0.{pod}")}, {"ip": format!("fd00:244::{pod}")}]}}))
    .unwrap();
    Member::of(&pod, "here")
}

fn policy(name: &str, spec: Value) -> Policy {
    let policy: NetworkPolicy =
        serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": name}, "spec": spec})).unwrap();
    Policy::of(&policy)
}

fn of(pod: u8) -> Value {
    json!({"matchLabels": {"app": format!("pod{pod}")}})
}

#[tokio::test]
async fn a_pod_that_a_policy_selects_is_closed_and_its_answers_pass() {
    if !can_run() {
        return;
    }
    let mut guarded = Guarded::new(&[1, 2, 3]).await;
    guarded.passes("2", "10.244.0.1:80");
    guarded.policy("deny", json!({"podSelector": of(1), "policyTypes": ["Ingress"]})).await;
    for (from, to) in [("2", "10.244.0.1:80"), (STRANGER, "10.244.0.1:80"), ("2", "[fd00:244::1]:80")] {
        guarded.is_dropped(from, to);
    }
    assert_eq!(guarded.net.ask_udp("2", "10.244.0.1:80"), "operation would block", "datagrams neither");
    // What it asks others for comes back; others are as open as before; the node's probes come in.
    guarded.passes("1", "10.244.0.2:80");
    guarded.passes("1", "[fd00:244::2]:80");
    assert_eq!(guarded.net.ask_udp("1", "10.244.0.2:80"), "2 10.244.0.1");
    guarded.passes("2", "10.244.0.3:80");
    guarded.passes("node", "10.244.0.1:80");
    guarded.passes("node", "[fd00:244::1]:80");
    // The same in the other direction.
    guarded.policy("deny", json!({"podSelector": of(1), "policyTypes": ["Egress"]})).await;
    guarded.is_dropped("1", "10.244.0.2:80");
    guarded.is_dropped("1", "[fd00:244::2]:80");
    guarded.passes("2", "10.244.0.1:80");
    guarded.lift("deny").await;
    guarded.passes("1", "10.244.0.2:80");
    guarded.passes(STRANGER, "10.244.0.1:80");
    let rules = guarded.net.rules();
    assert!(!rules.contains("ingress-") && !rules.contains("egress-") && !rules.contains("pods-"), "nothing is left");
}

#[tokio::test]
async fn peers_are_found_by_labels_of_pods_and_namespaces() {
    if !can_run() {
        return;
    }
    let mut guarded = Guarded::new(&[1, 2, 3, 4]).await;
    guarded.pod("bank", 3, json!({"app": "pod3"}), &[]).await;
    guarded.pod("bank", 4, json!({"app": "pod4"}), &[]).await;
    let from = |peer: Value| json!({"podSelector": of(1), "ingress": [{"from": [peer]}]});
    let bank = json!({"matchLabels": {"team": "bank"}});
    for (peer, expected) in [
        (json!({"podSelector": of(2)}), [true, false, false]),
        (json!({"podSelector": {}}), [true, false, false]),
        (json!({"podSelector": of(3)}), [false, false, false]),
        (json!({"namespaceSelector": bank}), [false, true, true]),
        (json!({"namespaceSelector": {}}), [true, true, true]),
        (json!({"namespaceSelector": bank, "podSelector": of(4)}), [false, false, true]),
        (
            json!({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["shop"]}]},
            "podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["pod3"]}]}}),
            [false, true, false],
        ),
    ] {
        guarded.policy("one", from(peer.clone())).await;
        for (pod, open) in [2, 3, 4].into_iter().zip(expected) {
            match open {
                true => guarded.passes(&pod.to_string(), "10.244.0.1:80"),
                false => guarded.is_dropped(&pod.to_string(), "10.244.0.1:80"),
            }
        }
        guarded.is_dropped(STRANGER, "10.244.0.1:80");
    }
    // A namespace gets the label, and a Pod loses its own.
    guarded.policy("one", from(json!({"namespaceSelector": {"matchLabels": {"vip": "yes"}}}))).await;
    guarded.is_dropped("3", "10.244.0.1:80");
    guarded.change(|table, touched| table.put_namespace("bank", Some(labels(json!({"vip": "yes"}))), touched)).await;
    guarded.passes("3", "10.244.0.1:80");
    guarded.policy("one", from(json!({"podSelector": of(2)}))).await;
    guarded.passes("2", "[fd00:244::1]:80");
    guarded.pod("shop", 2, json!({"app": "other"}), &[]).await;
    guarded.is_dropped("2", "10.244.0.1:80");
    guarded.is_dropped("2", "[fd00:244::1]:80");
}

#[tokio::test]
async fn ranges_of_addresses_are_allowed_but_for_their_exceptions() {
    if !can_run() {
        return;
    }
    let mut guarded = Guarded::new(&[1, 2, 3]).await;
    let block = |cidr: &str, except: &[&str]| json!({"podSelector": of(1), "ingress": [{"from": [{"ipBlock": {"cidr": cidr, "except": except}}]}]});
    guarded.policy("one", block("10.244.0.0/24", &["10.244.0.3/32", "10.244.0.2/31"])).await;
    guarded.is_dropped("2", "10.244.0.1:80");
    guarded.is_dropped("3", "10.244.0.1:80");
    guarded.policy("one", block("10.244.0.0/24", &["10.244.0.3/32"])).await;
    guarded.passes("2", "10.244.0.1:80");
    guarded.is_dropped("3", "10.244.0.1:80");
    guarded.is_dropped(STRANGER, "10.244.0.1:80");
    guarded.is_dropped("2", "[fd00:244::1]:80");
    guarded.policy("one", block("0.0.0.0/0", &[])).await;
    guarded.passes(STRANGER, "10.244.0.1:80");
    guarded.policy("one", block("::/0", &["fd00:244::3/128"])).await;
    guarded.passes("2", "[fd00:244::1]:80");
    guarded.is_dropped("3", "[fd00:244::1]:80");
    guarded.is_dropped("2", "10.244.0.1:80");
    // On the way out.
    let to = json!({"podSelector": of(1), "policyTypes": ["Egress"], "egress": [{"to": [{"ipBlock": {"cidr": "10.244.0.2/32"}}]}]});
    guarded.policy("one", to).await;
    guarded.passes("1", "10.244.0.2:80");
    guarded.is_dropped("1", "10.244.0.3:80");
}

#[tokio::test]
async fn ports_are_allowed_by_number_range_and_name() {
    if !can_run() {
        return;
    }
    let mut guarded = Guarded::new(&[1, 2, 3]).await;
    let ports = |ports: Value| json!({"podSelector": {}, "ingress": [{"ports": ports}]});
    guarded.policy("one", ports(json!([{"port": 8080}, {"port": 8000, "endPort": 8090}]))).await;
    guarded.passes("2", "10.244.0.1:8080");
    guarded.is_dropped("2", "10.244.0.1:80");
    assert_eq!(guarded.net.ask_udp("2", "10.244.0.1:8080"), "operation would block", "TCP is meant");
    guarded.policy("one", ports(json!([{"protocol": "UDP", "port": 80, "endPort": 81}]))).await;
    assert_eq!(guarded.net.ask_udp("2", "10.244.0.1:80"), "1 10.244.0.2");
    assert_eq!(guarded.net.ask_udp("2", "10.244.0.1:8080"), "operation would block");
    guarded.is_dropped("2", "10.244.0.1:80");
    guarded.policy("one", ports(json!([{"protocol": "UDP"}, {"protocol": "SCTP", "port": 7}]))).await;
    assert_eq!(guarded.net.ask_udp("2", "10.244.0.1:8080"), "1 10.244.0.2");
    // One name, another number for each Pod.
    guarded.pod("shop", 1, json!({"app": "pod1"}), &[("web", 80)]).await;
    guarded.pod("shop", 3, json!({"app": "pod3"}), &[("web", 8080)]).await;
    guarded.policy("one", ports(json!([{"port": "web"}]))).await;
    for to in ["10.244.0.1:80", "10.244.0.3:8080", "[fd00:244::3]:8080"] {
        guarded.passes("2", to);
    }
    for to in ["10.244.0.1:8080", "10.244.0.3:80"] {
        guarded.is_dropped("2", to);
    }
    guarded.is_dropped("3", "10.244.0.2:80");
    // On the way out it is the name that the other side gives it.
    guarded.lift("one").await;
    let egress = |rule: Value| json!({"podSelector": of(2), "policyTypes": ["Egress"], "egress": [rule]});
    for rule in [
        json!({"ports": [{"port": "web"}]}),
        json!({"to": [{"podSelector": {}}], "ports": [{"port": "web"}]}),
        json!({"to": [{"ipBlock": {"cidr": "10.244.0.0/16"}}, {"ipBlock": {"cidr": "::/0"}}], "ports": [{"port": "web"}]}),
    ] {
        guarded.policy("two", egress(rule.clone())).await;
        for to in ["10.244.0.1:80", "10.244.0.3:8080", "[fd00:244::3]:8080"] {
            guarded.passes("2", to);
        }
        for to in ["10.244.0.1:8080", "10.244.0.3:80"] {
            guarded.is_dropped("2", to);
        }
    }
}

#[tokio::test]
async fn policies_add_up_and_both_ends_must_agree() {
    if !can_run() {
        return;
    }
    let mut guarded = Guarded::new(&[1, 2, 3, 101]).await;
    let from = |pod: u8| json!({"podSelector": of(1), "ingress": [{"from": [{"podSelector": of(pod)}]}]});
    guarded.policy("deny", json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})).await;
    guarded.policy("two", from(2)).await;
    guarded.is_dropped("2", "10.244.0.1:80");
    guarded.policy("out", json!({"podSelector": of(2), "policyTypes": ["Egress"], "egress": [{}]})).await;
    guarded.passes("2", "10.244.0.1:80");
    guarded.is_dropped("2", "10.244.0.3:80");
    // The other node judges what its own Pods send.
    guarded.policy("other", from(101)).await;
    guarded.passes("101", "10.244.0.1:80");
    guarded.passes("2", "10.244.0.1:80");
    guarded.lift("two").await;
    guarded.is_dropped("2", "10.244.0.1:80");
    guarded.lift("deny").await;
    guarded.is_dropped("2", "10.244.0.1:80");
    guarded.lift("other").await;
    guarded.passes("2", "10.244.0.1:80");
}

#[tokio::test]
async fn a_service_does_not_lead_past_a_policy() {
    if !can_run() {
        return;
    }
    let mut guarded = Guarded::new(&[1, 2, 3]).await;
    let spec = json!({"type": "NodePort", "clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5"],
        "ports": [{"name": "web", "port": 8888, "nodePort": 30080, "protocol": "TCP"}]});
    guarded.net.put("web", spec, json!({}), &[(1, 80)]).await;
    let only = |pod: u8| json!({"podSelector": of(1), "ingress": [{"from": [{"podSelector": of(pod)}], "ports": [{"port": 80}]}]});
    guarded.policy("one", only(2)).await;
    guarded.passes("2", "10.96.0.5:8888");
    guarded.is_dropped("3", "10.96.0.5:8888");
    guarded.is_dropped(STRANGER, "192.0.2.1:30080");
    // A Pod that finds itself behind the Service is let in, whatever is said of others.
    guarded.passes("1", "10.96.0.5:8888");
    guarded.policy("one", json!({"podSelector": of(1), "policyTypes": ["Ingress", "Egress"]})).await;
    guarded.passes("1", "10.96.0.5:8888");
    // On the way out the endpoint is judged, not the Service.
    guarded.lift("one").await;
    let out = |port: u16| json!({"podSelector": of(2), "policyTypes": ["Egress"], "egress": [{"to": [{"podSelector": of(1)}], "ports": [{"port": port}]}]});
    guarded.policy("out", out(80)).await;
    guarded.passes("2", "10.96.0.5:8888");
    guarded.policy("out", out(8888)).await;
    guarded.is_dropped("2", "10.96.0.5:8888");
    // All rules of Services are written anew, and those of policies stay.
    guarded.net.kernel.apply(&guarded.net.table.whole(&guarded.net.here)).await.unwrap();
    guarded.is_dropped("2", "10.96.0.5:8888");
    assert!(guarded.net.kernel.has(&guarded.net.here.policy_table()).await);
    guarded.net.kernel.apply(&guarded.net.here.removal()).await.unwrap();
    assert_eq!(guarded.net.rules().trim(), "", "the node's rules go with it");
}

#[tokio::test]
async fn connections_that_were_allowed_go_on_when_a_policy_comes() {
    if !can_run() {
        return;
    }
    let mut guarded = Guarded::new(&[1, 2]).await;
    let server = within(&guarded.net.space("1"), || TcpListener::bind(("0.0.0.0", 9000)).unwrap());
    let to: SocketAddr = ([10, 244, 0, 1], 9000).into();
    let connect = move || TcpStream::connect_timeout(&to, Duration::from_secs(5)).unwrap();
    let mut client = within(&guarded.net.space("2"), connect);
    let (mut served, _) = server.accept().unwrap();
    guarded.policy("deny", json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})).await;
    guarded.is_dropped("2", "10.244.0.1:9000");
    client.write_all(b"still there").unwrap();
    drop(client);
    let mut heard = String::new();
    served.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    served.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "still there");
}

#[tokio::test]
async fn an_isolated_pod_is_never_open_while_rules_are_exchanged() {
    if !can_run() {
        return;
    }
    let mut guarded = Guarded::new(&[1, 2, 3]).await;
    let from = |pod: u8| json!({"podSelector": of(1), "ingress": [{"from": [{"podSelector": of(pod)}]}]});
    guarded.policy("one", from(3)).await;
    let server = within(&guarded.net.space("1"), || UdpSocket::bind(("0.0.0.0", 9000)).unwrap());
    server.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let ends = Arc::new(AtomicBool::new(false));
    let (ended, space) = (ends.clone(), guarded.net.space("2"));
    let sender = std::thread::spawn(move || {
        within(&space, move || {
            let mut sent = 0u64;
            while !ended.load(Ordering::Relaxed) {
                // A flow of its own each time: what was dropped is not remembered.
                let socket = UdpSocket::bind(("0.0.0.0", 0)).unwrap();
                let _ = socket.send_to(b"?", "10.244.0.1:9000");
                sent += 1;
            }
            sent
        })
    });
    for round in 0..30u8 {
        guarded.policy("one", from(3 + round % 2)).await;
        guarded.policy("more", from(4 + round)).await;
        guarded.pod("shop", 1, json!({"app": "pod1", "round": round.to_string()}), &[]).await;
        guarded.write_anew().await;
        guarded.lift("more").await;
    }
    ends.store(true, Ordering::Relaxed);
    let sent = sender.join().unwrap();
    assert!(sent > 1000, "{sent} datagrams");
    let heard = server.recv(&mut [0; 8]);
    assert!(heard.is_err(), "a datagram came through while rules were exchanged, of {sent}");
}

/// Puts all Pods on one bridge, where they find each other without asking the node for a way.
fn bridge(net: &Net, pods: &[u8]) {
    let node = &net.name;
    ip(&format!("-n {node} link add pintle0 type bridge"));
    ip(&format!("-n {node} link set pintle0 up"));
    for pod in pods {
        let space = net.space(&pod.to_string());
        ip(&format!("-n {node} addr flush dev pod{pod}"));
        ip(&format!("-n {node} link set pod{pod} master pintle0"));
        for range in ["10.244.0.0/24", "fd00:244::/64"] {
            ip(&format!("-n {space} route add {range} dev eth0"));
        }
        ip(&format!("-n {node} -6 route flush dev pod{pod}"));
    }
    ip(&format!("-n {node} addr add 10.244.0.254/24 dev pintle0"));
    ip(&format!("-n {node} addr add fd00:244::fe/64 dev pintle0 nodad"));
    within(node, || {
        for setting in ["bridge-nf-call-iptables", "bridge-nf-call-ip6tables"] {
            std::fs::write(format!("/proc/sys/net/bridge/{setting}"), "1")
                .expect("the kernel shows bridged packets to rules");
        }
    });
}

#[tokio::test]
async fn pods_of_one_bridge_are_isolated_too() {
    if !can_run() {
        return;
    }
    let mut guarded = Guarded::new(&[1, 2, 3]).await;
    bridge(&guarded.net, &[1, 2, 3]);
    for to in ["10.244.0.1:80", "[fd00:244::1]:80"] {
        guarded.passes("2", to);
        guarded.passes("node", to);
    }
    guarded.policy("deny", json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})).await;
    let from = json!({"podSelector": of(1), "ingress": [{"from": [{"podSelector": of(2)}], "ports": [{"port": 80}]}]});
    guarded.policy("in", from).await;
    guarded.policy("out", json!({"podSelector": of(2), "policyTypes": ["Egress"], "egress": [{}]})).await;
    // Whoever knew its neighbours must find them anew, whatever is denied.
    for pod in ["1", "2", "3"] {
        ip(&format!("-n {} neigh flush all", guarded.net.space(pod)));
    }
    for to in ["10.244.0.1:80", "[fd00:244::1]:80"] {
        guarded.passes("2", to);
        guarded.is_dropped("3", to);
        guarded.passes("node", to);
    }
    guarded.is_dropped("2", "10.244.0.1:8080");
    guarded.is_dropped("1", "10.244.0.2:80");
}
