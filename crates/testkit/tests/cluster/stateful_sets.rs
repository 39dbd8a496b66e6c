//! Pods with names and storage of their own, from the first start to the last deletion.

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use pintle_testkit::Cluster;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn set(replicas: u32, change: Value) -> Value {
    let mut set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "default"},
        "spec": {"replicas": replicas, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"terminationGracePeriodSeconds": 1,
                "containers": [{"name": "c", "image": "db:1"}]}}}});
    for (key, value) in change.as_object().unwrap() {
        set["spec"][key] = value.clone();
    }
    set
}

async fn start(nodes: u16) -> Cluster {
    let cluster = Cluster::builder().nodes(nodes).start().await;
    cluster.settle().await;
    cluster
}

async fn change(cluster: &Cluster, spec: Value) {
    let sets: Api<StatefulSet> = cluster.api("default");
    sets.patch("db", &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await.unwrap();
    cluster.settle().await;
}

async fn use_image(cluster: &Cluster, image: &str) {
    change(cluster, json!({"template": {"spec": {"containers": [{"name": "c", "image": image}]}}})).await;
}

/// Names and images.
async fn pods(cluster: &Cluster) -> Vec<String> {
    let pods = cluster.api::<Pod>("default").list(&ListParams::default()).await.unwrap().items;
    pods.iter().map(|pod| format!("{} {}", pod.name_any(), image(pod))).collect()
}

fn image(pod: &Pod) -> String {
    pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap()
}

async fn claims(cluster: &Cluster) -> Vec<String> {
    let claims = cluster.api::<PersistentVolumeClaim>("default").list(&ListParams::default()).await.unwrap().items;
    claims.iter().map(ResourceExt::name_any).collect()
}

async fn status(cluster: &Cluster) -> StatefulSetStatus {
    cluster.api::<StatefulSet>("default").get("db").await.unwrap().status.unwrap()
}

async fn revisions(cluster: &Cluster) -> Vec<ControllerRevision> {
    let mut all = cluster.api::<ControllerRevision>("default").list(&ListParams::default()).await.unwrap().items;
    all.sort_by_key(|revision| revision.revision);
    all
}

/// What Events say about the set, in order.
async fn told(cluster: &Cluster) -> Vec<String> {
    let mut events = cluster.api::<Event>("default").list(&ListParams::default()).await.unwrap().items;
    events.retain(|event| event.involved_object.kind.as_deref() == Some("StatefulSet"));
    events.sort_by_key(|event| event.metadata.resource_version.clone().unwrap().parse::<u64>().unwrap());
    events.into_iter().map(|event| event.message.unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn pods_start_in_order_and_go_in_the_other() {
    let cluster = start(2).await;
    cluster.create(set(3, json!({}))).await.unwrap();
    cluster.settle().await;
    assert_eq!(pods(&cluster).await, ["db-0 db:1", "db-1 db:1", "db-2 db:1"]);
    let all = cluster.api::<Pod>("default").list(&ListParams::default()).await.unwrap().items;
    let ready = |pod: &Pod| {
        let conditions = pod.status.as_ref().unwrap().conditions.clone().unwrap();
        conditions.into_iter().find(|condition| condition.type_ == "Ready").unwrap().last_transition_time.unwrap().0
    };
    for pair in all.windows(2) {
        let born = pair[1].metadata.creation_timestamp.clone().unwrap().0;
        assert!(ready(&pair[0]) <= born, "{} was made before {} was ready", pair[1].name_any(), pair[0].name_any());
    }
    let first = &all[0];
    assert_eq!(first.spec.as_ref().unwrap().hostname.as_deref(), Some("db-0"));
    assert_eq!(first.labels()["apps.kubernetes.io/pod-index"], "0");
    let status = status(&cluster).await;
    assert_eq!((status.replicas, status.ready_replicas, status.updated_replicas), (3, Some(3), Some(3)));
    assert_eq!(status.current_revision, status.update_revision);
    assert_eq!(first.labels()["controller-revision-hash"], status.current_revision.unwrap());

    change(&cluster, json!({"replicas": 1})).await;
    assert_eq!(pods(&cluster).await, ["db-0 db:1"]);
    let expected = ["Create Pod db-0", "Create Pod db-1", "Create Pod db-2", "Delete Pod db-2", "Delete Pod db-1"];
    let expected: Vec<String> = expected.iter().map(|text| format!("{text} in StatefulSet db successful")).collect();
    assert_eq!(told(&cluster).await, expected);
}

#[tokio::test(start_paused = true)]
async fn an_update_stops_at_the_partition_and_can_be_taken_back() {
    let cluster = start(2).await;
    let partitioned = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}});
    cluster.create(set(4, partitioned)).await.unwrap();
    cluster.settle().await;
    use_image(&cluster, "db:2").await;
    assert_eq!(pods(&cluster).await, ["db-0 db:1", "db-1 db:1", "db-2 db:2", "db-3 db:2"]);
    let halfway = status(&cluster).await;
    assert_eq!((halfway.current_replicas, halfway.updated_replicas), (Some(2), Some(2)));
    assert_ne!(halfway.current_revision, halfway.update_revision);
    // Below the partition a Pod comes back as it was.
    cluster.api::<Pod>("default").delete("db-0", &DeleteParams::default()).await.unwrap();
    cluster.settle().await;
    assert_eq!(pods(&cluster).await[0], "db-0 db:1");
    change(&cluster, json!({"updateStrategy": {"rollingUpdate": {"partition": 0}}})).await;
    assert!(pods(&cluster).await.iter().all(|pod| pod.ends_with("db:2")));
    let done = status(&cluster).await;
    assert_eq!((&done.current_revision, done.current_replicas), (&halfway.update_revision, Some(4)));
    // The first template is the newest revision again.
    use_image(&cluster, "db:1").await;
    let known = revisions(&cluster).await;
    assert_eq!(known.iter().map(|revision| revision.revision).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(status(&cluster).await.update_revision, known[1].metadata.name);
    assert!(pods(&cluster).await.iter().all(|pod| pod.ends_with("db:1")));
}

#[tokio::test(start_paused = true)]
async fn history_is_kept_up_to_its_limit() {
    let cluster = start(1).await;
    cluster.create(set(1, json!({"revisionHistoryLimit": 2}))).await.unwrap();
    cluster.settle().await;
    for number in 2..=6 {
        use_image(&cluster, &format!("db:{number}")).await;
    }
    let numbers: Vec<i64> = revisions(&cluster).await.iter().map(|revision| revision.revision).collect();
    assert_eq!(numbers, [4, 5, 6]);
}

#[tokio::test(start_paused = true)]
async fn a_broken_update_of_an_ordered_set_waits_until_its_pod_is_deleted() {
    let cluster = start(1).await;
    cluster.create(set(2, json!({}))).await.unwrap();
    cluster.settle().await;
    let never_ready = json!({"metadata": {"annotations": {"simulated.pintle.dev/ready-after": "1000h"}}});
    change(
        &cluster,
        json!({"template": {"metadata": never_ready["metadata"],
        "spec": {"containers": [{"name": "c", "image": "db:bad", "readinessProbe": {"exec": {"command": ["x"]}}}]}}}),
    )
    .await;
    if pods(&cluster).await[1] != "db-1 db:bad" {
        panic!("{:?}", pods(&cluster).await);
    }
    let good = json!({"template": {"metadata": {"annotations": null},
        "spec": {"containers": [{"name": "c", "image": "db:1"}]}}});
    change(&cluster, good).await;
    assert_eq!(pods(&cluster).await, ["db-0 db:1", "db-1 db:bad"], "as in Kubernetes, nothing is done about it");
    cluster.api::<Pod>("default").delete("db-1", &DeleteParams::default()).await.unwrap();
    cluster.settle().await;
    assert_eq!(pods(&cluster).await, ["db-0 db:1", "db-1 db:1"]);
}

fn with_claims(replicas: u32, deleted: &str, scaled: &str) -> Value {
    let mut set = set(
        replicas,
        json!({
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": deleted, "whenScaled": scaled},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}}]}),
    );
    set["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    set
}

async fn volumes(cluster: &Cluster, count: u32) {
    for number in 0..count {
        let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("disk-{number}")},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/nowhere"},
                     "persistentVolumeReclaimPolicy": "Retain"}});
        cluster.create(volume).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn claims_outlive_pods_and_set_unless_the_policy_says_otherwise() {
    let cluster = start(1).await;
    volumes(&cluster, 3).await;
    cluster.create(with_claims(3, "Retain", "Retain")).await.unwrap();
    cluster.settle().await;
    assert_eq!(pods(&cluster).await.len(), 3);
    let uid = cluster.api::<PersistentVolumeClaim>("default").get("data-db-2").await.unwrap().uid();
    change(&cluster, json!({"replicas": 1})).await;
    assert_eq!(claims(&cluster).await, ["data-db-0", "data-db-1", "data-db-2"]);
    change(&cluster, json!({"replicas": 3})).await;
    let again = cluster.api::<PersistentVolumeClaim>("default").get("data-db-2").await.unwrap().uid();
    assert_eq!(again, uid, "the Pod has its storage again");
    // The policy may change while the set is there.
    change(
        &cluster,
        json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Delete"}}),
    )
    .await;
    change(&cluster, json!({"replicas": 1})).await;
    assert_eq!(claims(&cluster).await, ["data-db-0"]);
    let sets: Api<StatefulSet> = cluster.api("default");
    sets.delete("db", &DeleteParams::background()).await.unwrap();
    cluster.settle().await;
    assert!(pods(&cluster).await.is_empty());
    assert_eq!(claims(&cluster).await, ["data-db-0"]);
}

#[tokio::test(start_paused = true)]
async fn claims_go_with_their_set_if_the_policy_says_so() {
    let cluster = start(1).await;
    volumes(&cluster, 2).await;
    cluster.create(with_claims(2, "Delete", "Retain")).await.unwrap();
    cluster.settle().await;
    assert_eq!(claims(&cluster).await.len(), 2);
    change(&cluster, json!({"replicas": 1})).await;
    assert_eq!(claims(&cluster).await.len(), 2);
    cluster.api::<StatefulSet>("default").delete("db", &DeleteParams::background()).await.unwrap();
    cluster.settle().await;
    assert!(claims(&cluster).await.is_empty() && pods(&cluster).await.is_empty());
    assert!(revisions(&cluster).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_parallel_set_of_five_hundred_runs_to_the_end() {
    let cluster = start(10).await;
    cluster.create(set(500, json!({"podManagementPolicy": "Parallel"}))).await.unwrap();
    cluster.settle().await;
    let there = status(&cluster).await;
    assert_eq!((there.replicas, there.ready_replicas, there.available_replicas), (500, Some(500), Some(500)));
    let names: BTreeSet<String> = pods(&cluster).await.into_iter().collect();
    assert!(names.contains("db-0 db:1") && names.contains("db-499 db:1") && names.len() == 500);
    change(&cluster, json!({"replicas": 0})).await;
    assert!(pods(&cluster).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_ordered_set_of_two_hundred_runs_to_the_end() {
    let cluster = start(4).await;
    cluster.create(set(200, json!({}))).await.unwrap();
    cluster.settle().await;
    assert_eq!(status(&cluster).await.ready_replicas, Some(200));
    let several = json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": "10%"}}});
    change(&cluster, several).await;
    use_image(&cluster, "db:2").await;
    let done = status(&cluster).await;
    assert_eq!((done.updated_replicas, done.ready_replicas), (Some(200), Some(200)));
}
