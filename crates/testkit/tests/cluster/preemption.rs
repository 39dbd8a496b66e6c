//! Pods that fit nowhere take the place of less important ones, and of nobody else.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Pod, PodCondition};
use kube::api::ListParams;
use pintle_testkit::Cluster;
use serde_json::{Value, json};

const GRACE_SECONDS: u64 = 60;

/// Nodes of 32 CPUs each.
async fn cluster(nodes: u16) -> Cluster {
    let loops = ["serviceaccount", "nodelifecycle", "disruption"];
    let cluster = Cluster::builder().loops(&loops).nodes(nodes).scheduler(true).start().await;
    for (name, value, policy) in [
        ("low", 1, "PreemptLowerPriority"),
        ("mid", 5, "PreemptLowerPriority"),
        ("high", 10, "PreemptLowerPriority"),
        ("patient", 10, "Never"),
    ] {
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value, "preemptionPolicy": policy});
        cluster.create(class).await.unwrap();
    }
    cluster.settle().await;
    cluster
}

fn pod(name: &str, class: &str, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {"priorityClassName": class, "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}})
}

/// A Pod that takes all of its time to end.
fn slow(name: &str, class: &str, cpu: &str) -> Value {
    let mut slow = pod(name, class, cpu);
    slow["metadata"]["annotations"] = json!({"simulated.pintle.dev/ignores-term": "true"});
    slow["spec"]["terminationGracePeriodSeconds"] = json!(GRACE_SECONDS);
    slow
}

async fn create(cluster: &Cluster, pods: impl IntoIterator<Item = Value>) {
    for pod in pods {
        cluster.create(pod).await.unwrap();
        cluster.settle().await;
    }
}

async fn get(cluster: &Cluster, name: &str) -> Option<Pod> {
    cluster.api::<Pod>("default").get_opt(name).await.unwrap()
}

/// Names of Pods and their nodes, of those that have one and are not ending.
async fn placed(cluster: &Cluster) -> Vec<String> {
    let pods = cluster.api::<Pod>("default").list(&ListParams::default()).await.unwrap().items;
    let staying = pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let mut names: Vec<String> =
        staying.filter_map(|pod| Some(format!("{} on {}", pod.metadata.name?, pod.spec?.node_name?))).collect();
    names.sort();
    names
}

async fn nominated(cluster: &Cluster, name: &str) -> Option<String> {
    get(cluster, name).await.expect("it is there").status?.nominated_node_name
}

async fn condition(cluster: &Cluster, name: &str, kind: &str) -> Option<PodCondition> {
    let conditions = get(cluster, name).await?.status?.conditions?;
    conditions.into_iter().find(|condition| condition.type_ == kind)
}

async fn events(cluster: &Cluster, name: &str, reason: &str) -> Vec<Event> {
    let all = cluster.api::<Event>("default").list(&ListParams::default()).await.unwrap().items;
    let is_meant =
        |event: &Event| event.involved_object.name.as_deref() == Some(name) && event.reason.as_deref() == Some(reason);
    all.into_iter().filter(is_meant).collect()
}

#[tokio::test(start_paused = true)]
async fn the_least_important_pod_makes_room_and_everybody_is_told() {
    let cluster = cluster(1).await;
    create(&cluster, [slow("low", "low", "16"), pod("mid", "mid", "16")]).await;
    create(&cluster, [pod("high", "high", "16")]).await;
    // Until the victim is gone its place is reserved, and nobody else is taken.
    assert_eq!(placed(&cluster).await, ["mid on node-0"]);
    assert_eq!(nominated(&cluster, "high").await.as_deref(), Some("node-0"));
    let waits = condition(&cluster, "high", "PodScheduled").await.unwrap();
    assert_eq!((waits.status.as_str(), waits.reason.as_deref()), ("False", Some("Unschedulable")));
    let why = condition(&cluster, "low", "DisruptionTarget").await.expect("it is told why");
    assert_eq!((why.status.as_str(), why.reason.as_deref()), ("True", Some("PreemptionByScheduler")));
    assert_eq!(why.message.as_deref(), Some("default-scheduler: preempting to accommodate a higher priority pod"));
    let preempted = events(&cluster, "low", "Preempted").await;
    let high = get(&cluster, "high").await.unwrap().metadata.uid.unwrap();
    let [event] = &preempted[..] else { panic!("{preempted:?}") };
    assert_eq!(event.message, Some(format!("Preempted by pod {high} on node node-0")));
    assert_eq!((event.type_.as_deref(), event.action.as_deref()), (Some("Normal"), Some("Preempting")));
    assert_eq!(event.related.as_ref().and_then(|related| related.uid.as_deref()), Some(high.as_str()));
    let failed = events(&cluster, "high", "FailedScheduling").await;
    assert_eq!(failed[0].message.as_deref(), Some("0/1 nodes are available: 1 Insufficient cpu."));
    // Others that come meanwhile do not get the room.
    create(&cluster, [pod("late", "low", "1")]).await;
    assert_eq!(placed(&cluster).await, ["mid on node-0"]);
    cluster.advance(Duration::from_secs(GRACE_SECONDS)).await;
    cluster.settle().await;
    assert_eq!(placed(&cluster).await, ["high on node-0", "mid on node-0"]);
    assert_eq!(nominated(&cluster, "high").await, None, "the plan is carried out");
    assert!(get(&cluster, "low").await.is_none());
    assert_eq!(events(&cluster, "mid", "Preempted").await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_which_enough_must_run_stays_as_long_as_another_can_go() {
    let cluster = cluster(1).await;
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "protected"}}}});
    create(&cluster, [pod("free", "low", "16")]).await;
    // The younger one would have to leave, if it were not protected.
    cluster.advance(Duration::from_secs(5)).await;
    create(&cluster, [pod("protected", "low", "16"), budget]).await;
    create(&cluster, [pod("high", "high", "16")]).await;
    cluster.advance(Duration::from_secs(10)).await;
    assert_eq!(placed(&cluster).await, ["high on node-0", "protected on node-0"]);
    // If nothing else helps, the budget does not.
    create(&cluster, [pod("higher", "high", "16")]).await;
    cluster.advance(Duration::from_secs(10)).await;
    assert_eq!(placed(&cluster).await, ["high on node-0", "higher on node-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_preempts_never_waits_in_its_place_of_the_queue() {
    let cluster = cluster(1).await;
    create(&cluster, [pod("low", "low", "32"), pod("patient", "patient", "32")]).await;
    cluster.advance(Duration::from_secs(30)).await;
    assert_eq!(placed(&cluster).await, ["low on node-0"]);
    let why = condition(&cluster, "patient", "PodScheduled").await.unwrap().message.unwrap();
    assert_eq!(
        why,
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never."
    );
    assert_eq!(nominated(&cluster, "patient").await, None);
    cluster.api::<Pod>("default").delete("low", &Default::default()).await.unwrap();
    cluster.advance(Duration::from_secs(10)).await;
    assert_eq!(placed(&cluster).await, ["patient on node-0"]);
}

#[tokio::test(start_paused = true)]
async fn nobody_leaves_if_that_would_not_help() {
    let cluster = cluster(2).await;
    create(&cluster, [pod("low", "low", "20"), pod("equal", "high", "20")]).await;
    create(&cluster, [pod("large", "high", "33"), pod("picky", "high", "20")]).await;
    cluster.advance(Duration::from_secs(30)).await;
    let said = condition(&cluster, "large", "PodScheduled").await.unwrap().message.unwrap();
    assert_eq!(
        said,
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    );
    assert_eq!(events(&cluster, "equal", "Preempted").await.len(), 0);
    // The one that fits without the low one got its place.
    let placed = placed(&cluster).await;
    assert!(placed.iter().any(|pod| pod.starts_with("picky")) && placed.len() == 2, "{placed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_port_and_a_neighbour_that_is_not_wanted_are_reasons_too() {
    let cluster = cluster(1).await;
    let mut web = pod("web", "low", "1");
    web["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 8080}]);
    create(&cluster, [web.clone(), pod("bystander", "low", "1")]).await;
    web["metadata"]["name"] = json!("next");
    web["spec"]["priorityClassName"] = json!("mid");
    create(&cluster, [web]).await;
    cluster.advance(Duration::from_secs(10)).await;
    assert_eq!(placed(&cluster).await, ["bystander on node-0", "next on node-0"]);
    let mut lonely = pod("lonely", "high", "1");
    lonely["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "bystander"}}, "topologyKey": "kubernetes.io/hostname"}]}});
    create(&cluster, [lonely]).await;
    cluster.advance(Duration::from_secs(10)).await;
    assert_eq!(placed(&cluster).await, ["lonely on node-0", "next on node-0"]);
}

#[tokio::test(start_paused = true)]
async fn the_more_important_of_two_gets_the_room_that_was_made_for_the_other() {
    let cluster = cluster(1).await;
    create(&cluster, [slow("low", "low", "32"), pod("mid", "mid", "32")]).await;
    assert_eq!(nominated(&cluster, "mid").await.as_deref(), Some("node-0"));
    create(&cluster, [pod("high", "high", "32")]).await;
    assert_eq!(nominated(&cluster, "high").await.as_deref(), Some("node-0"));
    assert_eq!(nominated(&cluster, "mid").await, None, "it is not kept for both");
    cluster.advance(Duration::from_secs(GRACE_SECONDS)).await;
    cluster.settle().await;
    assert_eq!(placed(&cluster).await, ["high on node-0"]);
    let said = condition(&cluster, "mid", "PodScheduled").await.unwrap().message.unwrap();
    assert!(
        said.ends_with("preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."),
        "{said}"
    );
    assert_eq!(events(&cluster, "low", "Preempted").await.len(), 1, "it had to leave once");
}

#[tokio::test(start_paused = true)]
async fn room_is_free_again_when_the_pod_that_it_was_made_for_is_deleted() {
    let cluster = cluster(1).await;
    create(&cluster, [slow("low", "low", "32"), pod("high", "high", "32"), pod("small", "low", "1")]).await;
    cluster.advance(Duration::from_secs(GRACE_SECONDS / 2)).await;
    cluster.api::<Pod>("default").delete("high", &Default::default()).await.unwrap();
    cluster.advance(Duration::from_secs(GRACE_SECONDS)).await;
    cluster.settle().await;
    assert_eq!(placed(&cluster).await, ["small on node-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_nomination_survives_the_scheduler() {
    let cluster = cluster(1).await;
    create(&cluster, [slow("low", "low", "32"), pod("high", "high", "30")]).await;
    cluster.crash_scheduler().await;
    cluster.start_scheduler();
    create(&cluster, [pod("mid", "mid", "30")]).await;
    cluster.advance(Duration::from_secs(GRACE_SECONDS)).await;
    cluster.settle().await;
    assert_eq!(placed(&cluster).await, ["high on node-0"]);
    assert_eq!(nominated(&cluster, "mid").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_waits_for_its_volumes_gives_its_node_up_and_is_not_deleted() {
    let cluster = cluster(1).await;
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "slow"},
        "provisioner": "example.com/slow", "volumeBindingMode": "WaitForFirstConsumer"});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"},
        "spec": {"storageClassName": "slow", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let mut low = pod("low", "low", "32");
    low["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    create(&cluster, [class, claim, low]).await;
    assert!(placed(&cluster).await.is_empty(), "nobody makes its volume");
    create(&cluster, [pod("high", "high", "32")]).await;
    cluster.advance(Duration::from_secs(10)).await;
    assert_eq!(placed(&cluster).await, ["high on node-0"]);
    let low = get(&cluster, "low").await.expect("it waits for another node");
    assert!(low.metadata.deletion_timestamp.is_none());
    let told = events(&cluster, "low", "Preempted").await;
    let high = get(&cluster, "high").await.unwrap().metadata.uid.unwrap();
    let expected = format!("Preempted by pod {high} on node node-0 (in kube-scheduler memory).");
    assert_eq!(told[0].message, Some(expected));
}
