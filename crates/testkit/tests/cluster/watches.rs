//! Watches that share their work: who is woken, who is cut off, and what is left when they are gone.

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use pintle_testkit::{Cluster, Pace};
use serde_json::{Value, json};
use std::pin::Pin;
use std::time::Duration;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

type Events<K> = Pin<Box<dyn futures::Stream<Item = Result<WatchEvent<K>, kube::Error>> + Send>>;

async fn cluster() -> Cluster {
    let builder = Cluster::builder().loops(&[]).nodes(0).scheduler(false).pace(Pace::default());
    let cluster = builder.start().await;
    let metadata = json!({"name": "default", "namespace": "default"});
    cluster.create(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})).await.unwrap();
    cluster
}

async fn create_map(cluster: &Cluster, name: &str, data: &str, labels: Value) {
    let metadata = json!({"name": name, "namespace": "default", "labels": labels});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": data}});
    cluster.create(map).await.unwrap();
}

async fn create_pod(cluster: &Cluster, name: &str, node: &str) {
    let spec = json!({"nodeName": node, "containers": [{"name": "c", "image": "i"}]});
    let metadata = json!({"name": name, "namespace": "default"});
    cluster.create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})).await.unwrap();
}

/// A figure of `/metrics`.
async fn figure(cluster: &Cluster, name: &str) -> u64 {
    let answer = cluster.request("GET", "/metrics", "", "").await;
    let text = answer.body.as_str().unwrap_or_default().to_owned();
    let line = text.lines().find(|line| line.split(' ').next() == Some(name));
    line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or_else(|| panic!("{name} in {text}"))
}

async fn watch<K>(api: &Api<K>, parameters: WatchParams, version: &str) -> Events<K>
where
    K: kube::Resource + Clone + std::fmt::Debug + for<'a> serde::Deserialize<'a> + Send + 'static,
{
    api.watch(&parameters.timeout(250), version).await.unwrap().boxed()
}

fn told<K: kube::Resource>(event: WatchEvent<K>) -> (&'static str, String) {
    match event {
        WatchEvent::Added(object) => ("added", object.name_any()),
        WatchEvent::Modified(object) => ("modified", object.name_any()),
        WatchEvent::Deleted(object) => ("deleted", object.name_any()),
        WatchEvent::Bookmark(_) => ("bookmark", String::new()),
        WatchEvent::Error(error) => ("error", error.to_string()),
    }
}

async fn next<K: kube::Resource>(events: &mut Events<K>) -> (&'static str, String) {
    told(events.next().await.unwrap().unwrap())
}

