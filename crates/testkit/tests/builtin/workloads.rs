//! Loops that make Pods, and the scheduler and node agents that run them.

use crate::{create, delete, deployment, merge, pod, replica_set, stateful_set, torture, with};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use kube::api::DeleteParams;
use pintle_testkit::Scenario;
use serde_json::{Value, json};
use std::time::Duration;

#[test]
fn a_rollout_ends_with_the_new_image_wherever_the_deployment_loop_is_lost() {
    let loops = ["deployment", "replicaset", "serviceaccount", "nodelifecycle"];
    // Written on an old ReplicaSet only if it still has Pods when the Deployment is scaled.
    let scenario = Scenario::of("deployment-controller").ignoring("desired-replicas").ignoring("max-replicas");
    let scenario = scenario.on(with(&loops, 1, true)).steps(|cluster| async move {
        create(&cluster, deployment(2, "web:1")).await;
        cluster.settle().await;
        merge::<Deployment>(
            &cluster,
            "web",
            json!({"spec": {"template": {"spec": {"containers": [
            {"name": "web", "image": "web:2"}]}}}}),
        )
        .await;
        cluster.settle().await;
        merge::<Deployment>(&cluster, "web", json!({"spec": {"replicas": 3}})).await;
    });
    torture(&scenario);
    // The loop comes back and may not list.
    scenario.explore(332..333);
}

#[test]
fn exactly_as_many_pods_are_there_as_were_asked_for_wherever_the_replicaset_loop_is_lost() {
    let loops = ["replicaset", "serviceaccount", "nodelifecycle"];
    let scenario = Scenario::of("replicaset-controller").on(with(&loops, 1, true)).steps(|cluster| async move {
        create(&cluster, replica_set(3)).await;
        cluster.settle().await;
        merge::<ReplicaSet>(&cluster, "web", json!({"spec": {"replicas": 1}})).await;
        cluster.settle().await;
        merge::<ReplicaSet>(&cluster, "web", json!({"spec": {"replicas": 2}})).await;
    });
    torture(&scenario);
}

#[test]
fn a_replication_controller_keeps_its_pods_wherever_its_loop_is_lost() {
    let loops = ["replicationcontroller", "serviceaccount", "nodelifecycle"];
    let scenario = Scenario::of("replication-controller").on(with(&loops, 1, true)).steps(|cluster| async move {
        let mut controller = replica_set(2);
        (controller["apiVersion"], controller["kind"]) = (json!("v1"), json!("ReplicationController"));
        controller["spec"]["selector"] = json!({"app": "web"});
        create(&cluster, pod("found")).await;
        create(&cluster, controller).await;
        cluster.settle().await;
        merge::<ReplicationController>(&cluster, "web", json!({"spec": {"replicas": 3}})).await;
    });
    torture(&scenario);
}

#[test]
fn pods_with_names_are_made_changed_and_removed_in_order_wherever_the_statefulset_loop_is_lost() {
    let loops = ["statefulset", "serviceaccount", "nodelifecycle", "garbage"];
    let scenario = Scenario::of("statefulset-controller").on(with(&loops, 1, true)).steps(|cluster| async move {
        create(&cluster, stateful_set(2, "web:1")).await;
        cluster.settle().await;
        merge::<StatefulSet>(
            &cluster,
            "web",
            json!({"spec": {"template": {"spec": {"containers": [
            {"name": "web", "image": "web:2"}]}}}}),
        )
        .await;
        cluster.settle().await;
        merge::<StatefulSet>(&cluster, "web", json!({"spec": {"replicas": 1}})).await;
    });
    torture(&scenario);
}

#[test]
fn a_parallel_set_with_storage_has_all_its_pods_and_claims_wherever_its_loop_is_lost() {
    let loops = ["statefulset", "serviceaccount", "nodelifecycle", "garbage", "protection"];
    let scenario = Scenario::of("statefulset-controller").on(with(&loops, 1, false)).steps(|cluster| async move {
        let mut set = stateful_set(3, "web:1");
        set["spec"]["podManagementPolicy"] = json!("Parallel");
        set["spec"]["persistentVolumeClaimRetentionPolicy"] = json!({"whenDeleted": "Delete"});
        set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
        let mut kept = set.clone();
        kept["metadata"]["name"] = json!("kept");
        for labels in ["/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
            *kept.pointer_mut(labels).unwrap() = json!({"app": "kept"});
        }
        create(&cluster, set).await;
        create(&cluster, kept).await;
        cluster.settle().await;
        delete::<StatefulSet>(&cluster, "web", DeleteParams::background()).await;
    });
    torture(&scenario);
}

#[test]
fn every_node_has_its_daemon_wherever_the_daemonset_loop_is_lost() {
    let loops = ["daemonset", "serviceaccount", "nodelifecycle", "garbage"];
    let scenario = Scenario::of("daemonset-controller").on(with(&loops, 2, true)).steps(|cluster| async move {
        let mut set = replica_set(0);
        set["kind"] = json!("DaemonSet");
        set["spec"].as_object_mut().unwrap().remove("replicas");
        create(&cluster, set).await;
        cluster.settle().await;
        merge::<DaemonSet>(
            &cluster,
            "web",
            json!({"spec": {"template": {"spec": {"containers": [
            {"name": "web", "image": "web:2"}]}}}}),
        )
        .await;
    });
    torture(&scenario);
}

