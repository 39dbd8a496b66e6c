//! Loops that say which Pods stand behind a name, and how many of them may go.

use crate::{create, delete, merge, pod, torture, with};
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::DeleteParams;
use pintle_testkit::{Builder, Cluster, Scenario, explore};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn a_service_finds_its_pods_wherever_the_endpoint_loop_is_lost() {
    let service = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}})
    };
    let scenario = Scenario::of("endpointslice-controller")
        .on(with(&["endpointslice", "serviceaccount", "garbage", "nodelifecycle"], 1, true))
        // From which Pods the time is depends on how many were there when it was written.
        .ignoring("last-change-trigger-time")
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

/// The loops that write the rules of one of two nodes.
const RULES: &str = "network-node-0";

fn carrying() -> Builder {
    with(&["endpointslice", "serviceaccount", "garbage", "nodelifecycle"], 2, false).network()
}

/// Services, Pods and policies come, change and go.
async fn unfold(cluster: Arc<Cluster>) {
    let service = |name: &str, more: Value| {
        let mut spec = json!({"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"}, "spec": spec})
    };
    let policy = |name: &str, spec: Value| {
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": name, "namespace": "default"}, "spec": spec})
    };
    let from = |app: &str| {
        json!({"podSelector": {"matchLabels": {"app": "web"}},
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": app}}}], "ports": [{"port": "http"}]}]})
    };
    let on = |node: &str, mut pod: Value| {
        pod["spec"]["nodeName"] = node.into();
        pod
    };
    create(&cluster, service("web", json!({}))).await;
    create(&cluster, service("sticky", json!({"type": "NodePort", "sessionAffinity": "ClientIP"}))).await;
    create(&cluster, on("node-0", pod("a"))).await;
    create(&cluster, on("node-1", pod("b"))).await;
    cluster.settle().await;
    create(&cluster, policy("deny", json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}))).await;
    create(&cluster, policy("allow", from("web"))).await;
    create(&cluster, on("node-0", pod("c"))).await;
    cluster.settle().await;
    delete::<Pod>(&cluster, "a", DeleteParams::default()).await;
    merge::<NetworkPolicy>(&cluster, "allow", json!({"spec": from("other")})).await;
    delete::<Service>(&cluster, "sticky", DeleteParams::background()).await;
    merge::<Pod>(&cluster, "b", json!({"metadata": {"labels": {"app": "other"}}})).await;
    cluster.settle().await;
    delete::<NetworkPolicy>(&cluster, "deny", DeleteParams::default()).await;
}

#[test]
fn a_node_has_the_right_rules_wherever_the_loops_of_its_network_are_lost() {
    torture(&Scenario::of(RULES).on(carrying()).steps(unfold));
}

#[test]
fn rules_that_the_kernel_refuses_or_takes_without_an_answer_are_written_anew() {
    explore(1..=16, |script| async move {
        for is_taken in [false, true] {
            let cluster = Arc::new(carrying().isolated().start().await);
            cluster.settle().await;
            let on = cluster.faults.on(RULES);
            if is_taken {
                on.lose_answer(script)
            } else {
                on.fail(script, 1, 503)
            }
            unfold(cluster.clone()).await;
            cluster.settle().await;
            cluster.advance(Duration::from_secs(10)).await;
            let met: u64 = cluster.faults.planned().iter().filter_map(|plan| Some(plan.count?.met)).sum();
            assert_eq!((cluster.stray_rules().await, met), (Vec::new(), 1), "script {script}, taken: {is_taken}");
        }
    });
}

/// Kubernetes issue 125354: Endpoints that were made again while the loop was down had no slices afterwards.
#[test]
fn endpoints_written_by_hand_are_shown_as_slices_wherever_their_loop_is_lost() {
    let by_hand = |name: &str, ip: &str| {
        let subsets = json!([{"addresses": [{"ip": ip}], "ports": [{"port": 80}]}]);
        json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name, "namespace": "default"}, "subsets": subsets})
    };
    let service = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
            "spec": {"ports": [{"port": 80}]}})
    };
    let scenario = Scenario::of("endpointslicemirroring-controller")
        .on(with(&["endpointslicemirroring", "endpointslice", "serviceaccount", "garbage"], 0, false))
        .steps(move |cluster| async move {
            for name in ["kept", "again", "gone", "selects"] {
                create(&cluster, service(name)).await;
                create(&cluster, by_hand(name, "10.1.2.3")).await;
            }
            cluster.settle().await;
            for name in ["again", "gone"] {
                delete::<k8s_openapi::api::core::v1::Endpoints>(&cluster, name, DeleteParams::default()).await;
            }
            create(&cluster, by_hand("again", "10.1.2.4")).await;
            merge::<Service>(&cluster, "selects", json!({"spec": {"selector": {"app": "web"}}})).await;
            let more =
                json!({"subsets": [{"addresses": [{"ip": "10.1.2.5"}, {"ip": "10.1.2.6"}], "ports": [{"port": 81}]}]});
            merge::<k8s_openapi::api::core::v1::Endpoints>(&cluster, "kept", more).await;
        });
    torture(&scenario);
}

#[test]
fn a_load_balancer_has_the_addresses_of_the_nodes_wherever_its_loop_is_lost() {
    // Ports that are not left to chance.
    let service = |name: &str, port: u16, node_port: u16| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
            "spec": {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"port": port, "nodePort": node_port}]}})
    };
    let loops = ["servicelb", "endpointslice", "serviceaccount", "garbage", "nodelifecycle"];
    let scenario = Scenario::of("service-lb-controller").on(with(&loops, 2, false)).steps(move |cluster| async move {
        create(&cluster, service("first", 80, 30001)).await;
        cluster.settle().await;
        create(&cluster, service("second", 80, 30002)).await;
        let mut near = service("near", 81, 30003);
        near["spec"]["externalTrafficPolicy"] = json!("Local");
        near["spec"]["healthCheckNodePort"] = json!(30100);
        create(&cluster, near).await;
        let mut placed = pod("a");
        placed["spec"]["nodeName"] = json!("node-1");
        create(&cluster, placed).await;
        create(&cluster, service("back", 82, 30004)).await;
        cluster.settle().await;
        merge::<Service>(&cluster, "back", json!({"spec": {"type": "ClusterIP"}})).await;
        // Its port comes free for the second.
        delete::<Service>(&cluster, "first", DeleteParams::background()).await;
    });
    torture(&scenario);
}
