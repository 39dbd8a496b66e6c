//! One Pod on every node, also on those that come later.

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use pintle_testkit::Cluster;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn set(change: Value) -> Value {
    let mut set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"terminationGracePeriodSeconds": 1,
                "containers": [{"name": "c", "image": "agent:1"}]}}}});
    for (key, value) in change.as_object().unwrap() {
        set["spec"][key] = value.clone();
    }
    set
}

async fn change(cluster: &Cluster, spec: Value) {
    let sets: Api<DaemonSet> = cluster.api("default");
    sets.patch("agent", &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await.unwrap();
    cluster.settle().await;
}

/// The image on each node.
async fn images(cluster: &Cluster) -> BTreeMap<String, String> {
    let pods = cluster.api::<Pod>("default").list(&ListParams::default()).await.unwrap().items;
    let count = pods.len();
    let images: BTreeMap<String, String> = pods
        .into_iter()
        .map(|pod| pod.spec.unwrap())
        .map(|spec| (spec.node_name.unwrap_or_default(), spec.containers[0].image.clone().unwrap()))
        .collect();
    assert_eq!(images.len(), count, "more than one on a node");
    images
}

async fn status(cluster: &Cluster) -> DaemonSetStatus {
    cluster.api::<DaemonSet>("default").get("agent").await.unwrap().status.unwrap()
}

async fn patch_node(cluster: &Cluster, name: &str, patch: Value) {
    let nodes: Api<Node> = Api::all(cluster.client());
    nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    cluster.settle().await;
}

#[tokio::test(start_paused = true)]
async fn every_node_has_its_pod_also_one_that_joins() {
    let cluster = Cluster::builder().nodes(4).start().await;
    cluster.settle().await;
    let nodes: Api<Node> = Api::all(cluster.client());
    let last = nodes.list(&ListParams::default()).await.unwrap().items[3].name_any();
    // All but the last one.
    cluster.crash_nodes().await;
    nodes.delete(&last, &DeleteParams::default()).await.unwrap();
    cluster.start_nodes_of(3);
    cluster.settle().await;
    cluster.create(set(json!({}))).await.unwrap();
    cluster.settle().await;
    assert_eq!(images(&cluster).await.len(), 3);
    let three = status(&cluster).await;
    assert_eq!((three.desired_number_scheduled, three.number_ready, three.number_available), (3, 3, Some(3)));
    cluster.crash_nodes().await;
    cluster.start_nodes();
    cluster.settle().await;
    assert_eq!(images(&cluster).await.keys().filter(|node| **node == last).count(), 1);
    assert_eq!(status(&cluster).await.number_ready, 4);
}

#[tokio::test(start_paused = true)]
async fn a_cordoned_node_keeps_its_daemon_and_an_evicting_taint_takes_it() {
    let cluster = Cluster::builder().nodes(2).start().await;
    cluster.settle().await;
    cluster.create(set(json!({}))).await.unwrap();
    cluster.settle().await;
    patch_node(&cluster, "node-0", json!({"spec": {"unschedulable": true}})).await;
    assert_eq!(images(&cluster).await.len(), 2);
    cluster.api::<Pod>("default").delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    cluster.settle().await;
    assert_eq!(images(&cluster).await.len(), 2, "a cordon does not keep daemons out");
    let taint = |effect: &str| json!({"spec": {"taints": [{"key": "mine", "effect": effect}]}});
    patch_node(&cluster, "node-1", taint("NoSchedule")).await;
    assert_eq!(images(&cluster).await.len(), 2, "it may stay");
    assert_eq!(status(&cluster).await.number_misscheduled, 1);
    patch_node(&cluster, "node-1", taint("NoExecute")).await;
    assert_eq!(images(&cluster).await.into_keys().collect::<Vec<_>>(), ["node-0"]);
    patch_node(&cluster, "node-1", json!({"spec": {"taints": null}})).await;
    assert_eq!(images(&cluster).await.len(), 2);
    // Only where a label says so.
    change(&cluster, json!({"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}})).await;
    assert!(images(&cluster).await.is_empty());
    patch_node(&cluster, "node-0", json!({"metadata": {"labels": {"disk": "ssd"}}})).await;
    assert_eq!(images(&cluster).await.into_keys().collect::<Vec<_>>(), ["node-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_new_template_reaches_every_node_in_place_and_by_surge() {
    let cluster = Cluster::builder().nodes(3).start().await;
    cluster.settle().await;
    cluster.create(set(json!({}))).await.unwrap();
    cluster.settle().await;
    let image = |image: &str| json!({"template": {"spec": {"containers": [{"name": "c", "image": image}]}}});
    change(&cluster, image("agent:2")).await;
    assert!(images(&cluster).await.values().all(|image| image == "agent:2"));
    let surge = json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "50%"}}});
    change(&cluster, surge).await;
    change(&cluster, image("agent:3")).await;
    assert!(images(&cluster).await.values().all(|image| image == "agent:3"));
    let done = status(&cluster).await;
    assert_eq!((done.updated_number_scheduled, done.number_available), (Some(3), Some(3)));
    let on_delete = json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}});
    change(&cluster, on_delete).await;
    change(&cluster, image("agent:1")).await;
    assert!(images(&cluster).await.values().all(|image| image == "agent:3"));
    cluster.api::<Pod>("default").delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    cluster.settle().await;
    assert!(images(&cluster).await.values().all(|image| image == "agent:1"));
    let mut revisions = cluster.api::<ControllerRevision>("default").list(&ListParams::default()).await.unwrap().items;
    revisions.sort_by_key(|revision| revision.revision);
    let numbers: Vec<i64> = revisions.iter().map(|revision| revision.revision).collect();
    assert_eq!(numbers, [2, 3, 4], "the first template is the newest again");
    let pods = cluster.api::<Pod>("default").list(&ListParams::default()).await.unwrap().items;
    let hash = &revisions[2].labels()["controller-revision-hash"];
    assert!(pods.iter().all(|pod| &pod.labels()["controller-revision-hash"] == hash));
    assert!(pods.iter().all(|pod| pod.labels()["pod-template-generation"] == "4"));
}

