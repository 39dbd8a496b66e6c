//! Requests through a server to an HTTP server on loopback that stands in for a Pod.

use crate::authn::User;
use crate::body::Payload;
use crate::listener::connections::Connections;
use crate::nodes::Duplex;
use crate::nodes::network::Network;
use crate::pki::Pki;
use crate::request::{Peer, Request};
use crate::{ApiServer, Pace, Parts};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, Method, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pintle_meta::{Clock, Random};
use pintle_store::MemoryStore;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

type Content = UnsyncBoxBody<Bytes, io::Error>;

fn full(text: impl Into<Bytes>) -> Content {
    Full::new(text.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// Every address is that of the server on loopback; ports above 60000 are refused.
struct Loopback(SocketAddr);

impl Network for Loopback {
    fn connect(&self, _: String, port: u16) -> BoxFuture<'static, io::Result<Box<dyn Duplex>>> {
        let address = self.0;
        Box::pin(async move {
            if port > 60000 {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            Ok(Box::new(TcpStream::connect(address).await?) as Box<dyn Duplex>)
        })
    }
}

/// What stands in for the Pod.
async fn pod_answer(request: http::Request<Incoming>) -> Result<Response<Content>, Infallible> {
    let response = Response::builder();
    Ok(match request.uri().path() {
        "/page" => response.header("content-type", "text/html").body(full(r#"<a href="/next">n</a>"#)),
        "/moved" => response.status(302).header("location", "/elsewhere?x=1").body(full("")),
        "/broken" => {
            let (sender, receiver) = mpsc::channel(2);
            sender.try_send(Ok(http_body::Frame::data(Bytes::from_static(b"half")))).unwrap();
            // Breaks off when the client has seen the first half, which it tells by ending its own body.
            tokio::spawn(async move {
                let _ = request.into_body().collect().await;
                let _ = sender.send(Err(io::Error::other("gone"))).await;
            });
            response.body(stream(receiver))
        }
        "/echo" => response.body(request.into_body().map_err(io::Error::other).boxed_unsync()),
        "/upgrade" => {
            let reply = response.status(101).header("connection", "Upgrade").header("upgrade", "echo");
            let mut request = request;
            let upgrading = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let mut connection = TokioIo::new(upgrading.await.unwrap());
                let mut word = [0; 4];
                connection.read_exact(&mut word).await.unwrap();
                connection.write_all(&word.map(|byte| byte.to_ascii_uppercase())).await.unwrap();
            });
            reply.body(full(""))
        }
        _ => {
            let (head, body) = request.into_parts();
            let names = ["host", "x-forwarded-uri", "x-forwarded-for", "authorization", "accept", "cookie"];
            let header = |name: &str| head.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
            let headers: serde_json::Map<String, Value> =
                names.iter().filter_map(|name| Some(((*name).to_owned(), header(name)?.into()))).collect();
            let body = body.collect().await.unwrap().to_bytes();
            let seen = json!({"method": head.method.as_str(), "uri": head.uri.to_string(), "headers": headers,
                "body": String::from_utf8_lossy(&body)});
            response.header("x-pod", "yes").header("access-control-allow-origin", "*").body(full(seen.to_string()))
        }
    }
    .unwrap())
}

fn stream(mut frames: mpsc::Receiver<io::Result<http_body::Frame<Bytes>>>) -> Content {
    StreamBody::new(futures::stream::poll_fn(move |cx| frames.poll_recv(cx))).boxed_unsync()
}

async fn serve_pod(stream: impl Duplex + 'static) {
    let serving =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(pod_answer));
    // A test that breaks a connection off ends it so.
    let _ = serving.with_upgrades().await;
}

/// A server with a Pod `web`, whose address is that of an HTTP server here.
struct World {
    server: ApiServer,
}

impl World {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let world = World::without_network().await;
        world.server.set_network(Arc::new(Loopback(listener.local_addr().unwrap())));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve_pod(stream));
            }
        });
        world
    }

    async fn without_network() -> Self {
        let clock = Clock::system();
        let token_key = Pki::generate(clock.now()).unwrap().token_key;
        let store = Arc::new(MemoryStore::new());
        let parts = Parts { store, clock, random: Random::seeded(1), token_key, pace: Pace::default(), seats: 32 };
        let world = World { server: ApiServer::start(parts).await.unwrap_or_else(|error| panic!("{error}")) };
        let created = |kind: &str, path: &'static str, mut object: Value| {
            object["apiVersion"] = if path.starts_with("/api/") { "v1" } else { "discovery.k8s.io/v1" }.into();
            object["kind"] = kind.into();
            world.write(Method::POST, path, object)
        };
        created(
            "ServiceAccount",
            "/api/v1/namespaces/default/serviceaccounts",
            json!({"metadata": {"name": "default"}}),
        )
        .await;
        for name in ["web", "unready"] {
            let spec = json!({"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 8080}]}]});
            let pod = json!({"metadata": {"name": name}, "spec": spec});
            created("Pod", "/api/v1/namespaces/default/pods", pod).await;
        }
        let status = json!({"status": {"podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]}});
        world.write(Method::PATCH, "/api/v1/namespaces/default/pods/web/status", status).await;
        for (name, port) in [("web", "http"), ("bare", "http")] {
            let spec = json!({"ports": [{"name": port, "port": 80, "targetPort": 8080}]});
            let service = json!({"metadata": {"name": name}, "spec": spec});
            created("Service", "/api/v1/namespaces/default/services", service).await;
        }
        let endpoint = |address: &str, pod: &str| {
            json!({"addresses": [address], "conditions": {"ready": true},
                "targetRef": {"kind": "Pod", "namespace": "default", "name": pod}})
        };
        let slice = json!({"metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}],
            "endpoints": [endpoint("10.1.2.3", "web"), endpoint("10.9.9.9", "web"), endpoint("10.1.2.4", "gone")]});
        created("EndpointSlice", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice).await;
        world
    }

    async fn write(&self, method: Method, path: &str, object: Value) {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let headers = [(header::CONTENT_TYPE, kind.parse().unwrap())].into_iter().collect();
        let (code, _, text) = self.ask(method, path, headers, &object.to_string()).await;
        assert!(code < 300, "{code} {text}");
    }

    /// A request of this process.
    async fn ask(&self, method: Method, path: &str, headers: HeaderMap, body: &str) -> (u16, HeaderMap, String) {
        let mut request = http::Request::builder().method(method).uri(path).body(()).unwrap();
        *request.headers_mut() = headers;
        let peer = Peer::Internal(Arc::new(User::internal("admin")));
        let request = Request::new(request.into_parts().0, Bytes::from(body.to_owned()), peer);
        let (head, body) = self.server.handle(request).await.into_parts();
        let text = body.collect().await.unwrap().to_bytes();
        (head.status.as_u16(), head.headers, String::from_utf8_lossy(&text).into_owned())
    }

    async fn get(&self, path: &str) -> (u16, HeaderMap, String) {
        self.ask(Method::GET, &format!("/api/v1/namespaces/default/{path}"), HeaderMap::new(), "").await
    }

    /// What a failure says.
    async fn failure(&self, path: &str) -> (u16, String) {
        let (code, _, text) = self.get(path).await;
        let status: Value = serde_json::from_str(&text).unwrap_or_default();
        (code, status["message"].as_str().unwrap_or_default().to_owned())
    }

    /// A connection over which requests arrive piece by piece.
    async fn connect(&self) -> SendRequest<Content> {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (server, place) = (self.server.clone(), Connections::new().admit().unwrap());
        place.is_from([10, 0, 0, 99].into());
        let service = service_fn(move |mut request: http::Request<Incoming>| {
            let (server, place) = (server.clone(), place.clone());
            let upgrade = request.headers().contains_key(header::UPGRADE).then(|| hyper::upgrade::on(&mut request));
            let (head, body) = request.into_parts();
            let peer = Peer::Internal(Arc::new(User::internal("admin")));
            let request = Request::new(head, Payload::Arriving(body), peer).over(place, upgrade);
            async move { Ok::<_, Infallible>(server.handle(request).await) }
        });
        let serving = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(theirs), service);
        tokio::spawn(serving.with_upgrades());
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(ours)).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        sender
    }
}

const POD: &str = "/api/v1/namespaces/default/pods/web/proxy";

#[tokio::test]
async fn every_method_reaches_a_pod_as_it_was_sent() {
    let world = World::new().await;
    let methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    for method in methods.map(|method| method.parse::<Method>().unwrap()) {
        let given = [("authorization", "Bearer x"), ("accept", "text/html"), ("cookie", "a=b"), ("host", "api")];
        let given = given.into_iter().filter(|(name, _)| *name != "authorization" || method == Method::OPTIONS);
        let headers: HeaderMap =
            given.map(|(n, v)| (n.parse::<http::HeaderName>().unwrap(), v.parse().unwrap())).collect();
        let path = format!("{POD}/a%20b/c:d/?z=1&a=2&flag");
        let (code, headers, text) = world.ask(method.clone(), &path, headers, "content").await;
        assert_eq!(code, 200, "{method}: {text}");
        let seen: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(seen["method"], method.as_str());
        assert_eq!(seen["uri"], "/a%20b/c:d/?z=1&a=2&flag");
        assert_eq!(seen["body"], "content");
        let expected = json!({"host": "api", "accept": "text/html", "cookie": "a=b",
            "x-forwarded-uri": format!("{POD}/a%20b/c:d/")});
        assert_eq!(seen["headers"], expected, "{method}");
        assert!(headers.contains_key("x-pod") && !headers.contains_key("access-control-allow-origin"));
    }
    let (code, headers, text) = world.ask(Method::HEAD, &format!("{POD}/"), HeaderMap::new(), "").await;
    assert_eq!((code, headers.contains_key("x-pod"), text.as_str()), (200, true, ""));
}

#[tokio::test]
async fn a_body_is_answered_before_its_request_has_ended() {
    let world = World::new().await;
    let mut sender = world.connect().await;
    let (pieces, body) = mpsc::channel(1);
    let request = http::Request::post(format!("{POD}/echo")).body(stream(body)).unwrap();
    let mut answer = sender.send_request(request).await.unwrap().into_body();
    for word in ["one", "two", "three"] {
        pieces.send(Ok(http_body::Frame::data(Bytes::from(word)))).await.unwrap();
        let frame = answer.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), word, "before the next piece is sent");
    }
    drop(pieces);
    assert!(answer.frame().await.is_none());
}

