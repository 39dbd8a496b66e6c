//! Reading state: snapshots in chunks, changes in order, and nothing in between lost.

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use pintle_testkit::{Cluster, Pace};
use serde_json::json;
use std::time::Duration;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn with_maps(count: usize) -> (Cluster, Api<ConfigMap>) {
    // A server's own pace: the kit's is slower.
    let builder = Cluster::builder().loops(&[]).nodes(0).scheduler(false).pace(Pace::default());
    let cluster = builder.start().await;
    for i in 0..count {
        let parity = if i % 2 == 0 { "even" } else { "odd" };
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{i:03}"), "namespace": "default", "labels": {"parity": parity}}});
        cluster.create(map).await.unwrap();
    }
    let api = cluster.api("default");
    (cluster, api)
}

#[tokio::test(start_paused = true)]
async fn a_list_in_chunks_is_one_snapshot_whatever_is_written_meanwhile() {
    let (cluster, api) = with_maps(25).await;
    let mut names = Vec::new();
    let mut parameters = ListParams::default().limit(10);
    let first = api.list(&parameters).await.unwrap();
    assert_eq!(first.metadata.remaining_item_count, Some(15));
    let version = first.metadata.resource_version.clone();
    let mut page = first;
    loop {
        names.extend(page.items.iter().map(ResourceExt::name_any));
        api.delete("m024", &Default::default()).await.ok();
        cluster.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "m0", "namespace": "default"}})).await.unwrap();
        let Some(token) = page.metadata.continue_.filter(|t| !t.is_empty()) else { break };
        parameters = ListParams::default().limit(10).continue_token(&token);
        page = api.list(&parameters).await.unwrap();
        assert_eq!(page.metadata.resource_version, version, "every chunk is of the same moment");
    }
    let expected: Vec<String> = (0..25).map(|i| format!("m{i:03}")).collect();
    assert_eq!(names, expected);
}

