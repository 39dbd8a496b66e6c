//! The same seed gives the same run: every revision, key and byte.

use crate::{create, deployment, merge, seeds};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::DeleteParams;
use pintle_testkit::{Cluster, explore};
use serde_json::json;

async fn story(seed: u64) -> u64 {
    let cluster = Cluster::builder().seed(seed).nodes(2).isolated().start().await;
    cluster.settle().await;
    let faults = cluster.plan_chaos(seed, "replicaset-controller");
    assert!(!faults.is_empty());
    create(&cluster, deployment(3, "web:1")).await;
    cluster.settle().await;
    merge::<Deployment>(&cluster, "web", json!({"spec": {"replicas": 1}})).await;
    cluster.settle().await;
    crate::delete::<Deployment>(&cluster, "web", DeleteParams::background()).await;
    cluster.settle().await;
    cluster.trace_hash()
}

#[test]
fn the_same_seed_gives_the_same_run() {
    explore(seeds(), |seed| async move {
        // Two runs in one runtime begin at different instants of tokio's clock, and must not notice.
        assert_eq!(story(seed).await, story(seed).await);
    });
}

#[test]
fn another_seed_gives_another_run() {
    explore([1], |seed| async move {
        assert_ne!(story(seed).await, story(seed + 1).await);
    });
}
