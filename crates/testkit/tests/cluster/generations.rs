//! What a Pod's generation counts, and that the node says up to which one it has come.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use pintle_testkit::Cluster;
use serde_json::{Value, json};

async fn cluster() -> Cluster {
    let cluster = Cluster::builder().loops(&["serviceaccount", "nodelifecycle"]).start().await;
    cluster.settle().await;
    cluster
}

async fn generations(cluster: &Cluster) -> (Option<i64>, Option<i64>) {
    let pod = cluster.api::<Pod>("default").get("p").await.unwrap();
    let status = pod.status.unwrap();
    let conditions = status.conditions.iter().flatten();
    let own = |kind: &str| ["Initialized", "Ready", "ContainersReady", "PodScheduled"].contains(&kind);
    for condition in conditions.filter(|condition| own(&condition.type_)) {
        assert_eq!(condition.observed_generation, status.observed_generation, "{condition:?}");
    }
    (pod.metadata.generation, status.observed_generation)
}

#[tokio::test(start_paused = true)]
async fn a_pods_generation_counts_changes_of_its_spec_and_the_node_says_which_it_has_seen() {
    let cluster = cluster().await;
    let pods: Api<Pod> = cluster.api("default");
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "generation": 100},
        "spec": {"activeDeadlineSeconds": 5000, "containers": [{"name": "c", "image": "i:1",
            "resources": {"requests": {"cpu": "100m"}}}]}});
    let created: Pod = serde_json::from_value(pod).unwrap();
    let created = pods.create(&PostParams::default(), &created).await.unwrap();
    assert_eq!(created.metadata.generation, Some(1), "what the client says does not count");
    cluster.settle().await;
    assert_eq!(generations(&cluster).await, (Some(1), Some(1)), "being bound to a node is no change of the spec");

    let merge = async |patch: Value| {
        pods.patch("p", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        cluster.settle().await;
        generations(&cluster).await
    };
    let tolerations = json!([{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]);
    assert_eq!(merge(json!({"metadata": {"annotations": {"a": "b"}, "generation": 7}})).await, (Some(1), Some(1)));
    assert_eq!(merge(json!({"spec": {"activeDeadlineSeconds": 4999}})).await, (Some(2), Some(2)));
    // The tolerations for failing nodes, which the server adds, need not be repeated.
    assert_eq!(merge(json!({"spec": {"tolerations": tolerations}})).await, (Some(3), Some(3)));
    assert_eq!(pods.get("p").await.unwrap().spec.unwrap().tolerations.unwrap_or_default().len(), 3);

    let beside = json!({"spec": {"ephemeralContainers": [{"name": "look", "image": "i:1"}]}});
    let patch = Patch::Strategic(beside);
    pods.patch_subresource("ephemeralcontainers", "p", &PatchParams::default(), &patch).await.unwrap();
    cluster.settle().await;
    assert_eq!(generations(&cluster).await, (Some(4), Some(4)));

    let more = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "200m"}}}]}});
    pods.patch_subresource("resize", "p", &PatchParams::default(), &Patch::Strategic(more)).await.unwrap();
    cluster.settle().await;
    assert_eq!(generations(&cluster).await, (Some(5), Some(5)));

    let marked = pods.delete("p", &DeleteParams::default().grace_period(60)).await.unwrap().left().unwrap();
    assert_eq!(marked.metadata.generation, Some(6), "a deletion that waits is a change");
    cluster.settle().await;
    assert!(pods.get_opt("p").await.unwrap().is_none());
}
