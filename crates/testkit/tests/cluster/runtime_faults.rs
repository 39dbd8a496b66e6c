//! A container runtime that hangs, fails or goes away: what Pods and Nodes say, how it goes on, and that no Pod holds up another.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::Api;
use kube::api::ListParams;
use pintle_testkit::Cluster;
use serde_json::{Value, json};

async fn cluster() -> Cluster {
    let cluster = Cluster::builder().loops(&["serviceaccount", "nodelifecycle"]).start().await;
    cluster.settle().await;
    cluster
}

async fn create(cluster: &Cluster, name: &str, annotations: Value) {
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    cluster.create(pod).await.unwrap();
}

async fn phase(cluster: &Cluster, name: &str) -> String {
    let pod = cluster.api::<Pod>("default").get(name).await.unwrap();
    pod.status.and_then(|status| status.phase).unwrap_or_default()
}

/// How often something was told of a Pod, and the last message.
async fn told(cluster: &Cluster, pod: &str, reason: &str) -> (i32, String) {
    let events = cluster.api::<Event>("default").list(&ListParams::default()).await.unwrap().items;
    let of_pod = events
        .into_iter()
        .filter(|event| event.reason.as_deref() == Some(reason) && event.involved_object.name.as_deref() == Some(pod));
    of_pod.fold((0, String::new()), |(count, _), event| {
        (count + event.count.unwrap_or(1), event.message.unwrap_or_default())
    })
}

async fn ready(cluster: &Cluster) -> (String, String) {
    let node = Api::<Node>::all(cluster.client()).get("node-0").await.unwrap();
    let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
    let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready").unwrap();
    (ready.status, ready.message.unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn pods_whose_sandboxes_hang_hold_up_no_other() {
    let cluster = cluster().await;
    for index in 0..60 {
        create(&cluster, &format!("hangs-{index}"), json!({"simulated.pintle.dev/sandbox-delay": "10m"})).await;
    }
    cluster.advance(Duration::from_secs(5)).await;
    create(&cluster, "well", json!({})).await;
    cluster.advance(Duration::from_secs(2)).await;
    assert_eq!(phase(&cluster, "well").await, "Running");
    assert_eq!(phase(&cluster, "hangs-0").await, "Pending");
    // One that runs is stopped and deleted as fast as ever.
    cluster.api::<Pod>("default").delete("well", &Default::default()).await.unwrap();
    cluster.advance(Duration::from_secs(2)).await;
    assert!(cluster.api::<Pod>("default").get_opt("well").await.unwrap().is_none());
    cluster.advance(Duration::from_secs(600)).await;
    assert_eq!(phase(&cluster, "hangs-59").await, "Running");
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_cannot_be_made_is_told_and_tried_again_until_it_can() {
    let cluster = cluster().await;
    create(&cluster, "p", json!({"simulated.pintle.dev/sandbox-fails": "3"})).await;
    cluster.advance(Duration::from_secs(60)).await;
    assert_eq!(phase(&cluster, "p").await, "Running");
    let (times, message) = told(&cluster, "p", "FailedCreatePodSandBox").await;
    assert_eq!(times, 3);
    assert!(message.starts_with("Failed to create pod sandbox: ") && message.contains("cannot be made"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_restarts_is_told_of_and_no_container_is_restarted_for_it() {
    let cluster = cluster().await;
    create(&cluster, "old", json!({})).await;
    cluster.settle().await;
    let machine = cluster.machine("node-0").unwrap();
    machine.set_down(true);
    cluster.advance(Duration::from_secs(60)).await;
    let (status, message) = ready(&cluster).await;
    assert_eq!(status, "False");
    assert!(message.contains("the runtime is down"), "{message}");
    create(&cluster, "new", json!({"simulated.pintle.dev/run-for": "1h"})).await;
    cluster.advance(Duration::from_secs(30)).await;
    assert_ne!(phase(&cluster, "new").await, "Running");
    machine.set_down(false);
    cluster.advance(Duration::from_secs(120)).await;
    assert_eq!(ready(&cluster).await.0, "True");
    assert_eq!(phase(&cluster, "new").await, "Running");
    let old = cluster.api::<Pod>("default").get("old").await.unwrap().status.unwrap();
    let container = &old.container_statuses.unwrap()[0];
    assert!(container.ready && container.restart_count == 0, "{container:?}");
}
