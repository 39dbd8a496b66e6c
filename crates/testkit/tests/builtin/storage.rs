//! The loop that brings claims and volumes together, and the scheduler where it has a part in it.

use crate::{create, delete, pod, torture, with};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use pintle_testkit::Scenario;
use serde_json::{Value, json};

fn volume(name: &str, size: &str, spec: Value) -> Value {
    let mut volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
        "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/var/nothing"}}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        volume["spec"][field] = value.clone();
    }
    volume
}

fn claim(name: &str, size: &str, spec: Value) -> Value {
    let metadata = json!({"name": name, "namespace": "default"});
    let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": size}}}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        claim["spec"][field] = value.clone();
    }
    claim
}

#[test]
fn claims_and_volumes_find_each_other_wherever_their_loop_is_lost() {
    let scenario = Scenario::of("persistentvolume-controller")
        .on(with(&["volumes", "protection"], 0, false))
        // Which version of the claim the volume was given to depends on the way.
        .ignoring("claimRef.resourceVersion")
        .setup(|cluster| async move {
            create(&cluster, volume("large", "9Gi", json!({}))).await;
            create(&cluster, volume("small", "3Gi", json!({}))).await;
            let reserved = json!({"claimRef": {"namespace": "default", "name": "expected"}});
            create(&cluster, volume("reserved", "1Gi", reserved)).await;
        })
        .steps(|cluster| async move {
            let by_hand = json!({"storageClassName": "by-hand"});
            create(&cluster, claim("chooses", "2Gi", json!({}))).await;
            create(&cluster, claim("expected", "1Gi", json!({}))).await;
            create(&cluster, claim("waits", "99Gi", json!({}))).await;
            create(&cluster, claim("early", "1Gi", by_hand.clone())).await;
            let named = json!({"storageClassName": "named", "volumeName": "named"});
            create(&cluster, claim("names", "1Gi", named)).await;
            cluster.settle().await;
            create(&cluster, volume("late", "2Gi", by_hand)).await;
            create(&cluster, volume("named", "2Gi", json!({"storageClassName": "named"}))).await;
        });
    torture(&scenario);
}

#[test]
fn a_volume_outlives_its_claim_and_is_not_given_to_the_next_wherever_its_loop_is_lost() {
    let scenario = Scenario::of("persistentvolume-controller")
        .on(with(&["volumes", "protection"], 0, false))
        .ignoring("claimRef.resourceVersion")
        // Claims that are gone have no name by which two runs could be compared.
        .ignoring("kept: spec.claimRef.uid")
        .ignoring("failed: spec.claimRef.uid")
        .setup(|cluster| async move {
            create(&cluster, volume("kept", "1Gi", json!({}))).await;
            create(&cluster, volume("failed", "5Gi", json!({"persistentVolumeReclaimPolicy": "Delete"}))).await;
            create(&cluster, volume("gone", "9Gi", json!({}))).await;
            for (name, size) in [("keeps", "1Gi"), ("fails", "5Gi"), ("loses", "9Gi")] {
                create(&cluster, claim(name, size, json!({}))).await;
            }
        })
        .steps(|cluster| async move {
            for name in ["keeps", "fails"] {
                delete::<PersistentVolumeClaim>(&cluster, name, DeleteParams::default()).await;
            }
            cluster.settle().await;
            create(&cluster, claim("keeps", "1Gi", json!({}))).await;
            // By force: the protection of a volume that is bound is taken off.
            let volumes: Api<PersistentVolume> = Api::all(cluster.client());
            volumes.delete("gone", &DeleteParams::default()).await.unwrap();
            let unprotected = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            volumes.patch("gone", &PatchParams::default(), &unprotected).await.unwrap();
        });
    torture(&scenario);
}

#[test]
fn a_claim_without_a_class_gets_the_default_and_asks_its_provisioner_wherever_the_loop_is_lost() {
    let scenario = Scenario::of("persistentvolume-controller")
        .on(with(&["volumes"], 0, false))
        .steps(|cluster| async move {
            let mut open = claim("open", "1Gi", json!({}));
            open["spec"].as_object_mut().unwrap().remove("storageClassName");
            create(&cluster, open).await;
            cluster.settle().await;
            create(
                &cluster,
                json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "example.com/disk",
                    "metadata": {"name": "disk", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}),
            )
            .await;
        });
    torture(&scenario);
}

