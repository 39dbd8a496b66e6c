//! What Pods get from the plugin, on a bridge in a namespace.
//!
//! Needs root, `ip`, `tc` and `nft`; where they are missing the tests are reported as skipped.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use pintle_network::cni::{Books, Places};
use pintle_network::{Bridge, cni};
use serde_json::{Value, json};

use net::{can_run, ip, within};

#[expect(dead_code, reason = "each test uses a part of it")]
mod net;

/// A node with a bridge, and a stranger at the other end of its cable.
struct Node {
    name: String,
    bridge: Bridge,
    pods: Vec<String>,
    directory: tempfile::TempDir,
}

impl Node {
    fn new(part: &str, ranges: &[&str]) -> Node {
        let directory = tempfile::tempdir().expect("a directory");
        let name = format!("pcn{}-{part}", std::process::id());
        let stranger = format!("{name}-stranger");
        for line in [
            format!("netns add {name}"),
            format!("-n {name} link set lo up"),
            format!("netns add {stranger}"),
            format!("-n {name} link add outside type veth peer name eth0 netns {stranger}"),
            format!("-n {name} addr add 192.0.2.1/24 dev outside"),
            format!("-n {name} link set outside up"),
            format!("-n {stranger} addr add 192.0.2.2/24 dev eth0"),
            format!("-n {stranger} link set lo up"),
            format!("-n {stranger} link set eth0 up"),
        ] {
            ip(&line);
        }
        let bridge = Bridge {
            name: "pintlecni".to_owned(),
            pods: ranges.iter().map(|text| text.parse().unwrap()).collect(),
            cluster: vec!["10.244.0.0/16".parse().unwrap()],
            services: Vec::new(),
            books: directory.path().join("books"),
        };
        let node = Node { name, bridge, pods: Vec::new(), directory };
        let bridge = node.bridge.clone();
        node.here(async move { bridge.lay().await.expect("a bridge") });
        node
    }

    fn here<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        within(&self.name, move || {
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
        })
    }

    fn config(&self, more: &Value) -> String {
        let places = Places { configuration: self.directory.path().join("net.d"), plugins: PathBuf::new() };
        let file = places.configure(&self.bridge).expect("a configuration");
        let mut list: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let mut plugin = list["plugins"][0].take();
        plugin["cniVersion"] = json!("1.0.0");
        plugin["runtimeConfig"] = more.clone();
        plugin.to_string()
    }

    fn command(&self, command: &str, pod: &str, config: String) -> Result<Value, Value> {
        let (command, space) = (command.to_owned(), self.space(pod));
        let id = pod.to_owned();
        let done = self.here(async move {
            let environment = |name: &str| match name {
                "CNI_COMMAND" => Some(command.clone()),
                "CNI_CONTAINERID" => Some(id.clone()),
                "CNI_NETNS" => Some(format!("/run/netns/{space}")),
                "CNI_IFNAME" => Some("eth0".to_owned()),
                _ => None,
            };
            cni::run(environment, &config).await
        });
        let parsed = |text: String| serde_json::from_str(&text).unwrap_or_default();
        done.map(parsed).map_err(parsed)
    }

    fn space(&self, pod: &str) -> String {
        format!("{}-{pod}", self.name)
    }

    /// A Pod with a network; its addresses.
    fn pod(&mut self, pod: &str, more: &Value) -> Vec<String> {
        ip(&format!("netns add {}", self.space(pod)));
        ip(&format!("-n {} link set lo up", self.space(pod)));
        self.pods.push(pod.to_owned());
        let result = self.command("ADD", pod, self.config(more)).expect("it gets a network");
        assert_eq!(result["interfaces"][2]["name"], "eth0", "{result}");
        let ips = result["ips"].as_array().unwrap();
        ips.iter().map(|ip| ip["address"].as_str().unwrap().split('/').next().unwrap().to_owned()).collect()
    }

    fn serve(&self, pod: &str, at: &str) {
        let (name, at, pod) = (self.space(pod), at.to_owned(), pod.to_owned());
        let udp_at = at.clone();
        let listener = within(&name, move || TcpListener::bind(at).expect("the port is free"));
        let udp = within(&name, move || UdpSocket::bind(udp_at).expect("the port is free"));
        let other = pod.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let peer = stream.peer_addr().map(|peer| peer.ip().to_string()).unwrap_or_default();
                let _ = stream.write_all(format!("{pod} {peer}").as_bytes());
            }
        });
        std::thread::spawn(move || {
            let mut buffer = [0; 64];
            while let Ok((_, peer)) = udp.recv_from(&mut buffer) {
                let _ = udp.send_to(other.as_bytes(), peer);
            }
        });
    }

    fn ask(&self, from: &str, to: &str) -> String {
        let space = if from == "node" { self.name.clone() } else { self.space(from) };
        let to: SocketAddr = to.parse().unwrap();
        within(&space, move || {
            let mut stream = match TcpStream::connect_timeout(&to, Duration::from_secs(2)) {
                Ok(stream) => stream,
                Err(error) => return error.kind().to_string(),
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
            let length = socket.recv(&mut buffer).unwrap_or(0);
            String::from_utf8_lossy(&buffer[..length]).into_owned()
        })
    }

    fn said(&self, space: &str, line: &str) -> String {
        let mut words = line.split(' ');
        let mut command = Command::new("ip");
        command.args(["netns", "exec", space, words.next().unwrap()]).args(words);
        String::from_utf8_lossy(&command.output().expect("ip starts").stdout).into_owned()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let pods = self.pods.iter().map(|pod| self.space(pod));
        for space in pods.chain([self.space("stranger"), self.name.clone()]) {
            let _ = Command::new("ip").args(["netns", "del", &space]).output();
        }
    }
}

