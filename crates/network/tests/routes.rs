//! Packets between machines that are namespaces: on one segment, and with a router between them that knows no Pods.
//!
//! Needs root, `ip` and `bridge` (both of iproute2) and `nft`; where they are missing the tests are reported as skipped.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use pintle_network::routes::{Route, Tunnel};
use pintle_network::{Dataplane, Kernel, Range};

use net::{can_run, ip, within};

#[expect(dead_code, reason = "each test uses a part of it")]
mod net;

/// Namespaces that go with it.
struct Spaces(Vec<String>);

impl Spaces {
    fn new(part: &str, names: &[&str]) -> Spaces {
        let spaces: Vec<String> = names.iter().map(|name| format!("prt{}-{part}-{name}", std::process::id())).collect();
        for space in &spaces {
            ip(&format!("netns add {space}"));
            ip(&format!("-n {space} link set lo up"));
        }
        Spaces(spaces)
    }

    fn cable(&self, (one, at): (usize, &str), (other, there): (usize, &str)) {
        let (a, b) = (&self.0[one], &self.0[other]);
        let (ours, theirs) = (format!("to{other}"), format!("to{one}"));
        ip(&format!("-n {a} link add {ours} type veth peer name {theirs} netns {b}"));
        for (space, device, address) in [(a, &ours, at), (b, &theirs, there)] {
            ip(&format!("-n {space} addr add {address} dev {device}"));
            ip(&format!("-n {space} link set {device} up"));
        }
    }
}

impl Drop for Spaces {
    fn drop(&mut self) {
        for space in &self.0 {
            let _ = Command::new("ip").args(["netns", "del", space]).output();
        }
    }
}

/// A machine with one Pod, whose address stands for it on loopback.
struct Machine {
    space: String,
    address: &'static str,
    range: Range,
    kernel: Kernel,
    tunnel: Tunnel,
    applied: BTreeMap<Range, Route>,
}

impl Machine {
    fn new(space: &str, address: &'static str, range: &str) -> Machine {
        let range: Range = range.parse().unwrap();
        let pod = range.nth(2).unwrap();
        ip(&format!("-n {space} addr add {pod}/32 dev lo"));
        let listener = within(space, move || TcpListener::bind((pod, 80)).expect("the port is free"));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let _ = stream.write_all(pod.to_string().as_bytes());
            }
        });
        let cluster = ["10.244.0.0/16".parse().unwrap()];
        let tunnel = Tunnel::new("pintle00c0ffee", vec![range], &cluster);
        let kernel = Kernel::in_namespace(space);
        Machine { space: space.to_owned(), address, range, kernel, tunnel, applied: BTreeMap::new() }
    }

    async fn route_to(&mut self, others: &[(Range, &str)]) {
        let mut wanted = BTreeMap::new();
        for (range, address) in others {
            let machine = address.parse().unwrap();
            let way = self.kernel.way_to(machine).await.expect("a way");
            wanted.insert(*range, Route { machine, way });
        }
        let lines = self.tunnel.lines(&self.applied, &wanted);
        self.kernel.route(&lines).await.unwrap_or_else(|error| panic!("{error}: {lines:?}"));
        self.applied = wanted;
    }

    fn ask(&self, range: &Range) -> String {
        let to = SocketAddr::new(range.nth(2).unwrap(), 80);
        within(&self.space, move || {
            let Ok(mut stream) = TcpStream::connect_timeout(&to, Duration::from_secs(3)) else {
                return "nothing".into();
            };
            let mut answer = String::new();
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            stream.read_to_string(&mut answer).map_or_else(|error| error.to_string(), |_| answer)
        })
    }
}

#[tokio::test]
async fn machines_on_one_segment_and_behind_a_router_reach_each_others_pods() {
    if !can_run() {
        return;
    }
    // a ── b on one segment; a ── router ── c.
    let spaces = Spaces::new("three", &["a", "b", "router", "c"]);
    spaces.cable((0, "192.0.2.1/24"), (1, "192.0.2.2/24"));
    spaces.cable((0, "198.51.100.1/24"), (2, "198.51.100.254/24"));
    spaces.cable((3, "203.0.113.3/24"), (2, "203.0.113.254/24"));
    let [a, b, router, c] = &spaces.0[..] else { unreachable!() };
    ip(&format!("-n {a} route add 203.0.113.0/24 via 198.51.100.254"));
    ip(&format!("-n {c} route add 198.51.100.0/24 via 203.0.113.254"));
    within(router, || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("a setting"));
    let mut a = Machine::new(a, "198.51.100.1", "10.244.0.0/24");
    let mut b = Machine::new(b, "192.0.2.2", "10.244.1.0/24");
    let mut c = Machine::new(c, "203.0.113.3", "10.244.2.0/24");
    assert_eq!(a.ask(&c.range), "nothing", "nobody knows the way yet");
    a.route_to(&[(b.range, b.address), (c.range, c.address)]).await;
    b.route_to(&[(a.range, "192.0.2.1")]).await;
    c.route_to(&[(a.range, a.address)]).await;
    assert_eq!(a.ask(&b.range), "10.244.1.2");
    assert_eq!(b.ask(&a.range), "10.244.0.2");
    assert_eq!(a.ask(&c.range), "10.244.2.2", "in an envelope, since the router knows no Pods");
    assert_eq!(c.ask(&a.range), "10.244.0.2");

    // A machine that is gone is forgotten, and nothing is left of the way to it.
    a.route_to(&[(b.range, b.address)]).await;
    assert_eq!(a.ask(&b.range), "10.244.1.2");
    let links = Command::new("ip").args(["-n", &a.space, "-o", "link"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&links.stdout).contains("pvx"), "no envelopes, no device");
    assert_eq!(a.kernel.routes(187).await, [b.range]);
    a.route_to(&[]).await;
    assert!(a.kernel.routes(187).await.is_empty());
}
