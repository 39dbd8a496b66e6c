//! Extenders that answer, refuse, break, lie and hang, over real sockets.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::testing::{node, pod};

/// A server that gives this answer to everything, and tells what it was sent.
async fn server(answer: &'static str) -> (String, tokio::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/all", listener.local_addr().unwrap());
    let (tell, told) = tokio::sync::mpsc::channel(8);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = Vec::new();
            let mut chunk = [0; 65536];
            while let Ok(count) = socket.read(&mut chunk).await {
                request.extend_from_slice(&chunk[..count]);
                let text = String::from_utf8_lossy(&request).to_string();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let length = head
                    .lines()
                    .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
                if count == 0 || length.is_some_and(|length: usize| body.len() >= length) {
                    break;
                }
            }
            tell.send(String::from_utf8_lossy(&request).to_string()).await.unwrap();
            if answer.is_empty() {
                // It hangs.
                std::future::pending::<()>().await;
            }
            socket.write_all(answer.as_bytes()).await.unwrap();
            let _ = socket.shutdown().await;
        }
    });
    (url, told)
}

fn plain(config: Config) -> Result<Client, String> {
    Client::try_from(config).map_err(|error| error.to_string())
}

fn setup(url: &str) -> ExtenderSetup {
    ExtenderSetup {
        url: url.to_owned(),
        filter: "filter".to_owned(),
        weight: 1,
        timeout: Duration::from_millis(500),
        knows_nodes: true,
        ..ExtenderSetup::default()
    }
}

fn nodes() -> Vec<(String, Arc<Node>)> {
    ["a", "b"].map(|name| (name.to_owned(), node(name, json!({})))).to_vec()
}

async fn filtered(answer: &'static str) -> Result<Filtered, String> {
    let (url, _told) = server(answer).await;
    let extender = Extender::connect(&setup(&url), plain).await.unwrap();
    let found = extender.filter(&pod("p", json!({})).pod, &nodes()).await;
    found.map_err(|why| why.replace(url.trim_end_matches("/all"), "http://x"))
}

#[tokio::test]
async fn an_extender_is_sent_the_pod_and_the_names_of_the_nodes() {
    let (url, mut told) = server("HTTP/1.1 200 OK\r\ncontent-length: 17\r\n\r\n{\"NodeNames\":[\"b\"]}").await;
    let extender = Extender::connect(&setup(&url), plain).await.unwrap();
    // The answer says that it is shorter than it is: what is cut off is no JSON.
    assert!(extender.filter(&pod("p", json!({})).pod, &nodes()).await.is_err());
    let request = told.recv().await.unwrap();
    assert!(request.starts_with("POST /all/filter HTTP/1.1\r\n"), "{request}");
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!((&body["NodeNames"], &body["Nodes"]), (&json!(["a", "b"]), &Value::Null));
    assert_eq!((&body["Pod"]["metadata"]["name"], &body["Pod"]["kind"]), (&json!("p"), &Value::Null));
}

#[tokio::test]
async fn each_way_to_fail_has_its_words() {
    let allowed = filtered(
        "HTTP/1.1 200 OK\r\ncontent-length: 48\r\n\r\n{\"NodeNames\":[\"b\"],\"FailedNodes\":{\"a\":\"not me\"}}",
    )
    .await;
    let allowed = allowed.unwrap();
    assert_eq!((allowed.nodes, allowed.failed["a"].as_str()), (vec!["b".to_owned()], "not me"));
    for (answer, why) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 19\r\n\r\n{\"Error\":\"unwell.\"}", "unwell."),
        (
            "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n",
            "failed filter with extender at URL http://x/all/filter, code 500",
        ),
        (
            "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
            "failed filter with extender at URL http://x/all/filter, code 302",
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 19\r\n\r\n{\"NodeNames\":[\"z\"]}",
            "extender \"http://x/all\" claims a filtered node \"z\" which is not found in the input node list",
        ),
        (
            "",
            "Post \"http://x/all/filter\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
        ),
    ] {
        assert_eq!(filtered(answer).await.unwrap_err(), why, "{answer}");
    }
}

#[tokio::test]
async fn only_pods_that_ask_for_what_it_manages_concern_it() {
    let managed: BTreeSet<String> = ["example.com/a".to_owned()].into();
    let everything = Extender::connect(&setup("http://127.0.0.1:1"), plain).await.unwrap();
    let some = Extender::connect(&ExtenderSetup { managed, ..setup("http://127.0.0.1:1") }, plain).await.unwrap();
    let asking = |name: &str| pod("p", json!({"containers": [{"name": "c", "resources": {"limits": {name: "1"}}}]}));
    assert!(everything.is_for(&asking("cpu")));
    assert!(some.is_for(&asking("example.com/a")) && !some.is_for(&asking("example.com/b")));
}
