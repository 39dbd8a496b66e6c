//! The ten steps by which a Deployment becomes Pods and a Pod that ended is replaced, actor by actor.
//!
//! Loops are started one after the other, so that each step can only be the work of the actor it names. Then the same
//! with every watch cut for a while, and with every loop killed half-way.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use pintle_testkit::Cluster;
use serde_json::{Value, json};
use std::time::Duration;

const LOOPS: [&str; 3] = ["serviceaccount", "deployment", "replicaset"];

fn deployment(replicas: i32) -> Value {
    let labels = json!({"app": "web"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}},
    })
}

async fn all<K>(cluster: &Cluster) -> Vec<K>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    K::DynamicType: Default,
{
    cluster.api::<K>("default").list(&ListParams::default()).await.unwrap().items
}

/// Who wrote to an object, by the names that managed fields keep.
fn writers<K: Resource>(object: &K) -> Vec<String> {
    object.managed_fields().iter().filter_map(|f| f.manager.clone()).collect()
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).filter(|n| !n.is_empty())
}

#[tokio::test(start_paused = true)]
async fn a_deployment_becomes_pods_step_by_step_and_each_step_has_its_actor() {
    let cluster =
        Cluster::builder().loops(&["serviceaccount", "nodelifecycle"]).nodes(0).scheduler(false).start().await;
    cluster.settle().await;
    cluster.create(deployment(1)).await.unwrap();
    cluster.settle().await;
    assert!(all::<ReplicaSet>(&cluster).await.is_empty(), "nobody is there to act yet");

    // 1. The deployment loop makes a ReplicaSet.
    cluster.start_loop("deployment");
    cluster.settle().await;
    let sets = all::<ReplicaSet>(&cluster).await;
    assert_eq!(sets.len(), 1);
    assert_eq!(sets[0].owner_references()[0].kind, "Deployment");
    assert_eq!(writers(&sets[0]), ["deployment-controller"]);
    assert!(all::<Pod>(&cluster).await.is_empty(), "making Pods is not its work");

    // 2. The replicaset loop makes a Pod.
    cluster.start_loop("replicaset");
    cluster.settle().await;
    let pods = all::<Pod>(&cluster).await;
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0].owner_references()[0].name, sets[0].name_any());
    assert_eq!(writers(&pods[0]), ["replicaset-controller"]);

    // 3. The Pod's node is empty: that is what the scheduler looks for. 4. The kubelet ignores such a Pod.
    assert_eq!((node_of(&pods[0]), phase(&pods[0])), (None, "Pending"));
    cluster.start_nodes_of(1);
    cluster.settle().await;
    let nodes = Api::<Node>::all(cluster.client()).list(&ListParams::default()).await.unwrap().items;
    assert_eq!(nodes.len(), 1);
    let pods = all::<Pod>(&cluster).await;
    assert_eq!((node_of(&pods[0]), phase(&pods[0])), (None, "Pending"));
    assert_eq!(writers(&pods[0]), ["replicaset-controller"], "the kubelet wrote nothing");

    // 5. The scheduler binds it. 6. The kubelet starts it and writes its status.
    cluster.start_scheduler();
    cluster.settle().await;
    let pods = all::<Pod>(&cluster).await;
    assert_eq!((node_of(&pods[0]), phase(&pods[0])), (Some("node-0"), "Running"));
    let mut who = writers(&pods[0]);
    who.sort();
    who.dedup();
    assert!(who.contains(&"kubelet".to_owned()), "{who:?}");
    let events = all::<Event>(&cluster).await;
    let said = |reason: &str| {
        events.iter().find(|e| e.reason.as_deref() == Some(reason)).and_then(|e| e.source.clone()?.component)
    };
    assert_eq!(said("SuccessfulCreate").as_deref(), Some("replicaset-controller"));
    assert_eq!(said("Scheduled").as_deref(), Some("default-scheduler"));
    assert_eq!(said("Started").as_deref(), Some("kubelet"));

    // 7. The replicaset loop has nothing to do: ten minutes pass and nothing of it changes.
    let versions = |sets: &[ReplicaSet], pods: &[Pod]| -> Vec<_> {
        sets.iter().map(ResourceExt::resource_version).chain(pods.iter().map(ResourceExt::resource_version)).collect()
    };
    let before = versions(&all::<ReplicaSet>(&cluster).await, &all::<Pod>(&cluster).await);
    cluster.advance(Duration::from_secs(600)).await;
    assert_eq!(versions(&all::<ReplicaSet>(&cluster).await, &all::<Pod>(&cluster).await), before);

    // 8. The Pod ends: its time is up. 9. The kubelet writes that.
    let first = pods[0].name_any();
    end(&cluster, &first).await;
    cluster.settle().await;
    let ended = cluster.api::<Pod>("default").get(&first).await.unwrap();
    assert_eq!(phase(&ended), "Failed");
    assert_eq!(ended.status.as_ref().and_then(|s| s.reason.as_deref()), Some("DeadlineExceeded"));

    // 10. The replicaset loop replaces it.
    let pods = all::<Pod>(&cluster).await;
    let living: Vec<&Pod> = pods.iter().filter(|p| phase(p) == "Running").collect();
    assert_eq!(living.len(), 1);
    assert_ne!(living[0].name_any(), first);
}