#[tokio::test]
async fn an_answer_that_breaks_off_does_not_look_whole() {
    let world = World::new().await;
    let mut sender = world.connect().await;
    let (pieces, body) = mpsc::channel(1);
    let request = http::Request::post(format!("{POD}/broken")).body(stream(body)).unwrap();
    let mut answer = sender.send_request(request).await.unwrap().into_body();
    assert_eq!(answer.frame().await.unwrap().unwrap().into_data().unwrap(), "half");
    drop(pieces);
    assert!(answer.frame().await.unwrap().is_err());
}

#[tokio::test]
async fn a_connection_that_changes_its_protocol_is_handed_over() {
    let world = World::new().await;
    let mut sender = world.connect().await;
    let request =
        http::Request::get(format!("{POD}/upgrade")).header("connection", "Upgrade").header("upgrade", "echo");
    let empty = Empty::new().map_err(|never: Infallible| match never {}).boxed_unsync();
    let answer = sender.send_request(request.body(empty).unwrap()).await.unwrap();
    assert_eq!((answer.status().as_u16(), &answer.headers()["upgrade"]), (101, &"echo".parse().unwrap()));
    let mut connection = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
    connection.write_all(b"ping").await.unwrap();
    let mut word = [0; 4];
    connection.read_exact(&mut word).await.unwrap();
    assert_eq!(&word, b"PING");
    let request = http::Request::get(format!("{POD}/page")).header("connection", "Upgrade").header("upgrade", "echo");
    let answer = world.connect().await.send_request(request.body(full("")).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 500, "who does not upgrade is not passed off as if it did");
}

