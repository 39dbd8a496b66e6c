//! What an operator says with flags and files is what a running server does.

use super::Setup;
use crate::admission;
use crate::authn::User;
use crate::catalogue::Served;
use crate::gates::Gates;
use crate::testing::Cluster;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::path::Path;

const PODS: &str = "/api/v1/namespaces/a/pods";

fn plugins(enabled: &[&str], disabled: &[&str]) -> Setup {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let admission = admission::Setup::of(&owned(enabled), &owned(disabled)).unwrap();
    Setup { admission, ..Setup::default() }
}

/// An AdmissionConfiguration with one plugin.
fn configured(directory: &Path, plugin: &str, configuration: Value) -> Setup {
    let path = directory.join("admission.yaml");
    let file = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
        "plugins": [{"name": plugin, "configuration": configuration}]});
    std::fs::write(&path, file.to_string()).unwrap();
    let mut setup = Setup::default();
    setup.admission.configuration = admission::read(&path).unwrap();
    setup
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    pod
}

fn service(ips: &[&str]) -> Value {
    json!({"metadata": {"generateName": "s-"}, "spec": {"ports": [{"port": 80}], "externalIPs": ips}})
}

#[tokio::test]
async fn a_plugin_is_on_or_off_as_the_operator_says() {
    let host = pod("host", json!({"hostNetwork": true}));
    let baseline =
        json!([{"op": "add", "path": "/metadata/labels/pod-security.kubernetes.io~1enforce", "value": "baseline"}]);
    for (setup, code) in [(Setup::default(), 403), (plugins(&[], &["PodSecurity"]), 201)] {
        let cluster = Cluster::start_with(|_| setup).await;
        let labelled = cluster.send("PATCH", "/api/v1/namespaces/a", &baseline, "application/json-patch+json").await;
        assert_eq!(labelled.code, 200, "{}", labelled.body);
        let answer = cluster.post(PODS, host.clone()).await;
        assert_eq!(answer.code, code, "{}", answer.body);
    }
    for (setup, code) in [(Setup::default(), 201), (plugins(&["DenyServiceExternalIPs"], &[]), 403)] {
        let cluster = Cluster::start_with(|_| setup).await;
        assert_eq!(cluster.post("/api/v1/namespaces/a/services", service(&["198.51.100.7"])).await.code, code);
        assert_eq!(cluster.post("/api/v1/namespaces/a/services", service(&[])).await.code, 201);
    }
    for (setup, policy) in [(Setup::default(), "IfNotPresent"), (plugins(&["AlwaysPullImages"], &[]), "Always")] {
        let cluster = Cluster::start_with(|_| setup).await;
        let made = cluster.post(PODS, pod("p", json!({}))).await;
        assert_eq!(made.body["spec"]["containers"][0]["imagePullPolicy"], policy, "{}", made.body);
    }
}

#[tokio::test]
async fn an_owner_is_not_held_up_by_those_who_may_not_change_it() {
    let cluster = Cluster::start_with(|_| plugins(&["OwnerReferencesPermissionEnforcement"], &[])).await;
    let group = "rbac.authorization.k8s.io";
    let role = json!({"metadata": {"name": "maps"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "update", "get"]}]});
    let binding = json!({"metadata": {"name": "maps"}, "roleRef": {"apiGroup": group, "kind": "Role", "name": "maps"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "jane"}]});
    let roles = format!("/apis/{group}/v1/namespaces/a");
    assert_eq!(cluster.post(&format!("{roles}/roles"), role).await.code, 201);
    assert_eq!(cluster.post(&format!("{roles}/rolebindings"), binding).await.code, 201);
    let map = |name: &str, blocks: bool| {
        json!({"metadata": {"name": name, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet",
            "name": "r", "uid": "u", "blockOwnerDeletion": blocks}]}})
    };
    let create = async |map: Value| {
        let headers = [("content-type", "application/json")];
        cluster.send_as(User::new("jane", &[]), &headers, "POST", "/api/v1/namespaces/a/configmaps", &map).await
    };
    let refused = create(map("held", true)).await;
    assert_eq!(refused.code, 403, "{}", refused.body);
    assert!(refused.message().contains("a resource you can't set finalizers on"), "{}", refused.message());
    assert_eq!(create(map("free", false)).await.code, 201);
    assert_eq!(cluster.post("/api/v1/namespaces/a/configmaps", map("admins", true)).await.code, 201);
    // An owner is not taken up later without the right to delete the object.
    let free = json!({"metadata": {"name": "free"}});
    let headers = [("content-type", "application/json")];
    let path = "/api/v1/namespaces/a/configmaps/free";
    let dropped = cluster.send_as(User::new("jane", &[]), &headers, "PUT", path, &free).await;
    assert_eq!(dropped.code, 403, "{}", dropped.body);
    assert!(
        dropped.message().contains("cannot set an ownerRef on a resource you can't delete"),
        "{}",
        dropped.message()
    );
}

