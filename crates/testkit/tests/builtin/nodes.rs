//! The loops about nodes: one notices a lost node and moves its Pods away, others give nodes addresses and find their name servers.

use crate::{create, pod, torture, with};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use pintle_testkit::Scenario;
use serde_json::{Value, json};
use std::time::Duration;

#[test]
fn pods_leave_a_dead_node_and_stay_on_one_that_came_back_wherever_that_loop_is_lost() {
    let scenario = Scenario::of("node-lifecycle-controller")
        .on(with(&["nodelifecycle", "tainteviction", "serviceaccount"], 1, true))
        .setup(|cluster| async move {
            cluster.settle().await;
            create(&cluster, pod("stays")).await;
            let mut hasty = pod("leaves");
            hasty["spec"]["tolerations"] = json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists",
                "effect": "NoExecute", "tolerationSeconds": 30}]);
            create(&cluster, hasty).await;
        })
        .steps(|cluster| async move {
            cluster.crash_nodes().await;
            cluster.advance(Duration::from_secs(120)).await;
            cluster.settle().await;
            cluster.start_nodes();
            cluster.advance(Duration::from_secs(60)).await;
        });
    torture(&scenario);
}

/// What would be lost: a Pod that should have gone, or one that should have stayed.
#[test]
fn a_tainted_node_is_left_by_those_who_do_not_tolerate_it_whatever_happens_to_the_loop() {
    let scenario = Scenario::of("taint-eviction-controller")
        .on(with(&["nodelifecycle", "tainteviction", "serviceaccount"], 1, true))
        .setup(|cluster| async move {
            cluster.settle().await;
            for (name, tolerations) in [
                ("leaves", json!([])),
                ("stays", json!([{"key": "maintenance", "operator": "Exists"}])),
                (
                    "leaves-later",
                    json!([{"key": "maintenance", "operator": "Exists", "effect": "NoExecute",
                    "tolerationSeconds": 45}]),
                ),
            ] {
                let mut tolerant = pod(name);
                tolerant["spec"]["tolerations"] = tolerations;
                create(&cluster, tolerant).await;
            }
            cluster.settle().await;
        })
        .steps(|cluster| async move {
            let nodes: Api<Node> = Api::all(cluster.client());
            let name = nodes.list(&Default::default()).await.unwrap().items[0].metadata.name.clone().unwrap();
            let since = cluster.clock.now().to_string();
            let taint =
                json!({"spec": {"taints": [{"key": "maintenance", "effect": "NoExecute", "timeAdded": since}]}});
            nodes.patch(&name, &PatchParams::default(), &Patch::Merge(taint)).await.unwrap();
            cluster.advance(Duration::from_secs(90)).await;
        });
    torture(&scenario);
}

fn machine(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
}

/// What would be lost: Pods of two machines with the same address, or a machine whose Pods have none.
#[test]
fn every_machine_gets_addresses_for_its_pods_whatever_happens_to_the_loop() {
    let scenario = Scenario::of("node-ipam-controller").on(with(&["nodeipam"], 0, false)).steps(|cluster| async move {
        for name in ["a", "b", "c"] {
            create(&cluster, machine(name)).await;
            cluster.settle().await;
        }
    });
    torture(&scenario);
}

/// What would be lost: every name, for Pods of a machine whose name server nobody finds.
#[test]
fn every_name_server_is_found_whatever_happens_to_the_loop() {
    let scenario =
        Scenario::of("cluster-dns-controller").on(with(&["clusterdns"], 0, false)).steps(|cluster| async move {
            for (name, part) in [("a", 0), ("b", 1)] {
                let mut node = machine(name);
                node["metadata"]["annotations"] = json!({"network.pintle.dev/name-server": format!("10.244.{part}.1")});
                node["spec"] = json!({"podCIDR": format!("10.244.{part}.0/24"),
                "podCIDRs": [format!("10.244.{part}.0/24")]});
                create(&cluster, node).await;
                cluster.settle().await;
            }
            let nodes: Api<Node> = Api::all(cluster.client());
            let gone = json!({"metadata": {"annotations": {"network.pintle.dev/name-server": null}}});
            nodes.patch("b", &PatchParams::default(), &Patch::Merge(gone)).await.unwrap();
        });
    torture(&scenario);
}
