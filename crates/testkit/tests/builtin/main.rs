//! Every built-in loop, crashed before and after each of its writes, and under faults that seeds draw: the end of the run
//! fault-free run, nothing twice, nothing left over, then no more writes.
//!
//! `cargo xtask torture controllers` runs more seeds: `PINTLE_CONTROLLER_SEEDS` says how many.

mod batch;
mod certificates;
mod cleanup;
mod network;
mod nodes;
mod roles;
mod seeds;
mod storage;
mod workloads;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use pintle_testkit::{Builder, Cluster, Scenario};
use serde_json::{Value, json};

/// How many seeds each scenario is explored with.
fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("PINTLE_CONTROLLER_SEEDS").ok().and_then(|count| count.parse().ok());
    1..1 + count.unwrap_or(6)
}

/// Both ways to break a loop.
fn torture(scenario: &Scenario) {
    let swept = scenario.sweep();
    let explored = scenario.explore(seeds());
    println!("{} writes, {} crashes and {explored} seeds survived", swept.writes, swept.crashes);
}

/// A cluster of these loops alone.
fn with(loops: &[&'static str], nodes: u16, scheduler: bool) -> Builder {
    Cluster::builder().loops(loops).nodes(nodes).scheduler(scheduler)
}

fn pod_template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"terminationGracePeriodSeconds": 1,
        "containers": [{"name": "web", "image": image, "ports": [{"name": "http", "containerPort": 8080}]}]}})
}

fn pod(name: &str) -> Value {
    let template = pod_template("web:1");
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "spec": template["spec"]})
}

fn replica_set(replicas: u32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": pod_template("web:1")}})
}

fn deployment(replicas: u32, image: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": pod_template(image)}})
}

fn stateful_set(replicas: u32, image: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": replicas, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}},
                 "template": pod_template(image)}})
}

async fn create(cluster: &Cluster, object: Value) {
    cluster.create(object).await.unwrap();
}

async fn merge<K>(cluster: &Cluster, name: &str, patch: Value)
where
    K: kube::Resource<Scope = NamespaceResourceScope> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    K::DynamicType: Default,
{
    let api: Api<K> = cluster.api("default");
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn delete<K>(cluster: &Cluster, name: &str, how: DeleteParams)
where
    K: kube::Resource<Scope = NamespaceResourceScope> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    K::DynamicType: Default,
{
    cluster.api::<K>("default").delete(name, &how).await.unwrap();
}
