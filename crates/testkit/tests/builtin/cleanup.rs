//! Loops that take away what is no longer wanted, and hold back what is still in use.

use crate::{create, delete, deployment, pod, torture, with};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolumeClaim, Pod};
use kube::api::{Api, DeleteParams};
use pintle_testkit::Scenario;
use serde_json::json;
use std::time::Duration;

#[test]
fn dependents_go_with_their_owner_wherever_the_garbage_collector_is_lost() {
    let loops = ["deployment", "replicaset", "garbage", "serviceaccount", "nodelifecycle"];
    let scenario = Scenario::of("garbage-collector")
        .on(with(&loops, 1, true))
        .setup(|cluster| async move {
            for name in ["front", "back", "orphan"] {
                let mut owner = deployment(1, "web:1");
                owner["metadata"]["name"] = json!(name);
                owner["spec"]["selector"]["matchLabels"]["app"] = json!(name);
                owner["spec"]["template"]["metadata"]["labels"]["app"] = json!(name);
                create(&cluster, owner).await;
            }
        })
        .steps(|cluster| async move {
            delete::<Deployment>(&cluster, "front", DeleteParams::foreground()).await;
            cluster.settle().await;
            delete::<Deployment>(&cluster, "back", DeleteParams::background()).await;
            delete::<Deployment>(&cluster, "orphan", DeleteParams::orphan()).await;
        });
    torture(&scenario);
}

#[test]
fn a_namespace_goes_with_everything_in_it_wherever_its_loop_is_lost() {
    let scenario = Scenario::of("namespace-controller")
        .on(with(&["namespace", "serviceaccount", "nodelifecycle"], 1, true))
        .patience(Duration::from_secs(60))
        .setup(|cluster| async move {
            create(&cluster, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "doomed"}})).await;
            cluster.settle().await;
            let mut running = pod("p");
            running["metadata"]["namespace"] = json!("doomed");
            create(&cluster, running).await;
            for name in ["x", "y"] {
                let metadata = json!({"name": name, "namespace": "doomed"});
                create(&cluster, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).await;
            }
        })
        .steps(|cluster| async move {
            Api::<Namespace>::all(cluster.client()).delete("doomed", &DeleteParams::default()).await.unwrap();
        });
    torture(&scenario);
}

#[test]
fn a_claim_in_use_stays_and_an_unused_one_goes_wherever_its_protection_is_lost() {
    let claim = |name: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
    };
    let scenario = Scenario::of("pvc-protection-controller")
        .on(with(&["protection", "serviceaccount"], 0, false))
        .steps(move |cluster| async move {
            create(&cluster, claim("used")).await;
            create(&cluster, claim("unused")).await;
            create(&cluster, claim("kept")).await;
            for (name, claim) in [("user", "used"), ("keeper", "kept")] {
                let mut user = pod(name);
                user["spec"]["nodeName"] = json!("somewhere");
                user["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
                create(&cluster, user).await;
            }
            cluster.settle().await;
            for name in ["used", "unused", "kept"] {
                delete::<PersistentVolumeClaim>(&cluster, name, DeleteParams::default()).await;
            }
            cluster.settle().await;
            delete::<Pod>(&cluster, "user", DeleteParams::default().grace_period(0)).await;
        });
    torture(&scenario);
}

#[test]
fn every_namespace_has_its_default_account_wherever_that_loop_is_lost() {
    let scenario =
        Scenario::of("serviceaccount-controller").on(with(&["serviceaccount"], 0, false)).steps(|cluster| async move {
            for name in ["a", "b"] {
                create(&cluster, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
            }
            cluster.settle().await;
            let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> = Api::namespaced(cluster.client(), "a");
            let _ = accounts.delete("default", &DeleteParams::default()).await;
        });
    torture(&scenario);
    // The list that would show what was missed is refused for a while.
    scenario.explore(145..146);
}

#[test]
fn every_namespace_has_the_servers_certificate_wherever_that_loop_is_lost() {
    let scenario = Scenario::of("root-ca-cert-publisher").on(with(&["rootca"], 0, false)).steps(|cluster| async move {
        for name in ["a", "b"] {
            create(&cluster, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
        }
        cluster.settle().await;
        let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "a");
        let _ = maps.delete("kube-root-ca.crt", &DeleteParams::default()).await;
    });
    torture(&scenario);
    // The list that would show what was missed is refused for a while.
    scenario.explore(145..146);
}

#[test]
fn a_quota_gives_back_what_is_freed_wherever_its_loop_is_lost() {
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
    let scenario = Scenario::of("resourcequota-controller")
        .on(with(&["resourcequota", "serviceaccount"], 0, false))
        .steps(move |cluster| async move {
            create(&cluster, map("before")).await;
            let hard = json!({"configmaps": "3", "pods": "1", "requests.storage": "1Gi"});
            create(
                &cluster,
                json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"},
                    "spec": {"hard": hard}}),
            )
            .await;
            cluster.settle().await;
            create(&cluster, pod("p")).await;
            create(&cluster, map("after")).await;
            cluster.settle().await;
            delete::<ConfigMap>(&cluster, "before", DeleteParams::default()).await;
            delete::<Pod>(&cluster, "p", DeleteParams::default().grace_period(0)).await;
        });
    torture(&scenario);
}

#[test]
fn a_secret_has_the_token_of_its_account_and_goes_with_it_wherever_that_loop_is_lost() {
    let account = |name: &str| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}});
    let secret = |name: &str, account: &str| {
        let metadata = json!({"name": name, "namespace": "default",
            "annotations": {"kubernetes.io/service-account.name": account}});
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/service-account-token"})
    };
    let scenario = Scenario::of("tokens-controller")
        .on(with(&["serviceaccounttoken", "serviceaccount"], 0, false))
        // A signature is a matter of chance, and the UID of the account is in what is signed.
        .ignoring("data.token")
        .steps(move |cluster| async move {
            for name in ["robot", "gone"] {
                create(&cluster, account(name)).await;
                create(&cluster, secret(&format!("of-{name}"), name)).await;
            }
            create(&cluster, secret("of-nobody", "nobody")).await;
            cluster.settle().await;
            delete::<k8s_openapi::api::core::v1::ServiceAccount>(&cluster, "gone", DeleteParams::default()).await;
        });
    torture(&scenario);
}