#[test]
fn pods_reach_each_other_their_node_and_the_world_by_its_address() {
    if !can_run() {
        return;
    }
    let mut node = Node::new("reach", &["10.244.3.0/24"]);
    let (a, b) = (node.pod("a", &json!({})), node.pod("b", &json!({})));
    assert_eq!((a[0].as_str(), b[0].as_str()), ("10.244.3.2", "10.244.3.3"));
    node.serve("b", "0.0.0.0:80");
    node.serve("stranger", "0.0.0.0:80");
    assert_eq!(node.ask("a", "10.244.3.3:80"), "b 10.244.3.2");
    assert_eq!(node.ask("node", "10.244.3.3:80"), "b 10.244.3.1");
    assert_eq!(node.ask("a", "192.0.2.2:80"), "stranger 192.0.2.1", "the world sees the node");
    assert!(node.command("CHECK", "a", node.config(&json!({}))).is_ok());

    // What was given comes back, and once is as good as twice.
    for _ in 0..2 {
        node.command("DEL", "a", node.config(&json!({}))).expect("it goes");
    }
    let error = node.command("CHECK", "a", node.config(&json!({}))).unwrap_err();
    assert!(error["msg"].as_str().unwrap().contains("no address in the books"), "{error}");
    assert_eq!(Books::new(&node.bridge.books).all().len(), 1);
    assert_eq!(node.said(&node.name, "ip -o link").matches("veth").count(), 1, "the cable of the other");
    // Containers that the runtime does not know lose what they have.
    let mut config: Value = serde_json::from_str(&node.config(&json!({}))).unwrap();
    config["cni.dev/valid-attachments"] = json!([]);
    node.command("GC", "a", config.to_string()).expect("it collects");
    assert!(Books::new(&node.bridge.books).all().is_empty());
}