#[tokio::test]
async fn the_pod_learns_who_asked_and_from_where() {
    let world = World::new().await;
    let request = http::Request::get(format!("{POD}/x")).header("x-forwarded-for", "10.0.0.1").body(full("")).unwrap();
    let answer = world.connect().await.send_request(request).await.unwrap();
    let seen: Value = serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(seen["headers"]["x-forwarded-for"], "10.0.0.1, 10.0.0.99");
    assert_eq!(seen["headers"]["host"], "10.1.2.3:8080", "a client that names no host is not refused");
}

#[tokio::test]
async fn a_service_is_answered_by_one_of_its_pods() {
    let world = World::new().await;
    for id in ["web:http", "web:80", "http:web:http"] {
        for _ in 0..8 {
            let (code, _, text) = world.get(&format!("services/{id}/proxy/x")).await;
            assert_eq!(code, 200, "{id}: {text}");
        }
    }
    for (id, code, message) in [
        ("web", 503, "no endpoints available for service \"web\""),
        ("bare:http", 503, "no endpoints available for service \"bare\""),
        ("web:81", 503, "no service port 81 found for service \"web\""),
        ("none:http", 404, "services \"none\" not found"),
        ("ftp:web:21", 400, "invalid service request \"ftp:web:21\""),
    ] {
        assert_eq!(world.failure(&format!("services/{id}/proxy/")).await, (code, message.to_owned()), "{id}");
    }
}

