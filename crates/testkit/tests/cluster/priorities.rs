//! What users of priorities count on, with devices that somebody registered on the nodes: who leaves, who comes first, how often.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams};
use pintle_testkit::Cluster;
use serde_json::{Value, json};

const DEVICE: &str = "example.com/device";

/// Nodes with so many devices each, as a patch of their status tells.
async fn cluster(nodes: u16, devices: u32) -> Cluster {
    let loops = ["serviceaccount", "nodelifecycle", "replicaset", "garbage"];
    let cluster = Cluster::builder().loops(&loops).nodes(nodes).scheduler(true).start().await;
    cluster.settle().await;
    let api: Api<Node> = Api::all(cluster.client());
    let offered = json!({DEVICE: devices.to_string()});
    let patch = json!({"status": {"capacity": offered, "allocatable": offered}});
    for index in 0..nodes {
        api.patch_status(&format!("node-{index}"), &PatchParams::default(), &Patch::Strategic(&patch)).await.unwrap();
    }
    for (name, value) in [("lowest", 1), ("low", 2), ("medium", 100), ("high", 1000)] {
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value});
        cluster.create(class).await.unwrap();
    }
    cluster.settle().await;
    cluster
}

fn pod(name: &str, class: &str, devices: u32) -> Value {
    let amount = json!({DEVICE: devices.to_string()});
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"class": class}},
        "spec": {"priorityClassName": class, "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": amount, "limits": amount}}]}})
}

