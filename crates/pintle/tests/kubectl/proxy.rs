//! proxy, and plain HTTP through it: the API for programs that have only a socket.

use super::Cluster;
use crate::harness::PATIENCE;
use serde_json::Value;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Child;

/// `kubectl proxy` on a port of its own.
pub struct Proxy {
    address: String,
    _child: Child,
}

impl Proxy {
    pub async fn open(cluster: &Cluster) -> Proxy {
        let mut child = cluster.command("proxy --port=0").stdout(Stdio::piped()).spawn().expect("kubectl starts");
        let mut first = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        tokio::time::timeout(PATIENCE, stdout.read_line(&mut first)).await.expect("a line in time").expect("a line");
        let address = first.trim().strip_prefix("Starting to serve on ").unwrap_or_else(|| panic!("{first}"));
        Proxy { address: address.to_owned(), _child: child }
    }

    /// One request on a connection of its own; the code and the body.
    pub async fn request(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).await.expect("the proxy listens");
        // HTTP/1.0, so that the body ends where the connection does.
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).await.expect("the proxy reads");
        let mut answer = String::new();
        tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer))
            .await
            .expect("an answer in time")
            .expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
        let code =
            head.split_whitespace().nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("{head}"));
        (code, serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned())))
    }
}

const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";

#[tokio::test]
async fn the_api_is_read_and_written_through_the_proxy() {
    let cluster = Cluster::start().await;
    let proxy = Proxy::open(&cluster).await;
    let (code, body) = proxy.request("GET", "/version", "").await;
    assert_eq!((code, body["minor"].as_str()), (200, Some("36")), "{body}");
    let object =
        r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "colours"}, "data": {"sea": "blue"}}"#;
    let (code, body) = proxy.request("POST", "/api/v1/namespaces/default/configmaps", object).await;
    assert_eq!(code, 201, "{body}");
    let (code, body) = proxy.request("GET", "/api/v1/namespaces/default/configmaps/colours", "").await;
    assert_eq!((code, body["data"]["sea"].as_str()), (200, Some("blue")), "{body}");
    let (code, body) = proxy.request("GET", "/api/v1/namespaces/default/configmaps/ghost", "").await;
    assert_eq!((code, body["reason"].as_str()), (404, Some("NotFound")), "{body}");
}

#[tokio::test]
async fn a_propagation_policy_is_heard_in_the_body() {
    let cluster = Cluster::with_web().await;
    let proxy = Proxy::open(&cluster).await;
    let options =
        |policy: &str| format!(r#"{{"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "{policy}"}}"#);
    let (code, body) = proxy.request("DELETE", WEB, &options("Orphan")).await;
    assert_eq!(code, 200, "{body}");
    cluster.ok("wait --for=delete deployment/web --timeout=60s").await;
    assert_eq!(
        cluster.ok("get replicasets,pods -o name").await.lines().count(),
        3,
        "a ReplicaSet and its two Pods remain"
    );

    cluster.make_web(2).await;
    let (code, body) = proxy.request("DELETE", WEB, &options("Foreground")).await;
    assert_eq!(code, 200, "{body}");
    assert_eq!(body["metadata"]["finalizers"][0], "foregroundDeletion", "{body}");
    cluster.ok("wait --for=delete deployment/web --timeout=60s").await;
    assert_eq!(cluster.ok("get replicasets,pods -o name").await, "");

    let (code, body) = proxy.request("DELETE", "/api/v1/namespaces/default/pods/x", &options("Sideways")).await;
    assert!(code == 422 || code == 404, "{code} {body}");
}

#[tokio::test]
async fn a_propagation_policy_is_heard_in_the_query() {
    let cluster = Cluster::with_web().await;
    let proxy = Proxy::open(&cluster).await;
    let (code, body) = proxy.request("DELETE", &format!("{WEB}?propagationPolicy=Background"), "").await;
    assert_eq!((code, body["status"].as_str()), (200, Some("Success")), "{body}");
    cluster.until("get replicasets,pods -o name", str::is_empty).await;
}

#[tokio::test]
async fn a_log_is_read_over_a_websocket() {
    let cluster = Cluster::start().await;
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "speaks",
        "annotations": {"simulated.pintle.dev/log": "container is alive"}},
        "spec": {"containers": [{"name": "main", "image": "i:1"}]}}"#;
    let proxy = Proxy::open(&cluster).await;
    let (code, body) = proxy.request("POST", "/api/v1/namespaces/default/pods", pod).await;
    assert_eq!(code, 201, "{body}");
    cluster.ok("wait --for=condition=Ready pod/speaks --timeout=60s").await;
    for (protocol, first, expected) in [
        ("binary.k8s.io", 0x82, "container is alive\n"),
        ("base64.binary.k8s.io", 0x81, "Y29udGFpbmVyIGlzIGFsaXZlCg=="),
    ] {
        let mut stream = TcpStream::connect(&proxy.address).await.expect("the proxy listens");
        let head = format!(
            "GET /api/v1/namespaces/default/pods/speaks/log?container=main HTTP/1.1\r\nHost: {}\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n",
            proxy.address
        );
        stream.write_all(head.as_bytes()).await.expect("the proxy reads");
        let reading = async {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.expect("the head of an answer"));
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            assert!(head.starts_with("HTTP/1.1 101 ") && head.to_lowercase().contains(protocol), "{head}");
            let mut content = vec![0; 2 + expected.len()];
            stream.read_exact(&mut content).await.expect("a message");
            assert_eq!((content[0], usize::from(content[1])), (first, expected.len()));
            assert_eq!(String::from_utf8_lossy(&content[2..]), expected);
            // The log has been read, and so the server closes.
            assert_eq!(stream.read_u8().await.expect("the end"), 0x88);
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("an answer in time");
    }
}
