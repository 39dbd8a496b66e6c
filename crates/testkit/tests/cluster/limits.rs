//! What one request can cost: labels, timers and tables do not grow with what a client makes up or asks for at once.

use pintle_apiserver::authn::User;
use pintle_apiserver::request::{Peer, Request};
use pintle_testkit::Cluster;
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn paths_that_somebody_made_up_do_not_fill_the_metrics() {
    let cluster = Cluster::bare().await;
    for number in 0..200 {
        let path = format!("/apis/made-up-{number}.example.com/v1/namespaces/x/made-up-{number}/y");
        assert_eq!(cluster.request_as(Peer::Unknown, &[], "GET", &path, "", "").await.code, 403);
        let path = format!("/api/v1/made-up-{number}?watch=1");
        assert_eq!(cluster.request("GET", &path, "", "").await.code, 404);
    }
    cluster.request("GET", "/api/v1/pods", "", "").await;
    let metrics = cluster.request("GET", "/metrics", "", "").await;
    let text = metrics.body.as_str().unwrap();
    assert!(text.contains("resource=\"pods\""), "{text}");
    assert!(!text.contains("made-up"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_to_last_for_ever_begins() {
    let cluster = Cluster::bare().await;
    for seconds in [i64::MAX.to_string(), (u64::MAX / 1000).to_string(), "99999999999".to_owned()] {
        let path = format!("/api/v1/pods?watch=1&timeoutSeconds={seconds}");
        let (mut head, ()) = http::Request::new(()).into_parts();
        head.uri = path.parse().unwrap();
        let peer = Peer::Internal(User::internal("kubernetes-admin").into());
        let answer = cluster.server.handle(Request::new(head, bytes::Bytes::new(), peer)).await;
        // The last one is more than a signed number holds.
        let expected = if seconds.parse::<i64>().is_ok() { 200 } else { 400 };
        assert_eq!(answer.status(), expected, "{seconds}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_table_comes_piece_by_piece_and_says_the_same() {
    use http_body_util::BodyExt;
    let cluster = Cluster::bare().await;
    let filler = "x".repeat(1000);
    for number in 0..300 {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{number:03}"), "namespace": "default",
            "annotations": {"filler": filler}}, "data": {"k": "v"}});
        cluster.create(object).await.unwrap();
    }
    let (mut head, ()) = http::Request::new(()).into_parts();
    head.uri = "/api/v1/namespaces/default/configmaps".parse().unwrap();
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    head.headers.insert("accept", table.parse().unwrap());
    let peer = Peer::Internal(User::internal("kubernetes-admin").into());
    let answer = cluster.server.handle(Request::new(head, bytes::Bytes::new(), peer)).await;
    let (mut body, mut pieces, mut whole) = (answer.into_body(), 0, Vec::new());
    while let Some(Ok(frame)) = body.frame().await {
        let data = frame.into_data().unwrap();
        assert!(data.len() < 256 * 1024, "a piece of {} bytes", data.len());
        pieces += 1;
        whole.extend_from_slice(&data);
    }
    assert!(pieces > 1, "it came in one piece");
    let table: Value = serde_json::from_slice(&whole).unwrap();
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(table["columnDefinitions"][0]["name"], "Name");
    let rows = table["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 300);
    assert_eq!((&rows[7]["cells"][0], &rows[7]["cells"][1]), (&json!("c007"), &json!(1)));
    assert_eq!(rows[7]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(rows[7]["object"]["metadata"]["name"], "c007");
}
