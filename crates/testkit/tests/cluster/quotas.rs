//! What a namespace may have: quotas are never exceeded and given back, limit ranges bound, Pod security holds.

use futures::future::join_all;
use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota, Secret};
use kube::api::{Api, DeleteParams, ListParams};
use pintle_testkit::Cluster;
use serde_json::{Value, json};
use std::time::Duration;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}})
}

fn quota(hard: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": hard}})
}

fn pod(name: &str, spec: Value) -> Value {
    let mut whole = json!({"containers": [{"name": "c", "image": "i"}]});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": whole})
}

/// Sends an object; answers with the code and, where there is one, the message.
async fn send(cluster: &Cluster, method: &str, path: &str, object: &Value) -> (u16, String) {
    let answer = cluster.request(method, path, "application/json", object.to_string()).await;
    (answer.code, answer.message().to_owned())
}

/// A quota that was counted: nothing is used yet.
async fn counted(cluster: &Cluster, hard: Value) {
    let mut object = quota(hard.clone());
    assert_eq!(send(cluster, "POST", QUOTAS, &object).await.0, 201);
    let zeros: serde_json::Map<String, Value> =
        hard.as_object().unwrap().keys().map(|k| (k.clone(), json!("0"))).collect();
    object["status"] = json!({"hard": hard, "used": zeros});
    assert_eq!(send(cluster, "PUT", &format!("{QUOTAS}/q/status"), &object).await.0, 200);
}

async fn used(cluster: &Cluster) -> Value {
    let quota = cluster.api::<ResourceQuota>("default").get("q").await.unwrap();
    serde_json::to_value(quota.status.unwrap_or_default().used).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_thousand_at_once_get_exactly_what_the_quota_has() {
    let cluster = Cluster::bare().await;
    counted(&cluster, json!({"configmaps": "100"})).await;
    let create = |number: usize| {
        let cluster = &cluster;
        async move { send(cluster, "POST", MAPS, &map(&format!("m{number}"))).await }
    };
    let answers = join_all((0..1000).map(create)).await;
    assert_eq!(answers.iter().filter(|(code, _)| *code == 201).count(), 100);
    let refused: Vec<&(u16, String)> = answers.iter().filter(|(code, _)| *code != 201).collect();
    let full =
        "is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=100, limited: configmaps=100";
    assert!(refused.iter().all(|(code, message)| *code == 403 && message.ends_with(full)), "{:?}", refused[0]);
    assert_eq!(used(&cluster).await, json!({"configmaps": "100"}));
    let there = cluster.api::<ConfigMap>("default").list(&ListParams::default()).await.unwrap();
    assert_eq!(there.items.len(), 100);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_written_is_not_charged() {
    let cluster = Cluster::bare().await;
    counted(&cluster, json!({"configmaps": "2", "services.nodeports": "1"})).await;
    assert_eq!(send(&cluster, "POST", &format!("{MAPS}?dryRun=All"), &map("dry")).await.0, 201);
    assert_eq!(send(&cluster, "POST", MAPS, &map("a")).await.0, 201);
    assert_eq!(send(&cluster, "POST", MAPS, &map("a")).await.0, 409);
    assert_eq!(used(&cluster).await["configmaps"], "1");
    // An update costs what it adds.
    let services = "/api/v1/namespaces/default/services";
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "default"},
        "spec": {"ports": [{"name": "a", "port": 80}]}});
    assert_eq!(send(&cluster, "POST", services, &service).await.0, 201);
    assert_eq!(used(&cluster).await["services.nodeports"], "0");
    let patch = |spec: Value| json!({"spec": spec}).to_string();
    let change = async |spec: Value| {
        let merge = "application/merge-patch+json";
        cluster.request("PATCH", &format!("{services}/s"), merge, patch(spec)).await
    };
    assert_eq!(change(json!({"type": "NodePort"})).await.code, 200);
    assert_eq!(used(&cluster).await["services.nodeports"], "1");
    service["spec"]["ports"] = json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]);
    let answer = change(service["spec"].clone()).await;
    assert_eq!(answer.code, 403, "{}", answer.message());
    assert!(answer.message().contains("exceeded quota: q, requested: services.nodeports=1"), "{}", answer.message());
}

