//! What Services, policies and names cost: `cargo bench -p pintle-network`, as root.
//!
//! Everything happens in network namespaces that it makes and takes away again. Ratios are to be believed before figures: one
//! machine differs from another, and from itself an hour later.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hickory_proto::op::{Message, Query};
use hickory_proto::rr::{Name, RecordType};
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use pintle_network::Dataplane;
use pintle_network::dns::zone::{Entry, Zone};
use pintle_network::dns::{Domain, Forwarder, Server};
use pintle_network::policies::{self, Member, Policy};
use pintle_network::services::{Here, Table, Touched, plan};
use pintle_runtime::{Key, Random, Shutdown};
use serde_json::json;
use tokio::net::UdpSocket;
use tokio::time::Instant;

use net::{Net, within};

#[expect(dead_code, reason = "the tests need more of it")]
#[path = "../tests/net/mod.rs"]
mod net;

const SERVICES: usize = 10_000;
const ENDPOINTS: usize = 10;
const CHANGES: usize = 50;
/// Each namespace has as many Pods, one of them on this node, and ten policies that isolate them all.
const NAMESPACES: usize = 100;
const PODS_OF_NAMESPACE: usize = 100;
const POLICIES_OF_NAMESPACE: usize = 10;
const PHASE: Duration = Duration::from_secs(2);
const ROUNDS: usize = 3;
/// Questions under way at once, and clients that ask.
const ASKING: usize = 16;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(rules());
    runtime.block_on(isolation());
    runtime.block_on(connections());
    names();
}

fn service(number: usize) -> Service {
    let address = format!("10.{}.{}.{}", 96 + (number >> 16), (number >> 8) & 255, number & 255);
    serde_json::from_value(json!({"metadata": {"namespace": "bench", "name": format!("s{number}")},
        "spec": {"clusterIP": address, "clusterIPs": [address], "ports": [{"name": "http", "port": 80}]}}))
    .expect("a Service")
}

/// The endpoints of a Service; of the one that changes, the last has another port each time.
fn slice(number: usize, change: usize) -> Arc<EndpointSlice> {
    let address = |index: usize| {
        let all = number * ENDPOINTS + index;
        format!("10.{}.{}.{}", 128 + (all >> 16), (all >> 8) & 255, all & 255)
    };
    let count = ENDPOINTS - change % 2;
    let endpoints: Vec<_> =
        (0..count).map(|index| json!({"addresses": [address(index)], "nodeName": "there"})).collect();
    let slice = json!({"metadata": {"namespace": "bench"}, "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}], "endpoints": endpoints});
    Arc::new(serde_json::from_value(slice).expect("a slice"))
}

fn put(table: &mut Table, here: &Here, number: usize, change: usize) -> Touched {
    let mut touched = Touched::default();
    let fragment = plan(&service(number), &[slice(number, change)], here);
    table.put(&Key::new("bench", format!("s{number}")), fragment, &mut touched);
    touched
}

async fn rules() {
    let net = Net::new(&[]).await;
    let mut table = Table::default();
    let began = Instant::now();
    for number in 0..SERVICES {
        put(&mut table, &net.here, number, 0);
    }
    let planned = began.elapsed();
    let script = table.whole(&net.here);
    net.kernel.apply(&script).await.expect("the kernel takes all of it");
    println!(
        "{SERVICES} Services with {} endpoints: {:.2} s until the kernel has them, of which {:.2} s to plan; {} kB of text",
        SERVICES * ENDPOINTS,
        began.elapsed().as_secs_f64(),
        planned.as_secs_f64(),
        script.len() / 1000
    );
    let mut times = Vec::new();
    for change in 1..=CHANGES {
        let began = Instant::now();
        let touched = put(&mut table, &net.here, SERVICES / 2, change);
        net.kernel.apply(&table.script(&net.here, &touched)).await.expect("the kernel takes the change");
        times.push(began.elapsed());
    }
    println!("one endpoint more or less: {}", spread(&mut times));
}

/// A Pod of a namespace; its labels say to which of the policies' peers it belongs.
fn pod(namespace: usize, number: usize, is_here: bool) -> (Key, Option<Member>) {
    let all = namespace * PODS_OF_NAMESPACE + number;
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"labels": {"app": format!("a{}", number % POLICIES_OF_NAMESPACE)}},
        "spec": {"nodeName": if is_here { "here" } else { "there" }, "containers": []},
        "status": {"phase": "Running", "podIPs": [{"ip": format!("10.{}.{}.{}", 128 + (all >> 16), (all >> 8) & 255, all & 255)}]}}))
    .expect("a Pod");
    (Key::new(format!("n{namespace}"), format!("p{number}")), Member::of(&pod, "here"))
}

fn policy(namespace: usize, number: usize) -> (Key, Policy) {
    let (namespace, name) = (format!("n{namespace}"), format!("p{number}"));
    let policy: NetworkPolicy = serde_json::from_value(json!({"metadata": {"namespace": namespace, "name": name},
        "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80 + number}],
            "from": [{"podSelector": {"matchLabels": {"app": format!("a{number}")}}}]}]}}))
    .expect("a policy");
    (Key::new(&namespace, &name), Policy::of(&policy))
}

