//! A Pod with a claim lands where its volume is.

use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{Api, DeleteParams, ListParams};
use pintle_testkit::Cluster;
use serde_json::{Value, json};
use std::time::Duration;

async fn class(cluster: &Cluster, name: &str, provisioner: &str) {
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"});
    cluster.create(class).await.unwrap();
}

async fn volume(cluster: &Cluster, name: &str, node: &str, class: &str) {
    let terms = json!([{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]);
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "local": {"path": "/nowhere"}, "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}});
    cluster.create(volume).await.unwrap();
}

async fn claim(cluster: &Cluster, name: &str, class: &str) {
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}}});
    cluster.create(claim).await.unwrap();
}

async fn pod(cluster: &Cluster, name: &str, claim: &str) {
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"volumes": volumes, "containers": [{"name": "c", "image": "i"}]}});
    cluster.create(pod).await.unwrap();
}

async fn node_of(cluster: &Cluster, name: &str) -> Option<String> {
    cluster.api::<Pod>("default").get(name).await.unwrap().spec.unwrap().node_name
}

async fn condition(cluster: &Cluster, name: &str) -> String {
    let pod: Value = serde_json::to_value(cluster.api::<Pod>("default").get(name).await.unwrap()).unwrap();
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let scheduled = conditions.into_iter().find(|condition| condition["type"] == "PodScheduled");
    scheduled.map(|condition| condition["message"].as_str().unwrap_or_default().to_owned()).unwrap_or_default()
}