async fn version(cluster: &Cluster, path: &str) -> String {
    let list = cluster.request("GET", path, "", "").await.body;
    list["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_does_not_wake_for_the_pods_of_other_nodes() {
    let cluster = cluster().await;
    let api: Api<Pod> = cluster.api("default");
    let start = version(&cluster, PODS).await;
    let on = |node: &str| WatchParams::default().fields(&format!("spec.nodeName={node}"));
    let mut mine = watch(&api, on("mine"), &start).await;
    let mut one = watch(&api, WatchParams::default().fields("metadata.name=only"), &start).await;
    assert!(mine.next().now_or_never().is_none() && one.next().now_or_never().is_none());
    let before = figure(&cluster, "pintle_watch_rounds").await;
    for n in 0..20 {
        create_pod(&cluster, &format!("theirs-{n}"), "theirs").await;
    }
    cluster.advance(Duration::from_secs(1)).await;
    assert_eq!(figure(&cluster, "pintle_watch_rounds").await, before, "nobody watches that node");
    create_pod(&cluster, "ours", "mine").await;
    assert_eq!(next(&mut mine).await, ("added", "ours".into()));
    create_pod(&cluster, "only", "theirs").await;
    assert_eq!(next(&mut one).await, ("added", "only".into()));
    assert_eq!(figure(&cluster, "pintle_watch_rounds").await, before + 2);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_bound_comes_into_its_nodes_view() {
    let cluster = cluster().await;
    let api: Api<Pod> = cluster.api("default");
    create_pod(&cluster, "p", "").await;
    let start = version(&cluster, PODS).await;
    let mut unbound = watch(&api, WatchParams::default().fields("spec.nodeName="), &start).await;
    let mut bound = watch(&api, WatchParams::default().fields("spec.nodeName=n,status.phase!=Failed"), &start).await;
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let path = format!("{PODS}/p/binding");
    let answer = cluster.request("POST", &path, "application/json", binding.to_string()).await;
    assert_eq!(answer.code, 201, "{:?}", answer.body);
    assert_eq!(next(&mut unbound).await, ("deleted", "p".into()));
    assert_eq!(next(&mut bound).await, ("added", "p".into()));
    // From the past it is the same, and what comes after is not missed or told twice.
    let mut late = watch(&api, WatchParams::default().fields("spec.nodeName=n"), &start).await;
    assert_eq!(next(&mut late).await, ("added", "p".into()));
    create_pod(&cluster, "q", "n").await;
    for events in [&mut bound, &mut late] {
        assert_eq!(next(events).await, ("added", "q".into()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_does_not_read_is_cut_off_and_the_others_go_on() {
    let cluster = cluster().await;
    let api: Api<ConfigMap> = cluster.api("default");
    let start = version(&cluster, MAPS).await;
    let mut slow = watch(&api, WatchParams::default(), &start).await;
    let mut quick = watch(&api, WatchParams::default(), &start).await;
    // Both are at the pump before anything happens.
    assert!(slow.next().now_or_never().is_none() && quick.next().now_or_never().is_none());
    let large = "x".repeat(900_000);
    for n in 0..30 {
        create_map(&cluster, &format!("m{n:02}"), &large, json!({})).await;
        assert_eq!(next(&mut quick).await, ("added", format!("m{n:02}")));
    }
    let seen: Vec<_> = slow.map(|event| event.map(told)).collect().await;
    assert!(seen.len() < 30, "it is not told all of {} MB", 27);
    assert_eq!(figure(&cluster, "pintle_watch_cut_off").await, 1);
    create_map(&cluster, "last", "", json!({})).await;
    assert_eq!(next(&mut quick).await, ("added", "last".into()));
}

#[tokio::test(start_paused = true)]
async fn a_burst_larger_than_the_budget_reaches_a_watcher_that_reads() {
    let cluster = cluster().await;
    let api: Api<ConfigMap> = cluster.api("default");
    let start = version(&cluster, MAPS).await;
    let mut events = watch(&api, WatchParams::default(), &start).await;
    assert!(events.next().now_or_never().is_none());
    let large = "x".repeat(900_000);
    let names = (0..30).map(|n| format!("m{n:02}"));
    futures::future::join_all(names.clone().map(|name| {
        let (cluster, large) = (&cluster, &large);
        async move { create_map(cluster, &name, large, json!({})).await }
    }))
    .await;
    for name in names {
        assert_eq!(next(&mut events).await, ("added", name));
    }
    assert_eq!(figure(&cluster, "pintle_watch_cut_off").await, 0);
}

#[tokio::test(start_paused = true)]
async fn watchers_with_the_same_view_share_a_pump_which_goes_with_the_last() {
    let cluster = cluster().await;
    let api: Api<ConfigMap> = cluster.api("default");
    let start = version(&cluster, MAPS).await;
    let pumps = figure(&cluster, "pintle_watch_pumps").await;
    let watchers = figure(&cluster, "pintle_watchers").await;
    let odd = || WatchParams::default().labels("parity=odd");
    let mut open = Vec::new();
    for n in 0..10 {
        open.push(watch(&api, if n % 2 == 0 { WatchParams::default() } else { odd() }, &start).await);
    }
    assert_eq!(figure(&cluster, "pintle_watch_pumps").await, pumps + 2);
    assert_eq!(figure(&cluster, "pintle_watchers").await, watchers + 10);
    create_map(&cluster, "even", "", json!({"parity": "even"})).await;
    create_map(&cluster, "odd", "", json!({"parity": "odd"})).await;
    for (n, events) in open.iter_mut().enumerate() {
        if n % 2 == 0 {
            assert_eq!(next(events).await, ("added", "even".into()));
        }
        assert_eq!(next(events).await, ("added", "odd".into()));
    }
    open.truncate(1);
    assert_eq!(figure(&cluster, "pintle_watch_pumps").await, pumps + 1);
    drop(open);
    assert_eq!(figure(&cluster, "pintle_watch_pumps").await, pumps);
    assert_eq!(figure(&cluster, "pintle_watchers").await, watchers);
}

#[tokio::test(start_paused = true)]
async fn each_watcher_of_a_pump_has_its_own_start_bookmarks_and_end() {
    let cluster = cluster().await;
    let api: Api<ConfigMap> = cluster.api("default");
    let mut versions = Vec::new();
    for n in 0..5 {
        versions.push(version(&cluster, MAPS).await);
        create_map(&cluster, &format!("m{n}"), "", json!({})).await;
    }
    let started = tokio::time::Instant::now();
    let parameters = |n: u32| WatchParams::default().timeout(100 + n);
    let mut open = Vec::new();
    for (n, version) in (0..).zip(&versions) {
        let bookmarks = WatchParams { bookmarks: n % 2 == 0, ..parameters(n) };
        open.push(api.watch(&bookmarks, version).await.unwrap().boxed());
    }
    create_map(&cluster, "last", "", json!({})).await;
    let read = open.into_iter().enumerate().map(|(n, events)| async move {
        let seen: Vec<_> = events.map(|event| told(event.unwrap())).collect().await;
        (n, seen, started.elapsed().as_secs())
    });
    for (n, seen, ended) in futures::future::join_all(read).await {
        let maps = (n..5).map(|m| format!("m{m}")).chain(["last".to_owned()]);
        let mut expected: Vec<_> = maps.map(|name| ("added", name)).collect();
        if n % 2 == 0 {
            expected.push(("bookmark", String::new()));
        }
        assert_eq!(seen, expected, "watcher {n}");
        assert_eq!(ended, 100 + n as u64);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_and_a_watch_from_it_make_one_story_among_many() {
    let cluster = cluster().await;
    let api: Api<ConfigMap> = cluster.api("default");
    let keep = watch(&api, WatchParams::default(), &version(&cluster, MAPS).await).await;
    for n in 0..40 {
        create_map(&cluster, &format!("m{n:02}"), "", json!({})).await;
        let list = api.list(&ListParams::default()).await.unwrap();
        let start = list.metadata.resource_version.unwrap();
        create_map(&cluster, &format!("n{n:02}"), "", json!({})).await;
        let mut events = watch(&api, WatchParams::default(), &start).await;
        assert_eq!(next(&mut events).await, ("added", format!("n{n:02}")));
        assert!(events.next().now_or_never().is_none(), "nothing is told twice");
    }
    assert_eq!(keep.take(80).count().await, 80);
}
