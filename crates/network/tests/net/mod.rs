//! A node, its Pods and a stranger as network namespaces, without a default route out of them.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use pintle_network::dataplane::forget;
use pintle_network::services::{Fragment, Here, Table, Touched, plan};
use pintle_network::{Dataplane, Kernel};
use pintle_runtime::Key;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};

#[path = "../../../../xtask/src/test/skip.rs"]
mod skip;

/// What these tests need is here; if not, they are reported as skipped.
pub fn can_run() -> bool {
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
/// pods 10.244.0.N, fd00:244::N ── node 10.244.0.254, fd00:244::fe, 192.0.2.1, 2001:db8::1 ── stranger 192.0.2.2, 2001:db8::2
/// ```
pub struct Net {
    /// The namespace of the node itself; those of others begin with it.
    pub name: String,
    pods: Vec<u8>,
    pub table: Table,
    pub here: Here,
    pub kernel: Kernel,
}

pub const NODE: &str = "192.0.2.1";
pub const STRANGER: &str = "stranger";

/// Nobody waits whether somebody else has the address: neighbours could not be found for a second.
const TAKEN_AT_ONCE: &str = "net.ipv6.conf.default.accept_dad=0";

fn sysctl(space: &str, setting: &str) {
    let (name, value) = setting.split_once('=').unwrap();
    let (path, value) = (format!("/proc/sys/{}", name.replace('.', "/")), value.to_owned());
    within(space, move || std::fs::write(path, value).expect("the setting can be written"));
}

pub fn ip(line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = Command::new("ip").args(&words).output().expect("ip starts");
    assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Net {
    pub async fn new(pods: &[u8]) -> Net {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("pnt{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let here = Here {
            table: "pintle-test".to_owned(),
            bridge: "pintle0".to_owned(),
            node: "here".to_owned(),
            zone: String::new(),
            pods: ["10.244.0.0/16", "fd00:244::/64"].map(|range| range.parse().unwrap()).to_vec(),
            services: ["10.96.0.0/12", "fd00:96::/112"].map(|range| range.parse().unwrap()).to_vec(),
        };
        let kernel = Kernel::in_namespace(name.clone());
        let net = Net { pods: pods.to_vec(), table: Table::default(), here, kernel, name };
        let node = &net.name;
        ip(&format!("netns add {node}"));
        ip(&format!("-n {node} link set lo up"));
        sysctl(node, "net.ipv4.ip_forward=1");
        sysctl(node, "net.ipv6.conf.all.forwarding=1");
        sysctl(node, TAKEN_AT_ONCE);
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
            ip(&format!("-n {node} addr add fd00:244::fe/128 dev {cable} nodad"));
            ip(&format!("-n {node} route add fd00:244::{pod}/128 dev {cable}"));
            ip(&format!("-n {space} addr add fd00:244::{pod}/128 dev eth0 nodad"));
            ip(&format!("-n {space} route add fd00:244::fe/128 dev eth0"));
            ip(&format!("-n {space} route add default via fd00:244::fe"));
        }
        let space = net.space(STRANGER);
        net.cable(&space, "outside");
        ip(&format!("-n {node} addr add {NODE}/24 dev outside"));
        ip(&format!("-n {space} addr add 192.0.2.2/24 dev eth0"));
        for range in ["10.244.0.0/16", "10.96.0.0/12"] {
            ip(&format!("-n {space} route add {range} via {NODE}"));
        }
        ip(&format!("-n {node} addr add 2001:db8::1/64 dev outside nodad"));
        ip(&format!("-n {space} addr add 2001:db8::2/64 dev eth0 nodad"));
        for range in ["fd00:244::/64", "fd00:96::/112"] {
            ip(&format!("-n {space} route add {range} via 2001:db8::1"));
        }
        // The node itself must have a way to begin with.
        ip(&format!("-n {node} route add 10.96.0.0/12 dev outside"));
        ip(&format!("-n {node} route add fd00:96::/112 dev outside"));
        net.kernel.apply(&net.table.whole(&net.here)).await.expect("the kernel takes the base");
        net
    }

    pub fn space(&self, part: &str) -> String {
        format!("{}-{part}", self.name)
    }

    fn cable(&self, space: &str, name: &str) {
        let node = &self.name;
        ip(&format!("netns add {space}"));
        sysctl(space, TAKEN_AT_ONCE);
        ip(&format!("-n {space} link set lo up"));
        ip(&format!("-n {node} link add {name} type veth peer name eth0 netns {space}"));
        ip(&format!("-n {node} link set {name} up"));
        ip(&format!("-n {space} link set eth0 up"));
    }

    /// Puts a Service in place of one of the same name.
    pub async fn put(&mut self, name: &str, spec: Value, status: Value, endpoints: &[(u8, u16)]) {
        let service: Service = serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": name}, "spec": spec, "status": status}))
        .unwrap();
        let families = spec["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let slices: Vec<_> = families
            .flat_map(|address| {
                let is_v6 = address.contains(':');
                endpoints.iter().map(move |(pod, port)| (is_v6, *pod, *port))
            })
            .map(|(is_v6, pod, port)| slice(is_v6, pod, port, &spec["ports"][0]))
            .collect();
        let mut touched = Touched::default();
        self.table.put(&Key::new("shop", name), plan(&service, &slices, &self.here), &mut touched);
        let script = self.table.script(&self.here, &touched);
        self.kernel.apply(&script).await.unwrap_or_else(|error| panic!("{error}\n{script}"));
        let stale = self.table.stale(&touched);
        within(&self.name, move || forget(&stale).expect("flows can be forgotten"));
    }

    pub async fn remove(&mut self, name: &str) {
        let mut touched = Touched::default();
        self.table.put(&Key::new("shop", name), Fragment::default(), &mut touched);
        let script = self.table.script(&self.here, &touched);
        self.kernel.apply(&script).await.unwrap_or_else(|error| panic!("{error}\n{script}"));
    }

    pub fn rules(&self) -> String {
        let output = Command::new("ip").args(["netns", "exec", &self.name, "nft", "list", "ruleset"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Lets a Pod answer every connection with its number and the address of the client as the Pod sees it.
    pub fn serve(&self, pod: u8, port: u16) {
        let space = self.space(&pod.to_string());
        let tcp = within(&space, move || TcpListener::bind(("::", port)).expect("the port is free"));
        let udp = within(&space, move || UdpSocket::bind(("::", port)).expect("the port is free"));
        std::thread::spawn(move || {
            for stream in tcp.incoming() {
                let Ok(mut stream) = stream else { return };
                let peer = stream.peer_addr().map(|peer| peer.ip().to_canonical().to_string()).unwrap_or_default();
                let _ = stream.write_all(format!("{pod} {peer}").as_bytes());
            }
        });
        std::thread::spawn(move || {
            let mut buffer = [0; 64];
            while let Ok((_, peer)) = udp.recv_from(&mut buffer) {
                let _ = udp.send_to(format!("{pod} {}", peer.ip().to_canonical()).as_bytes(), peer);
            }
        });
    }

    /// What somebody hears who connects: `POD SEEN-ADDRESS`, or why not.
    pub fn ask(&self, from: &str, to: &str) -> String {
        self.ask_for(from, to, Duration::from_secs(2))
    }

    pub fn ask_for(&self, from: &str, to: &str, patience: Duration) -> String {
        let space = if from == "node" { self.name.clone() } else { self.space(from) };
        let to: SocketAddr = to.parse().unwrap();
        within(&space, move || {
            let stream = TcpStream::connect_timeout(&to, patience);
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

    pub fn ask_udp(&self, from: &str, to: &str) -> String {
        let to: SocketAddr = to.parse().unwrap();
        within(&self.space(from), move || {
            let any = if to.is_ipv4() { "0.0.0.0" } else { "::" };
            let socket = UdpSocket::bind((any, 0)).unwrap();
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
    pub fn tally(&self, from: &str, to: &str, times: usize) -> BTreeMap<String, usize> {
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

fn slice(is_v6: bool, pod: u8, port: u16, of: &Value) -> Arc<EndpointSlice> {
    let (family, address) = match is_v6 {
        false => ("IPv4", format!("10.244.0.{pod}")),
        true => ("IPv6", format!("fd00:244::{pod}")),
    };
    let slice = json!({"metadata": {"namespace": "shop", "name": format!("s{pod}-{family}")}, "addressType": family,
        "ports": [{"name": of["name"], "port": port, "protocol": of["protocol"]}],
        "endpoints": [{"addresses": [address], "nodeName": if pod < 100 {"here"} else {"there"},
            "conditions": {"ready": true}}]});
    Arc::new(serde_json::from_value(slice).unwrap())
}

/// Runs on a thread of its own inside a namespace; sockets that it opens stay there.
pub fn within<T: Send + 'static>(space: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let path = format!("/run/netns/{space}");
    let thread = std::thread::spawn(move || {
        let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), Some(LinkNameSpaceType::Network)).expect("root may");
        work()
    });
    thread.join().expect("the thread ends well")
}