#[test]
fn a_surging_daemon_is_replaced_on_every_node_wherever_its_loop_is_lost() {
    let loops = ["daemonset", "serviceaccount", "nodelifecycle", "garbage"];
    let scenario = Scenario::of("daemonset-controller").on(with(&loops, 2, true)).steps(|cluster| async move {
        let mut set = replica_set(0);
        set["kind"] = json!("DaemonSet");
        let spec = set["spec"].as_object_mut().unwrap();
        spec.remove("replicas");
        spec.insert(
            "updateStrategy".to_owned(),
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}),
        );
        create(&cluster, set).await;
        cluster.settle().await;
        merge::<DaemonSet>(
            &cluster,
            "web",
            json!({"spec": {"template": {"spec": {"containers": [
            {"name": "web", "image": "web:2"}]}}}}),
        )
        .await;
    });
    torture(&scenario);
}

#[test]
fn every_pod_is_bound_once_wherever_the_scheduler_is_lost() {
    let scenario = Scenario::of("kube-scheduler").on(with(&["serviceaccount", "nodelifecycle"], 1, true)).steps(
        |cluster| async move {
            for name in ["a", "b", "c"] {
                create(&cluster, pod(name)).await;
            }
            let mut wide = pod("too-wide");
            wide["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1000"}});
            create(&cluster, wide).await;
            cluster.settle().await;
            delete::<Pod>(&cluster, "a", DeleteParams::default()).await;
            create(&cluster, pod("d")).await;
        },
    );
    torture(&scenario);
    // Why a Pod waits cannot be written at first.
    scenario.explore(411..412);
}

#[test]
fn pods_run_end_and_go_wherever_the_node_agent_is_lost() {
    let scenario =
        Scenario::of("kubelet").on(with(&["serviceaccount", "nodelifecycle"], 1, true)).steps(|cluster| async move {
            create(&cluster, pod("runs")).await;
            let mut job = pod("ends");
            job["metadata"]["annotations"] = json!({"simulated.pintle.dev/run-for": "1s"});
            job["spec"]["restartPolicy"] = json!("Never");
            create(&cluster, job).await;
            create(&cluster, pod("goes")).await;
            cluster.settle().await;
            delete::<Pod>(&cluster, "goes", DeleteParams::default()).await;
        });
    torture(&scenario);
    // The agent's last word on a Pod meets a conflict that is nobody's fault, and so does its delete.
    scenario.explore([19, 186]);
}

/// What would be lost: a Pod too many, or a Pod for which room was made and which never gets it.
#[test]
fn room_is_made_once_wherever_the_scheduler_is_lost() {
    let scenario = Scenario::of("kube-scheduler")
        .on(with(&["serviceaccount", "nodelifecycle"], 1, true))
        .setup(|cluster| async move {
            cluster.settle().await;
            for (name, value) in [("low", 1), ("mid", 5), ("high", 10)] {
                let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
                    "value": value});
                create(&cluster, class).await;
            }
            for (name, class) in [("low", "low"), ("lower", "low"), ("stays", "mid")] {
                create(&cluster, important(name, class, "10")).await;
                cluster.settle().await;
            }
        })
        .steps(|cluster| async move {
            create(&cluster, important("mid", "mid", "10")).await;
            create(&cluster, important("high", "high", "20")).await;
            cluster.settle().await;
            create(&cluster, important("late", "low", "5")).await;
        });
    torture(&scenario);
}

fn important(name: &str, class: &str, cpu: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["priorityClassName"] = json!(class);
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
    pod
}

#[test]
fn replicas_follow_the_load_wherever_the_autoscaler_is_lost() {
    let deployment = |cpu: &str| {
        let mut deployment = crate::deployment(1, "web:1");
        let template = &mut deployment["spec"]["template"];
        template["metadata"]["annotations"] = json!({"simulated.pintle.dev/cpu": cpu});
        template["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
        deployment
    };
    let autoscaler = |name: &str, maximum: u32| {
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": name, "namespace": "default"}, "spec": {"maxReplicas": maximum,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 30}},
                "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": 50}}}]}})
    };
    let loops = ["horizontalpodautoscaler", "deployment", "replicaset", "garbage", "serviceaccount", "nodelifecycle"];
    let scenario = Scenario::of("horizontal-pod-autoscaler")
        .on(with(&loops, 1, true).usage())
        // A crash between the two writes loses when it was done, as in Kubernetes.
        .ignoring("status.lastScaleTime")
        // Written on an old ReplicaSet only if it still has Pods when the Deployment is scaled.
        .ignoring("desired-replicas")
        .ignoring("max-replicas")
        .patience(Duration::from_secs(3 * 60))
        .steps(move |cluster| async move {
            create(&cluster, deployment("900m")).await;
            create(&cluster, autoscaler("web", 5)).await;
            cluster.advance(Duration::from_secs(2 * 60)).await;
            let idle =
                json!({"spec": {"template": {"metadata": {"annotations": {"simulated.pintle.dev/cpu": "200m"}}}}});
            merge::<Deployment>(&cluster, "web", idle).await;
            cluster.advance(Duration::from_secs(60)).await;
            create(&cluster, autoscaler("gone", 5)).await;
        });
    torture(&scenario);
}
