//! What a loop makes twice when its cache is behind for longer than anybody expects, and ours does not
//! (kubernetes/kubernetes#129795).

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use pintle_runtime::{Context, owner};
use pintle_testkit::Cluster;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

const REPLICAS: usize = 3;
/// After which time the usual expectations are given up.
const EXPIRES: Duration = Duration::from_secs(300);

fn set(name: &str) -> Value {
    let labels = json!({"app": name});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": template}})
}

async fn pods(cluster: &Cluster) -> usize {
    cluster.api::<Pod>("default").list(&ListParams::default()).await.unwrap().items.len()
}

/// A ReplicaSet controller of the usual kind: it notes how many Pods it has asked for, counts those that its cache shows, and gives
/// up waiting after five minutes.
async fn naive(context: Context) {
    let (sets, pods) = (context.informers.of::<ReplicaSet>(), context.informers.of::<Pod>());
    sets.synced().await;
    pods.synced().await;
    let mut expected: Option<(usize, Instant)> = None;
    while !context.shutdown.has_fired() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        for set in sets.all() {
            let uid = set.metadata.uid.as_deref();
            let there = pods.all().iter().filter(|pod| owner::is_controlled_by(&pod.metadata, uid)).count();
            let is_waiting = expected.is_some_and(|(count, since)| there < count && since.elapsed() < EXPIRES);
            if is_waiting || there >= REPLICAS {
                continue;
            }
            expected = Some((REPLICAS, Instant::now()));
            for _ in there..REPLICAS {
                let template = set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
                let mut metadata = template.metadata.unwrap_or_default();
                metadata.generate_name = Some("naive-".into());
                metadata.owner_references = Some(vec![owner::controller_reference(&*set)]);
                let pod = Pod { metadata, spec: template.spec, status: None };
                let api = kube::Api::<Pod>::namespaced(context.client.clone(), "default");
                api.create(&PostParams::default(), &pod).await.unwrap();
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn expectations_that_expire_make_every_pod_twice() {
    let cluster = Cluster::builder().loops(&["serviceaccount"]).nodes(0).scheduler(false).start().await;
    cluster.settle().await;
    cluster.run("naive", naive);
    let held = cluster.faults.on("naive").to("pods").hold_watch_until_released();
    cluster.create(set("web")).await.unwrap();
    cluster.advance(EXPIRES - Duration::from_secs(10)).await;
    assert_eq!(pods(&cluster).await, REPLICAS);
    cluster.advance(Duration::from_secs(60)).await;
    assert_eq!(pods(&cluster).await, 2 * REPLICAS, "this is the bug");
    held.release();
}

#[tokio::test(start_paused = true)]
async fn no_pod_is_made_twice_however_long_the_cache_is_behind() {
    let cluster = Cluster::start().await;
    cluster.settle().await;
    let held = cluster.faults.on("replicaset-controller").to("pods").hold_watch_until_released();
    cluster.create(set("web")).await.unwrap();
    for _ in 0..12 {
        cluster.advance(EXPIRES).await;
        assert_eq!(pods(&cluster).await, REPLICAS);
    }
    // It is not merely asleep: what the watch does not tell, a list does.
    let more = Patch::Merge(json!({"spec": {"replicas": 5}}));
    cluster.api::<ReplicaSet>("default").patch("web", &PatchParams::default(), &more).await.unwrap();
    cluster.advance(EXPIRES).await;
    assert_eq!(pods(&cluster).await, 5);
    cluster.advance(12 * EXPIRES).await;
    assert_eq!(pods(&cluster).await, 5);
    held.release();
    cluster.settle().await;
    assert_eq!(pods(&cluster).await, 5);
}

#[tokio::test(start_paused = true)]
async fn no_pod_is_made_twice_while_the_cache_can_neither_watch_nor_list() {
    let cluster = Cluster::start().await;
    cluster.settle().await;
    let held = cluster.faults.on("replicaset-controller").to("pods").hold_watch_until_released();
    cluster.faults.on("replicaset-controller").to("pods").reads().fail(1, 10_000, 503);
    cluster.create(set("web")).await.unwrap();
    for _ in 0..12 {
        cluster.advance(EXPIRES).await;
        assert_eq!(pods(&cluster).await, REPLICAS);
    }
    cluster.faults.lift();
    held.release();
    cluster.settle().await;
    assert_eq!(pods(&cluster).await, REPLICAS);
}
