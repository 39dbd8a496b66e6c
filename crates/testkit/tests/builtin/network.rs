//! Loops that say which Pods stand behind a name, and how many of them may go.

use crate::{create, delete, merge, pod, torture, with};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::DeleteParams;
use pintle_testkit::Scenario;
use serde_json::json;

#[test]
fn a_service_finds_its_pods_wherever_the_endpoint_loop_is_lost() {
    let service = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}})
    };
    let scenario = Scenario::of("endpointslice-controller")
        .on(with(&["endpointslice", "serviceaccount", "garbage", "nodelifecycle"], 1, true))
        .steps(move |cluster| async move {
            create(&cluster, service("web")).await;
            create(&cluster, service("gone")).await;
            create(&cluster, pod("a")).await;
            create(&cluster, pod("b")).await;
            cluster.settle().await;
            delete::<Pod>(&cluster, "a", DeleteParams::default()).await;
            delete::<Service>(&cluster, "gone", DeleteParams::background()).await;
            cluster.settle().await;
            merge::<Service>(&cluster, "web", json!({"spec": {"ports": [{"port": 81, "targetPort": "http"}]}})).await;
        });
    torture(&scenario);
}

#[test]
fn a_budget_counts_its_pods_wherever_the_disruption_loop_is_lost() {
    let scenario = Scenario::of("disruption-controller")
        .on(with(&["disruption", "serviceaccount", "nodelifecycle"], 1, true))
        .steps(|cluster| async move {
            let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": "web", "namespace": "default"},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
            create(&cluster, budget).await;
            create(&cluster, pod("a")).await;
            create(&cluster, pod("b")).await;
            cluster.settle().await;
            delete::<Pod>(&cluster, "a", DeleteParams::default()).await;
        });
    torture(&scenario);
}
