//! What the rules do to packets: a node, its Pods and a stranger as network namespaces, without a default route out of them.
//!
//! Needs root, `ip` and `nft`; where they are missing the tests are reported as skipped.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use pintle_network::services::{Here, Table, Touched, plan};
use pintle_network::{Dataplane, Kernel};
use pintle_runtime::Key;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};

#[path = "../../../xtask/src/test/skip.rs"]
mod skip;

fn can_run() -> bool {
    let answers =
        |program: &str, flag: &str| Command::new(program).arg(flag).output().is_ok_and(|out| out.status.success());
    let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    let nft = answers("nft", "--version") || answers("/usr/sbin/nft", "--version");
    let needs = [("root", root), ("ip, from iproute2", answers("ip", "-V")), ("nft, from nftables", nft)];
    let missing: Vec<&str> = needs.into_iter().filter(|(_, there)| !there).map(|(need, _)| need).collect();
    if !missing.is_empty() {
        skip::skip(&missing);
    }
    missing.is_empty()
}

/// A node with Pods behind it, one cable each, and a stranger on the other side.
///
/// ```text
/// pods 10.244.0.N ── node 10.244.0.254, 192.0.2.1 ── stranger 192.0.2.2
/// ```
struct Net {
    name: String,
    pods: Vec<u8>,
    table: Table,
    here: Here,
    kernel: Kernel,
}

const NODE: &str = "192.0.2.1";
const STRANGER: &str = "stranger";