#[tokio::test(start_paused = true)]
async fn selectors_choose_in_lists_whole_and_chunked() {
    let (_cluster, api) = with_maps(25).await;
    let odd = ListParams::default().labels("parity=odd");
    assert_eq!(api.list(&odd).await.unwrap().items.len(), 12);
    let page = api.list(&odd.clone().limit(5)).await.unwrap();
    assert_eq!(page.items.len(), 5);
    let rest = api.list(&odd.limit(50).continue_token(&page.metadata.continue_.unwrap())).await.unwrap();
    assert_eq!(rest.items.len(), 7);
    assert_eq!(api.list(&ListParams::default().fields("metadata.name=m003")).await.unwrap().items.len(), 1);
    assert_eq!(api.list(&ListParams::default().fields("metadata.name!=m003")).await.unwrap().items.len(), 24);
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_every_change_in_order_from_where_it_is_told_to_start() {
    let (_cluster, api) = with_maps(2).await;
    let version = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    api.create(&PostParams::default(), &serde_json::from_value(json!({"metadata": {"name": "new"}})).unwrap())
        .await
        .unwrap();
    api.patch("new", &PatchParams::default(), &Patch::Merge(json!({"data": {"a": "b"}}))).await.unwrap();
    api.delete("new", &Default::default()).await.unwrap();
    let events = api.watch(&WatchParams::default(), &version).await.unwrap();
    let seen: Vec<(&str, String)> = events
        .take(3)
        .map(|event| match event.unwrap() {
            WatchEvent::Added(o) => ("added", o.name_any()),
            WatchEvent::Modified(o) => ("modified", o.name_any()),
            WatchEvent::Deleted(o) => ("deleted", o.name_any()),
            other => panic!("{other:?}"),
        })
        .collect()
        .await;
    assert_eq!(seen, [("added", "new".into()), ("modified", "new".into()), ("deleted", "new".into())]);
}

#[tokio::test(start_paused = true)]
async fn to_a_selective_watcher_coming_into_view_is_an_addition_and_leaving_a_deletion() {
    let (_cluster, api) = with_maps(1).await;
    let version = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let label = |value: &str| Patch::Merge(json!({"metadata": {"labels": {"parity": value}}}));
    api.patch("m000", &PatchParams::default(), &label("odd")).await.unwrap();
    api.patch("m000", &PatchParams::default(), &label("even")).await.unwrap();
    let events = api.watch(&WatchParams::default().labels("parity=odd"), &version).await.unwrap();
    let seen: Vec<&str> = events
        .take(2)
        .map(|event| match event.unwrap() {
            WatchEvent::Added(_) => "added",
            WatchEvent::Deleted(_) => "deleted",
            _ => "other",
        })
        .collect()
        .await;
    assert_eq!(seen, ["added", "deleted"]);
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_gets_bookmarks_and_ends_at_its_timeout() {
    let (cluster, api) = with_maps(1).await;
    let version = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    cluster.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})).await.unwrap();
    let started = tokio::time::Instant::now();
    let mut events = api.watch(&WatchParams::default().timeout(90), &version).await.unwrap().boxed();
    match events.next().await.unwrap().unwrap() {
        WatchEvent::Bookmark(mark) => {
            assert!(mark.metadata.resource_version.parse::<u64>().unwrap() > version.parse().unwrap())
        }
        other => panic!("{other:?}"),
    }
    assert!(events.next().await.is_none());
    assert_eq!(started.elapsed().as_secs(), 90);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_before_what_is_kept_is_told_to_start_anew() {
    let (cluster, api) = with_maps(3).await;
    let version = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    cluster.advance(Duration::from_secs(301)).await;
    api.delete("m000", &Default::default()).await.unwrap();
    cluster.advance(Duration::from_secs(700)).await;
    let mut events = api.watch(&WatchParams::default(), "3").await.unwrap().boxed();
    match events.next().await.unwrap() {
        Ok(WatchEvent::Error(error)) => assert_eq!((error.code, error.reason.as_str()), (410, "Expired"), "{version}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_ends_with_a_mark_and_goes_on_as_a_watch() {
    let (cluster, _) = with_maps(3).await;
    let path = format!(
        "{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
    );
    let answer = cluster.request("GET", &path, "", "").await;
    let text = answer.body.as_str().unwrap_or_default().to_owned();
    let lines: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.iter().filter(|l| l["type"] == "ADDED").count(), 3);
    assert_eq!(lines[3]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_answers_as_if_and_changes_nothing() {
    let (cluster, api) = with_maps(1).await;
    let body = json!({"metadata": {"name": "ghost"}}).to_string();
    assert_eq!(cluster.request("POST", &format!("{MAPS}?dryRun=All"), "application/json", body).await.code, 201);
    assert!(api.get_opt("ghost").await.unwrap().is_none());
    assert_eq!(cluster.request("DELETE", &format!("{MAPS}/m000?dryRun=All"), "", "").await.code, 200);
    assert!(api.get_opt("m000").await.unwrap().is_some());
    let patch = json!({"data": {"a": "b"}}).to_string();
    let patched =
        cluster.request("PATCH", &format!("{MAPS}/m000?dryRun=All"), "application/merge-patch+json", patch).await;
    assert_eq!(patched.body["data"]["a"], "b");
    assert!(api.get("m000").await.unwrap().data.is_none());
}

#[tokio::test(start_paused = true)]
async fn events_are_gone_after_an_hour() {
    let cluster = Cluster::bare().await;
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "said", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "x"}, "reason": "Test", "message": "hello", "type": "Normal"});
    cluster.create(event).await.unwrap();
    let path = "/api/v1/namespaces/default/events/said";
    cluster.advance(Duration::from_secs(3500)).await;
    assert_eq!(cluster.request("GET", path, "", "").await.code, 200);
    cluster.advance(Duration::from_secs(200)).await;
    assert_eq!(cluster.request("GET", path, "", "").await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_long_list_arrives_whole_though_it_is_sent_in_pieces() {
    let cluster = Cluster::bare().await;
    let filler = "x".repeat(4000);
    for i in 0..200 {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{i:03}"), "namespace": "default"}, "data": {"f": filler}});
        cluster.create(map).await.unwrap();
    }
    let answer = cluster.request("GET", MAPS, "", "").await;
    let items = answer.body["items"].as_array().expect("one JSON text");
    assert_eq!(items.len(), 200);
    assert!(items.iter().all(|i| i["data"]["f"] == filler.as_str() && i.get("kind").is_none()));
    assert_eq!(answer.body["kind"], "ConfigMapList");
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_metadata_alone_gets_exactly_that() {
    let (cluster, api) = with_maps(2).await;
    let whole = serde_json::to_value(api.get("m001").await.unwrap().metadata).unwrap();
    let bare = api.get_metadata("m001").await.unwrap();
    assert_eq!(serde_json::to_value(&bare.metadata).unwrap(), whole);
    let mut watch = api.watch_metadata(&WatchParams::default().timeout(1), "0").await.unwrap().boxed();
    match watch.next().await.unwrap().unwrap() {
        WatchEvent::Added(first) => assert_eq!(first.metadata.name.as_deref(), Some("m000")),
        other => panic!("{other:?}"),
    }
    let answer = cluster.request("GET", &format!("{MAPS}/m001"), "", "").await;
    assert_eq!(answer.body["kind"], "ConfigMap");
}
