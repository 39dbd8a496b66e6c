//! The operator in a whole cluster, in virtual time.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::CustomResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use pintle_runtime::{Context, Shutdown};
use pintle_testkit::{Cluster, Scenario};
use serde_json::{Value, json};
use website_operator::reconcile::{self, NAME};
use website_operator::types::Website;

const MANIFESTS: [&str; 2] = [include_str!("../manifests/crd.yaml"), include_str!("../manifests/rbac.yaml")];

async fn install(cluster: &Cluster) {
    for object in MANIFESTS.iter().flat_map(|manifest| serde_saphyr::from_multiple::<Value>(manifest).unwrap()) {
        cluster.apply(object).await;
    }
}

async fn start() -> Cluster {
    let cluster = Cluster::start().await;
    install(&cluster).await;
    cluster.run(NAME, reconcile::run);
    cluster
}

fn named(name: &str, spec: Value) -> Value {
    let metadata = json!({"name": name, "namespace": "default"});
    json!({"apiVersion": "example.com/v1alpha1", "kind": "Website", "metadata": metadata, "spec": spec})
}

async fn edit(cluster: &Cluster, name: &str, patch: Value) {
    let api = cluster.api::<Website>("default");
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// How many are ready, the reason of the condition, and how many Pods there are.
async fn state(cluster: &Cluster, name: &str) -> (i32, String, usize) {
    let status = cluster.api::<Website>("default").get(name).await.unwrap().status.unwrap();
    let pods = cluster.api::<Pod>("default").list(&ListParams::default()).await.unwrap();
    (status.ready_replicas, status.conditions[0].reason.clone(), pods.items.len())
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_runs_and_the_status_says_so() {
    let cluster = start().await;
    cluster.create(named("web", json!({"image": "nginx:1", "replicas": 3}))).await.unwrap();
    cluster.settle().await;
    assert_eq!(state(&cluster, "web").await, (3, "AllReady".to_owned(), 3));
    let status = cluster.api::<Website>("default").get("web").await.unwrap().status.unwrap();
    assert_eq!(status.observed_generation, Some(1));

    let events = cluster.api::<Event>("default").list(&ListParams::default()).await.unwrap();
    let ours = events.items.iter().filter(|event| event.involved_object.kind.as_deref() == Some("Website"));
    let reasons: Vec<&str> = ours.filter_map(|event| event.reason.as_deref()).collect();
    assert_eq!(reasons, ["Created", "Ready"], "people read what was done");
}

#[tokio::test(start_paused = true)]
async fn an_edit_is_followed_and_a_change_by_hand_is_undone() {
    let cluster = start().await;
    cluster.create(named("web", json!({"image": "nginx:1"}))).await.unwrap();
    cluster.settle().await;
    edit(&cluster, "web", json!({"spec": {"image": "nginx:2", "replicas": 2}})).await;
    cluster.settle().await;
    assert_eq!(state(&cluster, "web").await, (2, "AllReady".to_owned(), 2));
    let pods = cluster.api::<Pod>("default").list(&ListParams::default()).await.unwrap();
    let images = pods.items.iter().filter_map(|pod| pod.spec.as_ref()?.containers[0].image.as_deref());
    assert!(images.clone().all(|image| image == "nginx:2"), "{:?}", images.collect::<Vec<_>>());

    let deployments = cluster.api::<Deployment>("default");
    let by_hand = Patch::Merge(json!({"spec": {"replicas": 7}}));
    deployments.patch("web", &PatchParams::default(), &by_hand).await.unwrap();
    cluster.settle().await;
    assert_eq!(state(&cluster, "web").await, (2, "AllReady".to_owned(), 2));
}

#[tokio::test(start_paused = true)]
async fn deletion_leaves_nothing_behind() {
    for policy in [DeleteParams::background(), DeleteParams::foreground()] {
        let cluster = start().await;
        cluster.create(named("web", json!({"image": "nginx:1", "replicas": 2}))).await.unwrap();
        cluster.settle().await;
        cluster.api::<Website>("default").delete("web", &policy).await.unwrap();
        cluster.advance(Duration::from_secs(120)).await;
        assert!(cluster.api::<Website>("default").get_opt("web").await.unwrap().is_none());
        assert!(cluster.api::<Deployment>("default").get_opt("web").await.unwrap().is_none());
        assert!(cluster.api::<Pod>("default").list(&ListParams::default()).await.unwrap().items.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_deployment_of_somebody_else_is_left_alone_until_it_is_gone() {
    let cluster = start().await;
    let labels = json!({"app": "theirs"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "theirs", "image": "theirs"}]}});
    cluster
        .apply(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
        }))
        .await;
    cluster.create(named("web", json!({"image": "nginx:1", "replicas": 2}))).await.unwrap();
    cluster.settle().await;
    assert_eq!(state(&cluster, "web").await, (0, "NameTaken".to_owned(), 1));
    cluster.api::<Deployment>("default").delete("web", &DeleteParams::background()).await.unwrap();
    cluster.advance(Duration::from_secs(120)).await;
    assert_eq!(state(&cluster, "web").await, (2, "AllReady".to_owned(), 2));
}