fn ip(line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = Command::new("ip").args(&words).output().expect("ip starts");
    assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Net {
    async fn new(pods: &[u8]) -> Net {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("pnt{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let here = Here {
            table: "pintle-test".to_owned(),
            bridge: "pintle0".to_owned(),
            node: "here".to_owned(),
            zone: String::new(),
            pods: vec!["10.244.0.0/16".parse().unwrap()],
            services: vec!["10.96.0.0/12".parse().unwrap()],
        };
        let kernel = Kernel::in_namespace(name.clone());
        let net = Net { pods: pods.to_vec(), table: Table::default(), here, kernel, name };
        let node = &net.name;
        ip(&format!("netns add {node}"));
        ip(&format!("-n {node} link set lo up"));
        net.sysctl("net.ipv4.ip_forward=1");
        for pod in pods {
            let space = net.space(&pod.to_string());
            let cable = format!("pod{pod}");
            net.cable(&space, &cable);
            ip(&format!("-n {node} addr add 10.244.0.254/32 dev {cable}"));
            ip(&format!("-n {node} route add 10.244.0.{pod}/32 dev {cable}"));
            ip(&format!("-n {space} addr add 10.244.0.{pod}/32 dev eth0"));
            ip(&format!("-n {space} route add 10.244.0.254/32 dev eth0"));
            // It ends at the node, which has none itself.
            ip(&format!("-n {space} route add default via 10.244.0.254"));
        }
        let space = net.space(STRANGER);
        net.cable(&space, "outside");
        ip(&format!("-n {node} addr add {NODE}/24 dev outside"));
        ip(&format!("-n {space} addr add 192.0.2.2/24 dev eth0"));
        for range in ["10.244.0.0/16", "10.96.0.0/12"] {
            ip(&format!("-n {space} route add {range} via {NODE}"));
        }
        // The node itself must have a way to begin with.
        ip(&format!("-n {node} route add 10.96.0.0/12 dev outside"));
        net.kernel.apply(&net.table.whole(&net.here)).await.expect("the kernel takes the base");
        net
    }

    fn space(&self, part: &str) -> String {
        format!("{}-{part}", self.name)
    }

    fn cable(&self, space: &str, name: &str) {
        let node = &self.name;
        ip(&format!("netns add {space}"));
        ip(&format!("-n {space} link set lo up"));
        ip(&format!("-n {node} link add {name} type veth peer name eth0 netns {space}"));
        ip(&format!("-n {node} link set {name} up"));
        ip(&format!("-n {space} link set eth0 up"));
    }

    fn sysctl(&self, setting: &str) {
        let (name, value) = setting.split_once('=').unwrap();
        let (path, value) = (format!("/proc/sys/{}", name.replace('.', "/")), value.to_owned());
        within(&self.name, move || std::fs::write(path, value).expect("the setting can be written"));
    }

    /// Puts a Service in place of one of the same name.
    async fn put(&mut self, name: &str, spec: Value, status: Value, endpoints: &[(u8, u16)]) {
        let service: Service = serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": name}, "spec": spec, "status": status}))
        .unwrap();
        let slices: Vec<_> = endpoints.iter().map(|(pod, port)| slice(*pod, *port, &spec["ports"][0])).collect();
        let mut touched = Touched::default();
        self.table.put(&Key::new("shop", name), plan(&service, &slices, &self.here), &mut touched);
        let script = self.table.script(&self.here, &touched);
        self.kernel.apply(&script).await.unwrap_or_else(|error| panic!("{error}\n{script}"));
    }

    async fn remove(&mut self, name: &str) {
        let mut touched = Touched::default();
        self.table.put(&Key::new("shop", name), pintle_network::services::Fragment::default(), &mut touched);
        let script = self.table.script(&self.here, &touched);
        self.kernel.apply(&script).await.unwrap_or_else(|error| panic!("{error}\n{script}"));
    }

    fn rules(&self) -> String {
        let output = Command::new("ip").args(["netns", "exec", &self.name, "nft", "list", "ruleset"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Answers whoever connects to a Pod with the Pod's number and the address that it saw.
    fn serve(&self, pod: u8, port: u16) {
        let space = self.space(&pod.to_string());
        let tcp = within(&space, move || TcpListener::bind(("0.0.0.0", port)).expect("the port is free"));
        let udp = within(&space, move || UdpSocket::bind(("0.0.0.0", port)).expect("the port is free"));
        std::thread::spawn(move || {
            for stream in tcp.incoming() {
                let Ok(mut stream) = stream else { return };
                let peer = stream.peer_addr().map(|peer| peer.ip().to_string()).unwrap_or_default();
                let _ = stream.write_all(format!("{pod} {peer}").as_bytes());
            }
        });
        std::thread::spawn(move || {
            let mut buffer = [0; 64];
            while let Ok((_, peer)) = udp.recv_from(&mut buffer) {
                let _ = udp.send_to(format!("{pod} {}", peer.ip()).as_bytes(), peer);
            }
        });
    }

    /// What somebody hears who connects: `POD SEEN-ADDRESS`, or why not.
    fn ask(&self, from: &str, to: &str) -> String {
        let space = if from == "node" { self.name.clone() } else { self.space(from) };
        let to: SocketAddr = to.parse().unwrap();
        within(&space, move || {
            let stream = TcpStream::connect_timeout(&to, Duration::from_secs(2));
            let mut stream = match stream {
                Ok(stream) => stream,
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => return "refused".to_owned(),
                Err(error) if error.kind() == ErrorKind::TimedOut => return "nothing".to_owned(),
                Err(error) => return error.to_string(),
            };
            let mut answer = String::new();
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            stream.read_to_string(&mut answer).map_or_else(|error| error.to_string(), |_| answer)
        })
    }

    fn ask_udp(&self, from: &str, to: &str) -> String {
        let to: SocketAddr = to.parse().unwrap();
        within(&self.space(from), move || {
            let socket = UdpSocket::bind(("0.0.0.0", 0)).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
            socket.connect(to).unwrap();
            socket.send(b"?").unwrap();
            let mut buffer = [0; 64];
            socket.recv(&mut buffer).map_or_else(
                |error| error.kind().to_string(),
                |length| String::from_utf8_lossy(&buffer[..length]).into_owned(),
            )
        })
    }

    /// How often each Pod answers.
    fn tally(&self, from: &str, to: &str, times: usize) -> BTreeMap<String, usize> {
        let mut tally = BTreeMap::new();
        for _ in 0..times {
            let answer = self.ask(from, to);
            *tally.entry(answer.split(' ').next().unwrap_or_default().to_owned()).or_default() += 1;
        }
        tally
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let spaces = self.pods.iter().map(|pod| self.space(&pod.to_string())).chain([self.space(STRANGER)]);
        for space in spaces.chain([self.name.clone()]) {
            let _ = Command::new("ip").args(["netns", "del", &space]).output();
        }
    }
}

fn slice(pod: u8, port: u16, of: &Value) -> Arc<EndpointSlice> {
    let slice = json!({"metadata": {"namespace": "shop", "name": format!("s{pod}")}, "addressType": "IPv4",
        "ports": [{"name": of["name"], "port": port, "protocol": of["protocol"]}],
        "endpoints": [{"addresses": [format!("10.244.0.{pod}")], "nodeName": if pod < 100 {"here"} else {"there"},
            "conditions": {"ready": true}}]});
    Arc::new(serde_json::from_value(slice).unwrap())
}

/// Runs on a thread of its own inside a namespace; sockets that it opens stay there.
fn within<T: Send + 'static>(space: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let path = format!("/run/netns/{space}");
    let thread = std::thread::spawn(move || {
        let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), Some(LinkNameSpaceType::Network)).expect("root may");
        work()
    });
    thread.join().expect("the thread ends well")
}

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
