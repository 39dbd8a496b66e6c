//! The name server over real sockets on loopback, and one that stands in for the machine's own.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hickory_proto::op::{Edns, Message, Query, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{Name, RData, Record, RecordType};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use pintle_network::dns::zone::{Entry, Zone};
use pintle_network::dns::{Domain, Forwarder, Server};
use pintle_runtime::{Key, Random, Shutdown, Trigger};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A server whose headless Service `many` has so many endpoints that they fit into no datagram.
async fn start(others: Vec<SocketAddr>) -> (SocketAddr, Trigger) {
    let (stop, shutdown) = Shutdown::new();
    let domain = Domain::new("cluster.local", None).expect("a domain");
    let server = Arc::new(Server::new(domain, Forwarder::new(others, Random::seeded(1))));
    let service =
        |spec: serde_json::Value| -> Service { serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap() };
    let slice: EndpointSlice = serde_json::from_value(json!({"metadata": {}, "addressType": "IPv4", "endpoints":
        (0..100).map(|last| json!({"addresses": [format!("10.244.0.{last}")]})).collect::<Vec<_>>()}))
    .unwrap();
    let away = service(json!({"type": "ExternalName", "externalName": "a.example"}));
    let mut zone = Zone::default();
    let mut put = |name: &str, entry: Option<Entry>| zone.put(&Key::new("shop", name), entry);
    put("web", Entry::of(&service(json!({"clusterIP": "10.96.0.5"})), &[]));
    put("many", Entry::of(&service(json!({"clusterIP": "None"})), &[Arc::new(slice)]));
    put("away", Entry::of(&away, &[]));
    let early = server.listen(ANY_PORT, shutdown.clone()).await.expect("it listens");
    let told = ask(early, &question("web.shop.svc.cluster.local.", None)).await.metadata.response_code;
    assert_eq!(told, ResponseCode::ServFail, "a name that is not known yet is not denied");
    server.know(zone);
    let at = server.listen(ANY_PORT, shutdown).await.expect("it listens");
    (at, stop)
}

/// Answers every question with the same address, in a datagram or only over a connection, and counts.
async fn stand_in(only_by_connection: bool) -> (SocketAddr, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let listener = TcpListener::bind(ANY_PORT).await.unwrap();
    let at = listener.local_addr().unwrap();
    let socket = UdpSocket::bind(at).await.unwrap();
    let answer = |bytes: &[u8]| {
        let request = Message::from_vec(bytes).unwrap();
        let mut message = Message::response(request.metadata.id, request.metadata.op_code);
        let name = request.queries[0].name().clone();
        message.add_queries(request.queries);
        if name.to_ascii().starts_with("nobody") {
            message.metadata.response_code = ResponseCode::NXDomain;
            return message;
        }
        message.add_answer(Record::from_rdata(name, 60, RData::A(A(Ipv4Addr::new(192, 0, 2, 7)))));
        message
    };
    let counted = asked.clone();
    tokio::spawn(async move {
        let mut buffer = [0; 2000];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            counted.fetch_add(1, Ordering::Relaxed);
            let mut message = answer(&buffer[..length]);
            if only_by_connection {
                message.answers.clear();
                message.metadata.truncation = true;
            }
            // One of a liar comes first.
            let mut lie = message.clone();
            lie.metadata.id ^= 1;
            socket.send_to(&lie.to_vec().unwrap(), from).await.unwrap();
            socket.send_to(&message.to_vec().unwrap(), from).await.unwrap();
        }
    });
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let length = stream.read_u16().await.unwrap();
            let mut buffer = vec![0; usize::from(length)];
            stream.read_exact(&mut buffer).await.unwrap();
            let bytes = answer(&buffer).to_vec().unwrap();
            stream.write_u16(u16::try_from(bytes.len()).unwrap()).await.unwrap();
            stream.write_all(&bytes).await.unwrap();
        }
    });
    (at, asked)
}

fn question(name: &str, payload: Option<u16>) -> Message {
    let mut request = Message::query();
    request.metadata.recursion_desired = true;
    request.add_query(Query::query(Name::from_ascii(name).unwrap(), RecordType::A));
    if let Some(payload) = payload {
        let mut edns = Edns::new();
        edns.set_max_payload(payload);
        request.set_edns(edns);
    }
    request
}

async fn ask(at: SocketAddr, request: &Message) -> Message {
    let socket = UdpSocket::bind(ANY_PORT).await.unwrap();
    socket.send_to(&request.to_vec().unwrap(), at).await.unwrap();
    let mut buffer = [0; 65535];
    let heard = tokio::time::timeout(Duration::from_secs(20), socket.recv(&mut buffer)).await.expect("an answer");
    let message = Message::from_vec(&buffer[..heard.unwrap()]).unwrap();
    assert_eq!(message.metadata.id, request.metadata.id);
    message
}

async fn ask_by_connection(at: SocketAddr, request: &Message) -> Message {
    let mut stream = TcpStream::connect(at).await.unwrap();
    let bytes = request.to_vec().unwrap();
    stream.write_u16(u16::try_from(bytes.len()).unwrap()).await.unwrap();
    stream.write_all(&bytes).await.unwrap();
    let length = stream.read_u16().await.unwrap();
    let mut buffer = vec![0; usize::from(length)];
    stream.read_exact(&mut buffer).await.unwrap();
    Message::from_vec(&buffer).unwrap()
}