/// Lets a Pod's time run out.
async fn end(cluster: &Cluster, pod: &str) {
    let patch = Patch::Merge(json!({"spec": {"activeDeadlineSeconds": 1}}));
    cluster.api::<Pod>("default").patch(pod, &PatchParams::default(), &patch).await.unwrap();
}

async fn assert_all_run(cluster: &Cluster, replicas: usize) {
    let pods = all::<Pod>(cluster).await;
    let running = pods.iter().filter(|p| phase(p) == "Running" && p.metadata.deletion_timestamp.is_none()).count();
    assert_eq!(running, replicas, "{:?}", pods.iter().map(|p| (p.name_any(), phase(p).to_owned())).collect::<Vec<_>>());
    let deployment = cluster.api::<Deployment>("default").get("web").await.unwrap();
    assert_eq!(deployment.status.unwrap_or_default().ready_replicas, Some(replicas as i32));
    assert_eq!(all::<ReplicaSet>(cluster).await.len(), 1, "no second ReplicaSet");
}

#[tokio::test(start_paused = true)]
async fn with_every_watch_cut_for_a_while_the_loops_catch_up_by_themselves() {
    let cluster = Cluster::start().await;
    cluster.settle().await;
    cluster.create(deployment(3)).await.unwrap();
    cluster.settle().await;
    assert_all_run(&cluster, 3).await;

    cluster.faults.cut_watches(true);
    let victim = all::<Pod>(&cluster).await[0].name_any();
    end(&cluster, &victim).await;
    cluster
        .api::<Deployment>("default")
        .patch("web", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 5}})))
        .await
        .unwrap();
    cluster.advance(Duration::from_secs(20)).await;
    cluster.faults.cut_watches(false);
    cluster.advance(Duration::from_secs(60)).await;
    cluster.settle().await;
    assert_all_run(&cluster, 5).await;
}

#[tokio::test(start_paused = true)]
async fn with_every_loop_killed_half_way_and_restarted_the_end_is_the_same() {
    // Milliseconds after the Deployment is created at which everything dies.
    for moment in [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000] {
        let cluster = Cluster::start().await;
        cluster.settle().await;
        cluster.create(deployment(4)).await.unwrap();
        cluster.advance(Duration::from_millis(moment)).await;
        for name in LOOPS {
            cluster.crash_loop(name).await;
        }
        cluster.crash_scheduler().await;
        cluster.crash_nodes().await;
        cluster.advance(Duration::from_secs(5)).await;
        for name in LOOPS {
            cluster.start_loop(name);
        }
        cluster.start_scheduler();
        cluster.start_nodes();
        cluster.advance(Duration::from_secs(60)).await;
        cluster.settle().await;
        assert_all_run(&cluster, 4).await;
        let victim = all::<Pod>(&cluster).await[0].name_any();
        end(&cluster, &victim).await;
        cluster.settle().await;
        assert_all_run(&cluster, 4).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_run() {
    let mut traces = Vec::new();
    for _ in 0..2 {
        let cluster = Cluster::builder().seed(42).start().await;
        cluster.create(deployment(5)).await.unwrap();
        cluster.settle().await;
        let mut pods: Vec<String> = all::<Pod>(&cluster)
            .await
            .iter()
            .map(|p| format!("{} {:?} {:?}", p.name_any(), node_of(p), p.resource_version()))
            .collect();
        pods.sort();
        traces.push(pods);
    }
    assert_eq!(traces[0], traces[1]);
    assert_eq!(traces[0].len(), 5);
}