async fn isolation() {
    let net = Net::new(&[]).await;
    let mut table = policies::Table::default();
    let began = Instant::now();
    let mut touched = policies::Touched::default();
    for namespace in 0..NAMESPACES {
        for number in 0..PODS_OF_NAMESPACE {
            let (key, member) = pod(namespace, number, number == 0);
            table.put_pod(&key, member, &mut touched);
        }
        for number in 0..POLICIES_OF_NAMESPACE {
            let (key, policy) = policy(namespace, number);
            table.put_policy(&key, Some(policy));
        }
    }
    table.settle(&mut touched);
    let planned = began.elapsed();
    let scripts = table.whole(&net.here);
    for script in &scripts {
        net.kernel.apply(script).await.expect("the kernel takes all of it");
    }
    println!(
        "{} policies and {} Pods: {:.2} s until the kernel has them, of which {:.2} s to plan; {} kB of text",
        NAMESPACES * POLICIES_OF_NAMESPACE,
        NAMESPACES * PODS_OF_NAMESPACE,
        began.elapsed().as_secs_f64(),
        planned.as_secs_f64(),
        scripts.iter().map(String::len).sum::<usize>() / 1000
    );
    for is_here in [false, true] {
        let mut times = Vec::new();
        for change in 0..CHANGES {
            let began = Instant::now();
            let mut touched = policies::Touched::default();
            let (key, member) = pod(NAMESPACES / 2, NAMESPACES * PODS_OF_NAMESPACE + change, is_here);
            table.put_pod(&key, member, &mut touched);
            table.settle(&mut touched);
            for script in table.steps(&net.here, &touched) {
                net.kernel.apply(&script).await.expect("the kernel takes the change");
            }
            times.push(began.elapsed());
        }
        let place = if is_here { "on this node" } else { "elsewhere" };
        println!("one Pod more {place}: {}", spread(&mut times));
    }
}

/// How many connections a second a Pod makes to another, directly and through a Service.
async fn connections() {
    let mut net = Net::new(&[1, 2]).await;
    let listener = within(&net.space("1"), || TcpListener::bind(("0.0.0.0", 8080)).expect("the port is free"));
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let spec = json!({"clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5"],
        "ports": [{"name": "web", "port": 80, "protocol": "TCP"}]});
    net.put("web", spec, json!({}), &[(1, 8080)]).await;
    let rate = |to: SocketAddr| {
        within(&net.space("2"), move || {
            let (began, mut count) = (Instant::now(), 0u32);
            while began.elapsed() < PHASE {
                // The other side closes, so that ports are free again here.
                let mut stream = TcpStream::connect(to).expect("somebody listens");
                let _ = std::io::Read::read(&mut stream, &mut [0]);
                count += 1;
            }
            f64::from(count) / began.elapsed().as_secs_f64()
        })
    };
    for _ in 0..ROUNDS {
        let (direct, through) = (rate(([10, 244, 0, 1], 8080).into()), rate(([10, 96, 0, 5], 80).into()));
        println!(
            "connections a second: {direct:.0} directly, {through:.0} through a Service ({:.0} %)",
            through / direct * 100.0
        );
    }
}

/// The server has one thread; those who ask have another.
fn names() {
    let (_stop, shutdown) = Shutdown::new();
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let domain = Domain::new("cluster.local", None).expect("a domain");
            let server = Arc::new(Server::new(domain, Forwarder::new(Vec::new(), Random::seeded(1))));
            let mut zone = Zone::default();
            for number in 0..SERVICES {
                zone.put(&Key::new("bench", format!("s{number}")), Entry::of(&service(number), &[]));
            }
            server.know(zone);
            let at = server.listen((Ipv4Addr::LOCALHOST, 0).into(), shutdown.clone()).await.expect("it listens");
            tell.send(at).expect("somebody waits");
            shutdown.fired().await;
        });
    });
    let at = told.recv().expect("an address");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for _ in 0..ROUNDS {
        runtime.block_on(ask(at));
    }
}

async fn ask(at: SocketAddr) {
    let answered = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let clients: Vec<_> = (0..ASKING)
        .map(|client| {
            let answered = answered.clone();
            tokio::spawn(async move {
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a socket");
                socket.connect(at).await.expect("a way");
                let (mut times, mut buffer) = (Vec::new(), [0; 512]);
                while began.elapsed() < PHASE {
                    let mut request = Message::query();
                    let number = (client * 617 + times.len()) % SERVICES;
                    let name = Name::from_ascii(format!("s{number}.bench.svc.cluster.local.")).expect("a name");
                    request.add_query(Query::query(name, RecordType::A));
                    let bytes = request.to_vec().expect("a message");
                    let asked = Instant::now();
                    socket.send(&bytes).await.expect("it is sent");
                    let length = socket.recv(&mut buffer).await.expect("an answer");
                    times.push(asked.elapsed());
                    assert!(length > bytes.len(), "an address is in it");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for client in clients {
        times.extend(client.await.expect("it ends well"));
    }
    let rate = answered.load(Ordering::Relaxed) as f64 / PHASE.as_secs_f64();
    println!("names: {rate:.0} questions a second on one thread, {}", spread(&mut times));
}

fn spread(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1000.0;
    format!("p50 {:.2} ms, p99 {:.2} ms, at most {:.2} ms", at(50), at(99), at(100))
}
