//! Replicas by measured CPU: up while containers are busy, and down when they are not any more.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::eventually_within;
use crate::node::{IMAGE, Real, can_run};

fn deployment(script: &str) -> Value {
    let resources = json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "100m"}});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "image": IMAGE, "command": ["sh", "-c", script], "resources": resources}]}}}})
}

/// Usage is measured every ten seconds and looked at every fifteen; a Pod counts a while after it is ready.
async fn until(cluster: &Real, replicas: &str) {
    eventually_within(Duration::from_secs(180), &format!("there are {replicas} replicas"), async || {
        let answer = cluster.run("get deployment web -o jsonpath={.spec.replicas}").await;
        if answer.stdout == replicas { Ok(()) } else { Err(answer.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn busy_containers_are_joined_by_others_which_go_when_there_is_nothing_to_do() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&[]).await;
    cluster.apply(deployment("while :; do :; done")).await;
    cluster
        .apply(json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
            "spec": {"minReplicas": 1, "maxReplicas": 3,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
                "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": 50}}}]}}))
        .await;
    until(&cluster, "3").await;
    let told = cluster.ok("describe hpa web").await;
    assert!(told.contains("reason: cpu resource utilization (percentage of request) above target"), "{told}");
    let idle = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "command": ["sleep", "10000"]}]}}}});
    cluster.ok(&format!("patch deployment web -p {}", idle.to_string().replace(' ', ""))).await;
    until(&cluster, "1").await;
    let told = cluster.ok("describe hpa web").await;
    assert!(told.contains("New size: 1; reason: All metrics below target"), "{told}");
}