#[tokio::test]
async fn what_cannot_be_reached_is_said_in_the_words_that_clients_know() {
    let world = World::new().await;
    for (path, code, message) in [
        ("pods/none/proxy/", 404, "pods \"none\" not found"),
        ("pods/unready/proxy/", 400, "address not allowed"),
        ("pods/web:http/proxy/", 400, "invalid pod request \"web:http\""),
        ("pods/web:65000/proxy/", 503, "error trying to reach service: dial tcp 10.1.2.3:65000: connection refused"),
        ("pods/web/proxy/a/../b", 400, "the path behind proxy must not have the part \"..\""),
        ("pods/web/proxy/%2e%2e/b", 400, "the path behind proxy must not have the part \"..\""),
        ("pods/web/proxy/a%2F..%2Fb", 400, "the path behind proxy must not have the part \"..\""),
        ("pods/web/proxy/?dryRun=All", 400, "dryRun is not supported"),
    ] {
        assert_eq!(world.failure(path).await, (code, message.to_owned()), "{path}");
    }
    let (code, message) = World::without_network().await.failure("pods/web/proxy/").await;
    assert_eq!(code, 503, "{message}");
    assert!(message.starts_with("error trying to reach service: "), "{message}");
}

#[tokio::test]
async fn links_and_redirects_lead_through_the_proxy() {
    let world = World::new().await;
    let (code, headers, _) = world.get("pods/web/proxy?a=b").await;
    assert_eq!((code, headers["location"].to_str().unwrap()), (301, &*format!("{POD}/?a=b")));
    let (code, headers, _) = world.get("pods/web/proxy/moved").await;
    assert_eq!((code, headers["location"].to_str().unwrap()), (302, &*format!("{POD}/elsewhere?x=1")));
    let (_, headers, text) = world.get("pods/web/proxy/page").await;
    assert_eq!(text, format!(r#"<a href="{POD}/next">n</a>"#));
    assert!(!headers.contains_key("content-length"));
}

#[tokio::test]
async fn a_pod_with_a_certificate_of_its_own_is_reached_over_tls() {
    let world = World::without_network().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    world.server.set_network(Arc::new(Loopback(listener.local_addr().unwrap())));
    let clock = Clock::system();
    let pki = Pki::generate(clock.now()).unwrap();
    let tls = pki.node_tls("unrelated", &["127.0.0.1".parse().unwrap()], clock.now()).unwrap();
    tokio::spawn(async move {
        let acceptor = tokio_rustls::TlsAcceptor::from(tls);
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(stream).await {
                tokio::spawn(serve_pod(stream));
            }
        }
    });
    let (code, _, text) = world.get("pods/https:web:443/proxy/x").await;
    assert_eq!(code, 200, "{text}");
}