fn told(message: &Message) -> Vec<String> {
    message.answers.iter().map(|record| record.data.to_string()).collect()
}

#[tokio::test]
async fn an_answer_that_is_too_large_for_a_datagram_comes_over_a_connection() {
    let (at, _stop) = start(Vec::new()).await;
    assert_eq!(told(&ask(at, &question("web.shop.svc.cluster.local.", None)).await), ["10.96.0.5"]);
    let many = question("many.shop.svc.cluster.local.", None);
    let short = ask(at, &many).await;
    assert!(short.metadata.truncation && short.answers.is_empty());
    assert_eq!(ask_by_connection(at, &many).await.answers.len(), 100);
}

#[tokio::test]
async fn names_of_others_are_asked_for_once_in_a_while() {
    let (other, asked) = stand_in(false).await;
    let (at, _stop) = start(vec![other]).await;
    for _ in 0..3 {
        let message = ask(at, &question("a.example.", Some(4096))).await;
        assert_eq!(told(&message), ["192.0.2.7"]);
        assert!(message.edns.is_some() && !message.metadata.authoritative);
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1, "it is kept");
    assert_eq!(ask(at, &question("nobody.example.", None)).await.metadata.response_code, ResponseCode::NXDomain);
    assert_eq!(told(&ask(at, &question("away.shop.svc.cluster.local.", None)).await), ["a.example.", "192.0.2.7"]);
}

#[tokio::test]
async fn an_answer_of_others_that_fits_into_no_datagram_is_fetched() {
    let (other, _) = stand_in(true).await;
    let (at, _stop) = start(vec![other]).await;
    assert_eq!(told(&ask(at, &question("a.example.", None)).await), ["192.0.2.7"]);
}

#[tokio::test]
async fn whoever_asks_for_a_name_that_nobody_knows_is_told_so() {
    // Nobody listens there, and the second one answers.
    let closed = UdpSocket::bind(ANY_PORT).await.unwrap().local_addr().unwrap();
    let (at, _stop) = start(vec![closed]).await;
    assert_eq!(ask(at, &question("a.example.", None)).await.metadata.response_code, ResponseCode::ServFail);
    let (other, _) = stand_in(false).await;
    let (at, _stop) = start(vec![closed, other]).await;
    assert_eq!(told(&ask(at, &question("a.example.", None)).await), ["192.0.2.7"]);
}

#[tokio::test]
async fn noise_does_not_keep_it_from_answering() {
    let (at, _stop) = start(Vec::new()).await;
    let socket = UdpSocket::bind(ANY_PORT).await.unwrap();
    for length in [0, 1, 11, 12, 13, 600] {
        socket.send_to(&vec![0xff; length], at).await.unwrap();
    }
    let mut stream = TcpStream::connect(at).await.unwrap();
    stream.write_all(&[0, 3, 1, 2, 3]).await.unwrap();
    assert_eq!(stream.read(&mut [0; 10]).await.unwrap_or(0), 0, "it hangs up");
    assert_eq!(told(&ask(at, &question("web.shop.svc.cluster.local.", None)).await), ["10.96.0.5"]);
}

/// What is heard at a path of the page about a server.
async fn page(at: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(at).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).await.unwrap();
    heard
}

#[tokio::test]
async fn dashboards_made_for_coredns_show_this_server() {
    let (other, _) = stand_in(false).await;
    let (_stop, shutdown) = Shutdown::new();
    let domain = Domain::new("cluster.local", None).expect("a domain");
    let server = Arc::new(Server::new(domain, Forwarder::new(vec![other], Random::seeded(1))));
    let at = server.listen(ANY_PORT, shutdown.clone()).await.unwrap();
    let metrics = server.serve_metrics(ANY_PORT, shutdown).await.unwrap();
    assert!(page(metrics, "/ready").await.starts_with("HTTP/1.1 503 "), "not all names are known");
    assert!(page(metrics, "/health").await.starts_with("HTTP/1.1 200 "));
    server.know(Zone::default());
    assert!(page(metrics, "/ready").await.starts_with("HTTP/1.1 200 "));
    assert!(page(metrics, "/").await.starts_with("HTTP/1.1 404 "));
    ask(at, &question("web.shop.svc.cluster.local.", None)).await;
    ask(at, &question("a.example.", None)).await;
    ask(at, &question("a.example.", None)).await;
    let shown = page(metrics, "/metrics").await;
    for line in [
        r#"coredns_dns_requests_total{server="dns://:53",zone="cluster.local.",view="",proto="udp",family="1",type="A"} 1"#,
        r#"coredns_dns_requests_total{server="dns://:53",zone=".",view="",proto="udp",family="1",type="A"} 2"#,
        r#"coredns_dns_responses_total{server="dns://:53",zone="cluster.local.",view="",rcode="NXDOMAIN"} 1"#,
        r#"coredns_dns_responses_total{server="dns://:53",zone=".",view="",rcode="NOERROR"} 2"#,
        r#"coredns_dns_request_duration_seconds_count{server="dns://:53",zone=".",view=""} 2"#,
        r#"coredns_cache_hits_total{server="dns://:53",type="success",zones=".",view=""} 1"#,
        r#"coredns_cache_misses_total{server="dns://:53",zones=".",view=""} 1"#,
    ] {
        assert!(shown.lines().any(|one| one == line), "{line} is not in\n{shown}");
    }
}