/// On this node alone, as the scheduler's own field selector says it.
fn on(node: &str, mut pod: Value) -> Value {
    let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
    pod["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [term]}}});
    pod
}

async fn create(cluster: &Cluster, pods: impl IntoIterator<Item = Value>) {
    for pod in pods {
        cluster.create(pod).await.unwrap();
    }
    cluster.settle().await;
}

async fn all(cluster: &Cluster) -> Vec<Pod> {
    cluster.api::<Pod>("default").list(&ListParams::default()).await.unwrap().items
}

/// Names of those that run and are not ending.
async fn running(cluster: &Cluster) -> BTreeSet<String> {
    let runs = |pod: &Pod| {
        pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
            && pod.metadata.deletion_timestamp.is_none()
    };
    all(cluster).await.into_iter().filter(runs).filter_map(|pod| pod.metadata.name).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn of_all_nodes_the_one_with_the_least_important_pod_gives_its_devices() {
    let cluster = cluster(2, 5).await;
    let class = |index: usize| if index == 0 { "low" } else { "medium" };
    let present: Vec<Value> = (0..4)
        .map(|index| on(&format!("node-{}", index / 2), pod(&format!("present-{index}"), class(index), 2)))
        .collect();
    create(&cluster, present).await;
    create(&cluster, [pod("urgent", "high", 2)]).await;
    cluster.advance(Duration::from_secs(10)).await;
    assert_eq!(running(&cluster).await, set(&["present-1", "present-2", "present-3", "urgent"]));
    // A part of the cluster itself comes before everybody, in its own namespace.
    let mut critical = pod("critical", "system-cluster-critical", 2);
    critical["metadata"]["namespace"] = json!("kube-system");
    create(&cluster, [critical]).await;
    cluster.advance(Duration::from_secs(10)).await;
    let critical = cluster.api::<Pod>("kube-system").get("critical").await.unwrap();
    assert_eq!(critical.status.unwrap().phase.as_deref(), Some("Running"));
    let left = running(&cluster).await;
    assert!(left.len() == 3 && left.contains("urgent"), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn a_victim_that_a_finalizer_keeps_says_why_it_ended_and_is_not_in_the_way() {
    let cluster = cluster(1, 1).await;
    let mut victim = pod("victim", "low", 1);
    victim["metadata"]["finalizers"] = json!(["example.com/kept"]);
    create(&cluster, [victim]).await;
    create(&cluster, [pod("urgent", "high", 1)]).await;
    cluster.advance(Duration::from_secs(10)).await;
    let victim = cluster.api::<Pod>("default").get("victim").await.unwrap();
    assert!(victim.metadata.deletion_timestamp.is_some());
    let conditions = victim.status.unwrap().conditions.unwrap();
    let why = conditions.iter().find(|condition| condition.type_ == "DisruptionTarget").expect("it says why");
    assert_eq!((why.status.as_str(), why.reason.as_deref()), ("True", Some("PreemptionByScheduler")));
    assert_eq!(running(&cluster).await, set(&["urgent"]));
}

#[tokio::test(start_paused = true)]
async fn pods_of_replica_sets_leave_once_and_their_successors_wait() {
    let cluster = cluster(1, 1000).await;
    for (name, class, devices) in [("one", "lowest", 200), ("two", "low", 300), ("three", "medium", 450)] {
        let template = pod(name, class, devices);
        let labels = json!({"set": name});
        let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "namespace": "default"},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": template["spec"]}}});
        create(&cluster, [set]).await;
    }
    let before: BTreeSet<String> = running(&cluster).await;
    assert_eq!(before.len(), 3);
    create(&cluster, [pod("four", "high", 500)]).await;
    cluster.advance(Duration::from_secs(30)).await;
    let pods: BTreeSet<String> = all(&cluster).await.into_iter().filter_map(|pod| pod.metadata.name).collect();
    let stayed: Vec<&String> = before.intersection(&pods).collect();
    assert!(stayed.len() == 1 && stayed[0].starts_with("three"), "{stayed:?}");
    assert_eq!(running(&cluster).await, [stayed[0].clone(), "four".to_owned()].into());
    assert_eq!(pods.len(), 4, "one successor each, which waits: {pods:?}");
    // Nothing goes on in circles.
    cluster.advance(Duration::from_secs(60)).await;
    let later: BTreeSet<String> = all(&cluster).await.into_iter().filter_map(|pod| pod.metadata.name).collect();
    assert_eq!(later, pods);
}

#[tokio::test(start_paused = true)]
async fn the_most_important_get_the_room_even_if_they_come_last() {
    let cluster = cluster(2, 5).await;
    let slow = |index: usize| {
        let mut slow = on(&format!("node-{}", index / 5), pod(&format!("low-{index}"), "low", 1));
        slow["metadata"]["annotations"] = json!({"simulated.pintle.dev/ignores-term": "true"});
        slow["spec"]["terminationGracePeriodSeconds"] = json!(80);
        slow
    };
    create(&cluster, (0..10).map(slow)).await;
    create(&cluster, (0..10).map(|index| pod(&format!("medium-{index}"), "medium", 1))).await;
    cluster.advance(Duration::from_secs(20)).await;
    assert!(running(&cluster).await.is_empty(), "all of them have to leave");
    create(&cluster, (0..6).map(|index| pod(&format!("high-{index}"), "high", 1))).await;
    cluster.advance(Duration::from_secs(150)).await;
    let running = running(&cluster).await;
    assert_eq!(running.iter().filter(|name| name.starts_with("high")).count(), 6, "{running:?}");
    assert_eq!(running.len(), 10, "and the others get what is left: {running:?}");
}

#[tokio::test(start_paused = true)]
async fn as_many_leave_as_an_even_spread_needs() {
    let cluster = cluster(2, 10).await;
    let spread = |name: &str, class: &str, devices: u32| {
        let mut spread = pod(name, class, devices);
        spread["metadata"]["labels"]["spread"] = json!("yes");
        spread
    };
    create(&cluster, [on("node-0", spread("important", "high", 9))]).await;
    create(&cluster, (0..3).map(|index| on("node-1", spread(&format!("low-{index}"), "low", 3)))).await;
    let mut wanted = spread("wanted", "medium", 3);
    wanted["spec"]["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"spread": "yes"}}}]);
    create(&cluster, [wanted]).await;
    cluster.advance(Duration::from_secs(10)).await;
    let running = running(&cluster).await;
    assert!(running.contains("important") && running.contains("wanted") && running.len() == 3, "{running:?}");
}
