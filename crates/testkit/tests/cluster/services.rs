//! Which Pods stand behind a Service, and what the loops leave alone.

use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams};
use pintle_testkit::Cluster;
use serde_json::json;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn endpoints_that_somebody_wrote_by_hand_are_left_alone() {
    let cluster = Cluster::start().await;
    let by_hand = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "elsewhere", "namespace": "default"},
        "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}]});
    cluster.create(by_hand).await.unwrap();
    cluster.advance(Duration::from_secs(600)).await;
    assert!(cluster.api::<Endpoints>("default").get_opt("elsewhere").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_service_finds_its_ready_pods_and_forgets_them_when_it_goes() {
    let cluster = Cluster::start().await;
    cluster.settle().await;
    for name in ["a", "b"] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"name": "http", "containerPort": 8080}]}]}});
        cluster.create(pod).await.unwrap();
    }
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}});
    cluster.create(service).await.unwrap();
    cluster.settle().await;
    let slices = cluster.api::<EndpointSlice>("default");
    let found = slices.list(&ListParams::default().labels("kubernetes.io/service-name=web")).await.unwrap().items;
    assert_eq!(found.len(), 1);
    let endpoints = found[0].endpoints.clone().unwrap_or_default();
    assert_eq!(endpoints.len(), 2);
    assert!(endpoints.iter().all(|e| e.conditions.as_ref().is_some_and(|c| c.ready == Some(true))));
    assert_eq!(found[0].ports.as_ref().unwrap()[0].port, Some(8080));
    cluster.api::<Service>("default").delete("web", &DeleteParams::background()).await.unwrap();
    cluster.settle().await;
    assert!(
        slices.list(&ListParams::default().labels("kubernetes.io/service-name=web")).await.unwrap().items.is_empty()
    );
    assert!(cluster.api::<Endpoints>("default").get_opt("web").await.unwrap().is_none());
}
