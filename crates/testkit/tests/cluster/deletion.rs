//! What happens to dependents when their owner goes, and what holds an object back.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use pintle_testkit::Cluster;
use serde_json::json;

async fn with_deployment() -> Cluster {
    let cluster = Cluster::start().await;
    cluster.settle().await;
    let labels = json!({"app": "web"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}},
    });
    cluster.create(deployment).await.unwrap();
    cluster.settle().await;
    assert_eq!(counts(&cluster).await, (1, 1, 3));
    cluster
}

/// Deployments, ReplicaSets, Pods.
async fn counts(cluster: &Cluster) -> (usize, usize, usize) {
    let all = ListParams::default();
    (
        cluster.api::<Deployment>("default").list(&all).await.unwrap().items.len(),
        cluster.api::<ReplicaSet>("default").list(&all).await.unwrap().items.len(),
        cluster.api::<Pod>("default").list(&all).await.unwrap().items.len(),
    )
}

#[tokio::test(start_paused = true)]
async fn in_the_background_dependents_go_after_their_owner() {
    let cluster = with_deployment().await;
    cluster.api::<Deployment>("default").delete("web", &DeleteParams::background()).await.unwrap();
    assert_eq!(counts(&cluster).await.0, 0, "the owner goes at once");
    cluster.settle().await;
    assert_eq!(counts(&cluster).await, (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn in_the_foreground_the_owner_waits_for_its_dependents() {
    let cluster = with_deployment().await;
    let api = cluster.api::<Deployment>("default");
    api.delete("web", &DeleteParams::foreground()).await.unwrap();
    let waiting = api.get("web").await.unwrap();
    assert!(waiting.metadata.deletion_timestamp.is_some());
    assert_eq!(waiting.finalizers(), ["foregroundDeletion"]);
    cluster.settle().await;
    assert_eq!(counts(&cluster).await, (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn orphans_stay_and_are_nobodys() {
    let cluster = with_deployment().await;
    cluster.api::<Deployment>("default").delete("web", &DeleteParams::orphan()).await.unwrap();
    cluster.settle().await;
    assert_eq!(counts(&cluster).await, (0, 1, 3));
    let sets = cluster.api::<ReplicaSet>("default").list(&ListParams::default()).await.unwrap();
    assert!(sets.items[0].owner_references().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_holds_an_object_until_it_is_taken_off() {
    let cluster = Cluster::bare().await;
    let api = cluster.api::<ConfigMap>("default");
    cluster.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "namespace": "default", "finalizers": ["example.com/hold"]}})).await.unwrap();
    api.delete("held", &DeleteParams::default()).await.unwrap();
    assert!(api.get("held").await.unwrap().metadata.deletion_timestamp.is_some());
    let more = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}));
    assert!(api.patch("held", &PatchParams::default(), &more).await.is_err(), "nothing new may hold what is going");
    api.patch("held", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"finalizers": null}}))).await.unwrap();
    assert!(api.get_opt("held").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_namespace_takes_everything_in_it_along() {
    let cluster = with_deployment().await;
    cluster.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "doomed"}})).await.unwrap();
    cluster.settle().await;
    cluster
        .create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "doomed"}}))
        .await
        .unwrap();
    cluster
        .create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "doomed"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}))
        .await
        .unwrap();
    cluster.settle().await;
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    namespaces.delete("doomed", &DeleteParams::default()).await.unwrap();
    let refused = cluster
        .create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late", "namespace": "doomed"}}))
        .await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("because it is being terminated"), "{refused}");
    cluster.settle().await;
    assert!(namespaces.get_opt("doomed").await.unwrap().is_none());
    assert_eq!(counts(&cluster).await, (1, 1, 3), "other namespaces are left alone");
}