#[tokio::test(start_paused = true)]
async fn nonsense_is_refused_with_the_field_that_is_wrong() {
    let cluster = start().await;
    for (spec, field) in [
        (json!({}), "spec.image"),
        (json!({"image": ""}), "spec.image"),
        (json!({"image": "nginx", "replicas": -1}), "spec.replicas"),
    ] {
        let error = cluster.create(named("bad", spec.clone())).await.unwrap_err().to_string();
        assert!(error.contains(field), "{spec}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_operator_needs_no_more_rights_than_its_manifest_gives() {
    let cluster = Cluster::start().await;
    install(&cluster).await;
    let client = cluster.client_as("system:serviceaccount:website-operator:website-operator", &[]);
    let (_stop, shutdown) = Shutdown::new();
    let context = Context::new(client, cluster.clock.clone(), cluster.random.clone(), shutdown);
    tokio::spawn(reconcile::run(context));
    cluster.create(named("web", json!({"image": "nginx:1"}))).await.unwrap();
    cluster.advance(Duration::from_secs(60)).await;
    edit(&cluster, "web", json!({"spec": {"replicas": 2}})).await;
    cluster.advance(Duration::from_secs(60)).await;
    assert_eq!(state(&cluster, "web").await, (2, "AllReady".to_owned(), 2));
}

/// The story first runs without faults. Then the operator is lost around each of its writes, then it meets refusals, lost
/// answers and late events as seeds draw them. The end must be the same each time, and then there must be silence.
#[test]
fn whatever_crashes_and_whatever_comes_late_the_end_is_the_same() {
    // A server alone: the loops that bring a Deployment about are not what is tested, and every run would wait for them.
    let scenario = Scenario::of(NAME)
        .on(Cluster::builder().loops(&[]).nodes(0).scheduler(false))
        .setup(|cluster| async move {
            install(&cluster).await;
            cluster.run(NAME, reconcile::run);
        })
        .steps(|cluster| async move {
            cluster.create(named("web", json!({"image": "nginx:1", "replicas": 2}))).await.unwrap();
            cluster.advance(Duration::from_secs(30)).await;
            edit(&cluster, "web", json!({"spec": {"image": "nginx:2"}})).await;
        });
    assert!(scenario.sweep().writes >= 4);
    scenario.explore(1..9);
}

#[test]
fn the_manifest_is_what_the_types_say() {
    let read: Value = serde_saphyr::from_str(MANIFESTS[0]).unwrap();
    let made = serde_json::to_value(Website::crd()).unwrap();
    assert_eq!(read, made, "write it anew: cargo run -- crd > manifests/crd.yaml");
}
