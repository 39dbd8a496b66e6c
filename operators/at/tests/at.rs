//! The At operator in a whole cluster, in virtual time.

use at_operator::types::{At, Phase};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use pintle_testkit::Cluster;
use serde_json::json;
use std::time::Duration;

async fn cluster() -> Cluster {
    let cluster = Cluster::start().await;
    let crd = include_str!("../manifests/crd.yaml");
    let answer = cluster
        .request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/yaml", crd)
        .await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    tokio::spawn(at_operator::reconcile::run(cluster.context().clone()));
    cluster.settle().await;
    cluster
}

async fn phase(cluster: &Cluster) -> Option<Phase> {
    cluster.api::<At>("default").get("later").await.unwrap().status.and_then(|s| s.phase)
}

async fn pods(cluster: &Cluster) -> usize {
    cluster.api::<Pod>("default").list(&ListParams::default()).await.unwrap().items.len()
}

#[tokio::test(start_paused = true)]
async fn a_command_runs_once_at_its_time_and_is_done() {
    let cluster = cluster().await;
    let due = cluster.clock.now() + Duration::from_secs(3600);
    cluster
        .create(json!({
            "apiVersion": "cnat.programming-kubernetes.info/v1alpha1", "kind": "At",
            "metadata": {"name": "later", "namespace": "default", "annotations": {"simulated.pintle.dev/run-for": "10s"}},
            "spec": {"schedule": pintle_meta::clock::rfc3339(due), "command": "echo YAY"},
        }))
        .await
        .unwrap();
    cluster.advance(Duration::from_secs(3500)).await;
    assert_eq!((phase(&cluster).await, pods(&cluster).await), (Some(Phase::Pending), 0), "an hour is not over yet");
    cluster.advance(Duration::from_secs(105)).await;
    assert_eq!((phase(&cluster).await, pods(&cluster).await), (Some(Phase::Running), 1));
    cluster.advance(Duration::from_secs(60)).await;
    assert_eq!((phase(&cluster).await, pods(&cluster).await), (Some(Phase::Done), 1));
    cluster.advance(Duration::from_secs(600)).await;
    assert_eq!((phase(&cluster).await, pods(&cluster).await), (Some(Phase::Done), 1), "and never again");
}