#[tokio::test(start_paused = true)]
async fn a_quota_counts_what_it_finds_and_gives_back_what_is_freed() {
    let cluster =
        Cluster::builder().loops(&["resourcequota", "serviceaccount"]).nodes(0).scheduler(false).start().await;
    cluster.settle().await;
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"}, "versions": [{"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    cluster.create(map("before")).await.unwrap();
    let hard = json!({"configmaps": "2", "count/widgets.example.com": "1", "pods": "1", "requests.cpu": "1"});
    cluster.create(quota(hard)).await.unwrap();
    cluster.create(definition).await.unwrap();
    cluster.settle().await;
    assert_eq!(
        used(&cluster).await,
        json!({"configmaps": "1", "count/widgets.example.com": "0", "pods": "0", "requests.cpu": "0"})
    );
    let widget = |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "namespace": "default"}});
    let asking = json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]});
    cluster.create(widget("one")).await.unwrap();
    cluster.create(map("second")).await.unwrap();
    cluster.create(pod("p", asking.clone())).await.unwrap();
    assert!(cluster.create(widget("two")).await.unwrap_err().to_string().contains("exceeded quota"));
    assert!(cluster.create(map("third")).await.unwrap_err().to_string().contains("exceeded quota"));
    assert!(cluster.create(pod("q", asking.clone())).await.unwrap_err().to_string().contains("pods=1,requests.cpu=1"));
    cluster.settle().await;
    cluster.api::<ConfigMap>("default").delete("before", &DeleteParams::default()).await.unwrap();
    let ended = json!({"status": {"phase": "Succeeded"}}).to_string();
    let merge = "application/merge-patch+json";
    assert_eq!(cluster.request("PATCH", &format!("{PODS}/p/status"), merge, ended).await.code, 200);
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    assert_eq!(cluster.request("DELETE", &format!("{widgets}/one"), "", "").await.code, 200);
    cluster.settle().await;
    assert_eq!(
        used(&cluster).await,
        json!({"configmaps": "1", "count/widgets.example.com": "0", "pods": "0", "requests.cpu": "0"})
    );
    cluster.create(widget("two")).await.unwrap();
    cluster.create(pod("q", asking)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_quota_that_comes_among_many_writes_misses_none_of_them() {
    let cluster = Cluster::builder().loops(&["resourcequota"]).nodes(0).scheduler(false).start().await;
    cluster.settle().await;
    let object = |number: usize| {
        let metadata = json!({"name": format!("s{number}"), "namespace": "default"});
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    };
    let create = |number: usize| {
        let cluster = &cluster;
        async move {
            tokio::time::sleep(Duration::from_millis(number as u64 / 10)).await;
            send(cluster, "POST", "/api/v1/namespaces/default/secrets", &object(number)).await.0
        }
    };
    let comes = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        send(&cluster, "POST", QUOTAS, &quota(json!({"secrets": "150"}))).await
    };
    let (codes, quota) = tokio::join!(join_all((0..400).map(create)), comes);
    assert_eq!(quota.0, 201);
    cluster.settle().await;
    let there = cluster.api::<Secret>("default").list(&ListParams::default()).await.unwrap().items.len();
    assert_eq!(codes.iter().filter(|code| **code == 201).count(), there);
    assert!((100..400).contains(&there), "{there} were created");
    assert_eq!(used(&cluster).await, json!({"secrets": there.to_string()}));
}