#[tokio::test]
async fn a_namespace_without_labels_has_the_configured_standard_and_the_exempt_have_none() {
    let directory = tempfile::tempdir().unwrap();
    let configuration = json!({"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration",
        "defaults": {"enforce": "baseline", "enforce-version": "latest"},
        "exemptions": {"namespaces": ["kube-system"], "usernames": ["root"]}});
    let cluster = Cluster::start_with(|_| configured(directory.path(), "PodSecurity", configuration)).await;
    let host = || pod("host", json!({"hostNetwork": true}));
    let answer = cluster.post(PODS, host()).await;
    assert_eq!(answer.code, 403, "{}", answer.body);
    assert!(
        answer.message().contains("violates PodSecurity \"baseline:latest\": host namespaces"),
        "{}",
        answer.message()
    );
    let headers = [("content-type", "application/json")];
    let root = User::new("root", &[crate::authn::MASTERS]);
    assert_eq!(cluster.send_as(root, &headers, "POST", PODS, &host()).await.code, 201);
    let account = json!({"metadata": {"name": "default"}});
    assert_eq!(cluster.post("/api/v1/namespaces/kube-system/serviceaccounts", account).await.code, 201);
    assert_eq!(cluster.post("/api/v1/namespaces/kube-system/pods", host()).await.code, 201);
    let label = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    let answer = cluster.send("PATCH", "/api/v1/namespaces/kube-system", &label, "application/merge-patch+json").await;
    assert!(
        answer.warnings.iter().any(|warning| warning.contains("is exempt from Pod Security")),
        "{:?}",
        answer.warnings
    );
}

#[tokio::test]
async fn a_webhook_is_shown_the_credential_that_is_named_after_it() {
    let directory = tempfile::tempdir().unwrap();
    for (user, code) in [("127.0.0.1:PORT", 201), ("*", 201), ("127.0.0.1:1", 400)] {
        let cluster = Cluster::start_with(|hooks| {
            let users = directory.path().join("users");
            let user = user.replace("PORT", &hooks.port.to_string());
            let file =
                json!({"apiVersion": "v1", "kind": "Config", "users": [{"name": user, "user": {"token": "known"}}]});
            std::fs::write(&users, file.to_string()).unwrap();
            let configuration = json!({"apiVersion": "apiserver.config.k8s.io/v1",
                "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": users});
            configured(directory.path(), "ValidatingAdmissionWebhook", configuration)
        })
        .await;
        let url = format!("https://127.0.0.1:{}/login", cluster.hooks.port);
        let hook = json!({"name": "login.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": url, "caBundle": STANDARD.encode(&cluster.hooks.authority)},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]});
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        let made = cluster.post(path, json!({"metadata": {"name": "login"}, "webhooks": [hook]})).await;
        assert_eq!(made.code, 201, "{}", made.body);
        let answer = cluster.post("/api/v1/namespaces/a/configmaps", json!({"metadata": {"name": "m"}})).await;
        assert_eq!(answer.code, code, "{user}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_version_that_is_switched_off_is_nowhere() {
    let served = Served::parse("batch/v1=false,apps/v1/daemonsets=false").unwrap();
    let cluster = Cluster::start_with(|_| Setup { served, ..Setup::default() }).await;
    let get = async |path: &str| cluster.send("GET", path, &Value::Null, "").await;
    assert_eq!(get("/apis/batch/v1").await.code, 404);
    assert_eq!(get("/apis/batch/v1/namespaces/a/jobs").await.code, 404);
    assert_eq!(get("/apis/apps/v1/namespaces/a/daemonsets").await.code, 404);
    assert_eq!(get("/apis/apps/v1/namespaces/a/deployments").await.code, 200);
    let groups = get("/apis").await.body["groups"].to_string();
    assert!(!groups.contains("batch") && groups.contains("apps"), "{groups}");
    assert!(!get("/apis/apps/v1").await.body.to_string().contains("DaemonSet"));
    assert!(!get("/openapi/v3").await.body.to_string().contains("apis/batch"));
    assert_eq!(get("/apis/apiregistration.k8s.io/v1/apiservices/v1.batch").await.code, 404);
}

#[tokio::test]
async fn a_feature_that_is_switched_off_is_not_there() {
    let path = "/api/v1/namespaces/a/configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let path = format!("{path}&allowWatchBookmarks=true&timeoutSeconds=1");
    let gates = Gates::parse("WatchList=false").unwrap();
    let cluster = Cluster::start_with(|_| Setup { gates, ..Setup::default() }).await;
    let answer = cluster.send("GET", &path, &Value::Null, "").await;
    assert_eq!(answer.code, 422, "{}", answer.body);
    assert!(answer.message().contains("WatchList feature gate"), "{}", answer.message());

    for (gates, code) in [("", 200), ("ConstrainedImpersonation=false", 403)] {
        let gates = Gates::parse(gates).unwrap();
        let cluster = Cluster::start_with(|_| Setup { gates, ..Setup::default() }).await;
        let group = "rbac.authorization.k8s.io";
        let rules = json!([
            {"apiGroups": ["authentication.k8s.io"], "resources": ["users"], "verbs": ["impersonate:user-info"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["impersonate-on:user-info:list"]}]);
        let viewer = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
        for (name, user, rules) in [("acts", "jane", rules), ("views", "joe", viewer)] {
            let role = json!({"metadata": {"name": name}, "rules": rules});
            let binding = json!({"metadata": {"name": name},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
                "subjects": [{"apiGroup": group, "kind": "User", "name": user}]});
            assert_eq!(cluster.post(&format!("/apis/{group}/v1/clusterroles"), role).await.code, 201);
            assert_eq!(cluster.post(&format!("/apis/{group}/v1/clusterrolebindings"), binding).await.code, 201);
        }
        let headers = [("impersonate-user", "joe")];
        let path = "/api/v1/namespaces/a/configmaps";
        let answer = cluster.send_as(User::new("jane", &[]), &headers, "GET", path, &Value::Null).await;
        assert_eq!(answer.code, code, "{}", answer.body);
    }
}