#[test]
fn a_pod_gets_its_volume_with_its_node_wherever_the_scheduler_is_lost() {
    let scenario = Scenario::of("kube-scheduler")
        .on(with(&["volumes", "serviceaccount", "nodelifecycle"], 2, true))
        .ignoring("claimRef.resourceVersion")
        .setup(|cluster| async move {
            let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"},
                "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"});
            create(&cluster, class).await;
            create(&cluster, local("disk", "2Gi", "node-1")).await;
            create(&cluster, local("large", "9Gi", "node-1")).await;
        })
        .steps(|cluster| async move {
            create(&cluster, claim("first", "2Gi", json!({"storageClassName": "local"}))).await;
            create(&cluster, claim("second", "9Gi", json!({"storageClassName": "local"}))).await;
            create(&cluster, claim("none", "99Gi", json!({"storageClassName": "local"}))).await;
            for (name, claim) in [("one", "first"), ("two", "second"), ("waits", "none")] {
                create(&cluster, user(name, claim)).await;
            }
        });
    torture(&scenario);
    // Why a Pod waits cannot be written at first.
    scenario.explore(187..188);
}

/// A volume that only one node reaches.
fn local(name: &str, size: &str, node: &str) -> Value {
    let terms = json!([{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]);
    let affinity = json!({"required": {"nodeSelectorTerms": terms}});
    volume(name, size, json!({"storageClassName": "local", "nodeAffinity": affinity}))
}

fn user(name: &str, claim: &str) -> Value {
    let mut user = pod(name);
    user["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    user
}

/// Kubernetes issue 19860: a provisioner that had not seen what it wrote made two volumes for one claim. external-provisioner
/// issue 1469: one that had not seen that the claim was gone made a volume that nobody removes.
#[test]
fn a_claim_gets_one_volume_of_its_own_wherever_the_provisioner_is_lost() {
    let loops = ["localpath", "volumes", "protection", "serviceaccount", "nodelifecycle"];
    let local = |name: &str| claim(name, "1Gi", json!({"storageClassName": "local-path"}));
    let scenario = Scenario::of("local-path-provisioner")
        .on(with(&loops, 1, true).local_volumes())
        .ignoring("claimRef.resourceVersion")
        .setup(move |cluster| async move {
            // Only a claim that has a volume can grow.
            cluster.settle().await;
            create(&cluster, local("grows")).await;
            create(&cluster, user("user-of-grows", "grows")).await;
        })
        .steps(move |cluster| async move {
            for name in ["kept", "goes", "unused"] {
                create(&cluster, local(name)).await;
            }
            for name in ["kept", "goes"] {
                create(&cluster, user(&format!("user-of-{name}"), name)).await;
            }
            cluster.settle().await;
            let pods: Api<k8s_openapi::api::core::v1::Pod> = cluster.api("default");
            let _ = pods.delete("user-of-goes", &DeleteParams::default()).await;
            delete::<PersistentVolumeClaim>(&cluster, "goes", DeleteParams::default()).await;
            let more = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
            let claims: Api<PersistentVolumeClaim> = cluster.api("default");
            let _ = claims.patch("grows", &PatchParams::default(), &Patch::Merge(more)).await;
        });
    torture(&scenario);
}

#[test]
fn an_ephemeral_volume_comes_and_goes_with_its_pod_wherever_its_loop_is_lost() {
    let loops = ["ephemeralvolume", "localpath", "volumes", "protection", "garbage", "serviceaccount", "nodelifecycle"];
    let scenario = Scenario::of("ephemeral-volume-controller")
        .on(with(&loops, 1, true).local_volumes())
        .ignoring("claimRef.resourceVersion")
        .patience(std::time::Duration::from_secs(60))
        .steps(|cluster| async move {
            let spec = claim("", "1Gi", json!({"storageClassName": "local-path"}))["spec"].clone();
            for name in ["stays", "goes"] {
                let mut user = pod(name);
                user["spec"]["volumes"] =
                    json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]);
                create(&cluster, user).await;
            }
            cluster.settle().await;
            delete::<k8s_openapi::api::core::v1::Pod>(&cluster, "goes", DeleteParams::default()).await;
        });
    torture(&scenario);
}