#[tokio::test(start_paused = true)]
async fn a_limit_range_fills_in_and_bounds() {
    let cluster = Cluster::builder().loops(&["serviceaccount"]).nodes(0).scheduler(false).start().await;
    cluster.settle().await;
    let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "default"}, "spec": {"limits": [
        {"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "100m"}, "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "200m"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}}]}});
    cluster.create(range).await.unwrap();
    let answer = cluster.request("POST", PODS, "application/json", pod("plain", json!({})).to_string()).await;
    let resources = &answer.body["spec"]["containers"][0]["resources"];
    assert_eq!(*resources, json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "200m"}}));
    let large = json!({"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}]});
    assert_eq!(
        send(&cluster, "POST", PODS, &pod("large", large)).await,
        (403, "pods \"large\" is forbidden: maximum cpu usage per Container is 1, but limit is 2".to_owned())
    );
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}});
    let (code, message) = send(&cluster, "POST", "/api/v1/namespaces/default/persistentvolumeclaims", &claim).await;
    assert_eq!(code, 403);
    assert!(
        message.ends_with("maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 5Gi"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_namespace_says_what_its_pods_may_take_of_the_node() {
    let cluster = Cluster::builder().loops(&["serviceaccount"]).nodes(0).scheduler(false).start().await;
    cluster.settle().await;
    cluster.create(pod("before", json!({"hostNetwork": true}))).await.unwrap();
    let namespace = "/api/v1/namespaces/default";
    let label = async |name: &str, value: &str| {
        let key = format!("pod-security.kubernetes.io/{name}");
        let patch = json!({"metadata": {"labels": {key: value}}}).to_string();
        cluster.request("PATCH", namespace, "application/merge-patch+json", patch).await
    };
    assert_eq!(label("enforce", "strict").await.code, 422);
    let labelled = label("enforce", "baseline").await;
    assert_eq!(labelled.code, 200);
    let warnings = labelled.warnings().join("\n");
    assert!(
        warnings.contains("existing pods in namespace") && warnings.contains("before: host namespaces"),
        "{warnings}"
    );
    let (code, message) = send(&cluster, "POST", PODS, &pod("host", json!({"hostPID": true}))).await;
    let refused =
        "pods \"host\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostPID=true)";
    assert_eq!((code, message.as_str()), (403, refused));
    assert_eq!(send(&cluster, "POST", PODS, &pod("plain", json!({}))).await.0, 201);
    // Of what a controller would make people are warned; the Pods will be refused.
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod("x", json!({"hostPID": true}))["spec"]});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let answer = cluster.request("POST", path, "application/json", deployment.to_string()).await;
    assert_eq!(answer.code, 201);
    assert!(answer.warnings().join("\n").contains("would violate PodSecurity"), "{:?}", answer.warnings());
    // What is there keeps running and can be written.
    let running: Api<k8s_openapi::api::core::v1::Pod> = cluster.api("default");
    let mut before = running.get("before").await.unwrap();
    before.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    running.replace("before", &Default::default(), &before).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pod_knows_the_zone_in_which_it_runs_and_an_ingress_its_class() {
    let cluster = Cluster::builder().loops(&["serviceaccount"]).nodes(0).scheduler(false).start().await;
    cluster.settle().await;
    let labels = json!({"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1", "disk": "ssd"});
    cluster
        .create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}}))
        .await
        .unwrap();
    cluster.create(pod("p", json!({}))).await.unwrap();
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(send(&cluster, "POST", &format!("{PODS}/p/binding"), &binding).await.0, 201);
    let bound = cluster.request("GET", &format!("{PODS}/p"), "", "").await.body;
    assert_eq!(
        bound["metadata"]["labels"],
        json!({"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1"})
    );
    cluster
        .create(json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "spec": {"controller": "example.com/c"},
            "metadata": {"name": "nginx", "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}}))
        .await
        .unwrap();
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "i", "namespace": "default"},
        "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}});
    let path = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let answer = cluster.request("POST", path, "application/json", ingress.to_string()).await;
    assert_eq!(answer.body["spec"]["ingressClassName"], "nginx");
}