#[test]
fn a_port_of_the_node_leads_to_its_pod_and_no_longer_than_that() {
    if !can_run() {
        return;
    }
    let mut node = Node::new("ports", &["10.244.4.0/24"]);
    let ports = json!({"portMappings": [
        {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"},
        {"hostPort": 5353, "containerPort": 80, "protocol": "UDP"},
        {"hostPort": 9090, "containerPort": 80, "protocol": "tcp", "hostIP": "127.0.0.1"},
        {"hostPort": 0, "containerPort": 80, "protocol": "tcp"}]});
    node.pod("a", &ports);
    node.pod("b", &json!({}));
    node.serve("a", "0.0.0.0:80");
    assert_eq!(node.ask("stranger", "192.0.2.1:8080"), "a 192.0.2.2", "the Pod sees who calls");
    assert_eq!(node.ask_udp("stranger", "192.0.2.1:5353"), "a");
    assert_eq!(node.ask("node", "127.0.0.1:8080"), "a 10.244.4.1");
    assert_eq!(node.ask("node", "127.0.0.1:9090"), "a 10.244.4.1");
    assert!(node.ask("stranger", "192.0.2.1:9090").contains("refused"), "that one is for loopback");
    assert!(node.ask("b", "192.0.2.1:8080").starts_with("a "));
    assert!(node.ask("a", "192.0.2.1:8080").starts_with("a "), "to itself");
    // Laid again, as after a restart: the ports are still open.
    let bridge = node.bridge.clone();
    node.here(async move { bridge.lay().await.expect("a bridge") });
    assert_eq!(node.ask("stranger", "192.0.2.1:8080"), "a 192.0.2.2");
    // Somebody took all rules away; the next Pod brings them back, with those of others.
    node.said(&node.name, "nft flush ruleset");
    node.pod("c", &json!({"portMappings": [{"hostPort": 8081, "containerPort": 80, "protocol": "tcp"}]}));
    assert_eq!(node.ask("stranger", "192.0.2.1:8080"), "a 192.0.2.2");
    node.command("DEL", "a", node.config(&ports)).expect("it goes");
    assert!(node.ask("stranger", "192.0.2.1:8080").contains("refused"), "the port is closed");
}

#[test]
fn pods_have_both_families_where_the_cluster_has() {
    if !can_run() {
        return;
    }
    let mut node = Node::new("dual", &["10.244.5.0/24", "fd00:10:244:5::/64"]);
    let (a, b) = (node.pod("a", &json!({})), node.pod("b", &json!({})));
    assert_eq!(a, ["10.244.5.2", "fd00:10:244:5::2"]);
    node.serve("b", "[::]:80");
    assert_eq!(node.ask("a", &format!("[{}]:80", b[1])), "b fd00:10:244:5::2");
    assert_eq!(node.ask("a", &format!("{}:80", b[0])), "b ::ffff:10.244.5.2");
}

#[test]
fn a_pod_has_the_bandwidth_of_its_annotations_and_no_more() {
    if !can_run() {
        return;
    }
    let mut node = Node::new("rate", &["10.244.6.0/24"]);
    node.pod(
        "a",
        &json!({"bandwidth": {"ingressRate": 8_000_000, "egressRate": 4_000_000,
        "ingressBurst": 2_147_483_647u64, "egressBurst": 2_147_483_647u64}}),
    );
    let (on_node, in_pod) = (node.said(&node.name, "tc qdisc"), node.said(&node.space("a"), "tc qdisc"));
    assert!(on_node.contains("tbf") && on_node.contains("rate 8Mbit"), "{on_node}");
    assert!(in_pod.contains("tbf") && in_pod.contains("rate 4Mbit"), "{in_pod}");
}

#[test]
fn what_cannot_be_done_is_said_in_the_words_of_the_protocol() {
    if !can_run() {
        return;
    }
    let mut node = Node::new("wrong", &["10.244.7.0/30"]);
    node.pod("a", &json!({}));
    let full = node.command("ADD", "b", node.config(&json!({}))).unwrap_err();
    assert_eq!((full["code"].as_u64(), full["cniVersion"].as_str()), (Some(11), Some("1.0.0")), "{full}");
    let gone = node.command(
        "ADD",
        "nobody",
        node.config(&json!({"portMappings": [
        {"hostPort": 1, "containerPort": 1, "protocol": "carrier pigeon"}]})),
    );
    assert_eq!(gone.unwrap_err()["code"], 6);
    assert_eq!(node.command("ADD", "a", json!({"cniVersion": "9.0.0"}).to_string()).unwrap_err()["code"], 1);
    assert_eq!(node.command("BANANA", "a", node.config(&json!({}))).unwrap_err()["code"], 4);
    let versions = node.command("VERSION", "a", json!({"cniVersion": "1.0.0"}).to_string()).unwrap();
    assert!(versions["supportedVersions"].as_array().unwrap().contains(&json!("0.4.0")));
    assert!(node.command("ADD", "a", json!({"cniVersion": "0.3.1", "type": "loopback"}).to_string()).is_ok());
}