async fn reasons(cluster: &Cluster, name: &str) -> Vec<String> {
    let events = cluster.api::<Event>("default").list(&ListParams::default()).await.unwrap().items;
    let about = events.into_iter().filter(|event| event.involved_object.name.as_deref() == Some(name));
    about.filter_map(|event| event.reason).collect()
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_its_claim_and_then_goes_where_the_volume_is() {
    let cluster = Cluster::builder().nodes(3).start().await;
    cluster.settle().await;
    pod(&cluster, "p", "data").await;
    cluster.settle().await;
    let missing = "0/3 nodes are available: persistentvolumeclaim \"data\" not found. not found";
    assert_eq!(condition(&cluster, "p").await, missing);
    claim(&cluster, "data", "").await;
    cluster.settle().await;
    let immediate = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found";
    assert_eq!(condition(&cluster, "p").await, immediate);
    assert_eq!(reasons(&cluster, "data").await, ["FailedBinding"]);
    volume(&cluster, "disk", "node-2", "").await;
    // A Pod that was tried before is not tried again at once.
    cluster.advance(Duration::from_secs(10)).await;
    cluster.settle().await;
    assert_eq!(node_of(&cluster, "p").await.as_deref(), Some("node-2"));
    let claims = cluster.api::<PersistentVolumeClaim>("default");
    let status = claims.get("data").await.unwrap().status.unwrap();
    assert_eq!((status.phase.as_deref(), status.capacity.unwrap()["storage"].0.as_str()), (Some("Bound"), "1Gi"));
}

#[tokio::test(start_paused = true)]
async fn the_first_pod_chooses_and_the_next_follows() {
    let cluster = Cluster::builder().nodes(3).start().await;
    cluster.settle().await;
    class(&cluster, "local", "kubernetes.io/no-provisioner").await;
    claim(&cluster, "data", "local").await;
    volume(&cluster, "far", "node-9", "local").await;
    cluster.settle().await;
    assert_eq!(reasons(&cluster, "data").await, ["WaitForFirstConsumer"]);
    pod(&cluster, "first", "data").await;
    cluster.settle().await;
    let none = "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind. no new claims to \
                deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
    assert_eq!(condition(&cluster, "first").await, none);
    volume(&cluster, "near", "node-1", "local").await;
    cluster.settle().await;
    assert_eq!(node_of(&cluster, "first").await.as_deref(), Some("node-1"));
    pod(&cluster, "next", "data").await;
    cluster.settle().await;
    assert_eq!(node_of(&cluster, "next").await.as_deref(), Some("node-1"));
    let volumes: Api<PersistentVolume> = Api::all(cluster.client());
    let near = volumes.get("near").await.unwrap();
    assert_eq!(near.status.unwrap().phase.as_deref(), Some("Bound"));
    for name in ["first", "next"] {
        cluster.api::<Pod>("default").delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
    }
    cluster.api::<PersistentVolumeClaim>("default").delete("data", &DeleteParams::default()).await.unwrap();
    cluster.settle().await;
    assert_eq!(volumes.get("near").await.unwrap().status.unwrap().phase.as_deref(), Some("Released"));
}

#[tokio::test(start_paused = true)]
async fn a_provisioner_outside_learns_for_which_node_a_volume_is_wanted() {
    let cluster = Cluster::builder().nodes(1).start().await;
    cluster.settle().await;
    class(&cluster, "disk", "example.com/disk").await;
    claim(&cluster, "data", "disk").await;
    pod(&cluster, "p", "data").await;
    cluster.settle().await;
    let claims = cluster.api::<PersistentVolumeClaim>("default");
    let data = claims.get("data").await.unwrap();
    let annotations = data.metadata.annotations.clone().unwrap();
    assert_eq!(annotations["volume.kubernetes.io/selected-node"], "node-0");
    assert_eq!(annotations["volume.kubernetes.io/storage-provisioner"], "example.com/disk");
    assert!(reasons(&cluster, "data").await.contains(&"ExternalProvisioning".to_owned()));
    assert_eq!(node_of(&cluster, "p").await, None, "it has its place, and waits for its volume");
    let holder = json!({"namespace": "default", "name": "data", "uid": data.metadata.uid});
    let made = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "made"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "disk",
        "csi": {"driver": "example.com", "volumeHandle": "1"}, "claimRef": holder}});
    cluster.create(made).await.unwrap();
    cluster.settle().await;
    assert_eq!(node_of(&cluster, "p").await.as_deref(), Some("node-0"));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_names_no_class_gets_a_volume_where_its_pod_runs_and_gives_it_back() {
    use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
    use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
    use serde_json::json;
    let cluster = pintle_testkit::Cluster::builder().nodes(2).local_volumes().start().await;
    cluster.settle().await;
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let scratch = json!({"spec": claim["spec"]});
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "default"},
        "spec": {"replicas": 2, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
            "volumeClaimTemplates": [claim], "template": {"metadata": {"labels": {"app": "db"}}, "spec": {
                "terminationGracePeriodSeconds": 1,
                "volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": scratch}}],
                "containers": [{"name": "c", "image": "db:1", "volumeMounts": [{"name": "data", "mountPath": "/d"},
                    {"name": "scratch", "mountPath": "/s"}]}]}}}});
    cluster.create(set).await.unwrap();
    cluster.settle().await;
    let volumes: Api<PersistentVolume> = Api::all(cluster.client());
    let claims: Api<PersistentVolumeClaim> = cluster.api("default");
    let all = || async { volumes.list(&ListParams::default()).await.unwrap().items };
    assert_eq!(all().await.len(), 4, "two claims of the set, two of ephemeral volumes");
    for name in ["db-0", "db-1"] {
        let pod = cluster.api::<Pod>("default").get(name).await.unwrap();
        assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Running"));
        let claim = claims.get(&format!("data-{name}")).await.unwrap();
        let spec = claim.spec.unwrap();
        assert_eq!(
            (spec.storage_class_name.as_deref(), claim.status.unwrap().phase.as_deref()),
            (Some("local-path"), Some("Bound"))
        );
        let volume = volumes.get(&spec.volume_name.unwrap()).await.unwrap().spec.unwrap();
        let term = &volume.node_affinity.unwrap().required.unwrap().node_selector_terms[0];
        assert_eq!(
            term.match_expressions.as_ref().unwrap()[0].values,
            pod.spec.unwrap().node_name.map(|node| vec![node])
        );
    }
    let more = Patch::Merge(json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}}));
    claims.patch("data-db-0", &PatchParams::default(), &more).await.unwrap();
    cluster.settle().await;
    let grown = claims.get("data-db-0").await.unwrap();
    assert_eq!(grown.status.unwrap().capacity.unwrap()["storage"].0, "3Gi");
    // Scaled down, the claim stays and its ephemeral volume goes; deleted, everything goes.
    let sets: Api<k8s_openapi::api::apps::v1::StatefulSet> = cluster.api("default");
    let fewer = Patch::Merge(json!({"spec": {"replicas": 1}}));
    sets.patch("db", &PatchParams::default(), &fewer).await.unwrap();
    cluster.advance(std::time::Duration::from_secs(30)).await;
    assert_eq!(all().await.len(), 3);
    sets.delete("db", &DeleteParams::default()).await.unwrap();
    cluster.advance(std::time::Duration::from_secs(60)).await;
    assert_eq!(all().await.len(), 0);
    assert_eq!(claims.list(&ListParams::default()).await.unwrap().items.len(), 0);
}