#[tokio::test(start_paused = true)]
async fn a_revision_made_by_hand_stays_until_the_set_is_looked_at_again() {
    let cluster = Cluster::builder().nodes(1).start().await;
    cluster.settle().await;
    cluster.create(set(json!({}))).await.unwrap();
    cluster.settle().await;
    let revisions: Api<ControllerRevision> = cluster.api("default");
    let all = || async { revisions.list(&ListParams::default()).await.unwrap().items };
    let made = all().await.remove(0);
    let mut twin = made.clone();
    twin.metadata.name = Some("twin".to_owned());
    (twin.metadata.uid, twin.metadata.resource_version) = (None, None);
    twin.labels_mut().insert("controller-revision-hash".to_owned(), "twin".to_owned());
    twin.revision = made.revision + 1;
    revisions.create(&kube::api::PostParams::default(), &twin).await.unwrap();
    cluster.settle().await;
    assert_eq!(all().await.len(), 2);
    // Now there is a reason: the highest number stays, and the Pods are labelled with its hash.
    let annotated = json!({"metadata": {"annotations": {"looked": "at"}}});
    let sets: Api<DaemonSet> = cluster.api("default");
    sets.patch("agent", &PatchParams::default(), &Patch::Merge(annotated)).await.unwrap();
    cluster.settle().await;
    assert_eq!(all().await.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["twin"]);
    let pods = cluster.api::<Pod>("default").list(&ListParams::default()).await.unwrap().items;
    assert_eq!(pods.len(), 1, "no Pod was replaced");
    assert_eq!(pods[0].labels()["controller-revision-hash"], "twin");
}

#[tokio::test(start_paused = true)]
async fn three_hundred_nodes_get_a_daemon_and_a_new_one() {
    let cluster = Cluster::builder().nodes(300).start().await;
    cluster.settle().await;
    cluster
        .create(set(json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "20%"}}})))
        .await
        .unwrap();
    cluster.settle().await;
    assert_eq!(status(&cluster).await.number_ready, 300);
    change(&cluster, json!({"template": {"spec": {"containers": [{"name": "c", "image": "agent:2"}]}}})).await;
    let done = status(&cluster).await;
    assert_eq!((done.updated_number_scheduled, done.number_ready), (Some(300), 300));
}
