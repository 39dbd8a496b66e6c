//! Pods of ReplicaSets as our server sends them: one is made by the server, the others differ from it in what differs.

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::Client;
use kube::api::{Api, PostParams};
use pintle_apiserver::authn::User;
use pintle_apiserver::pki::TokenKey;
use pintle_apiserver::{ApiServer, Pace, Parts};
use pintle_meta::{Clock, Random};
use pintle_store::MemoryStore;
use serde_json::{Value, json};
use std::sync::Arc;

const NAMESPACE: &str = "nsmark";
const PREFIX: &str = "ownernamemark";
const NAME: &str = "podnamemark";
const OWNER_UID: &str = "6f1d0c9e-1b2a-4c3d-8e5f-00000000aaaa";
const HASH: &str = "hashmark";
const NODE: &str = "nodenamemark";
const ADDRESS: &str = "10.99.99.99";
const HOST: &str = "192.168.99.99";
const CONTAINER: &str = "containeridmark";

/// Pods of one ReplicaSet.
const REPLICAS: usize = 200;
const NAMESPACES: usize = 20;

/// The server in this process, on a store in memory.
pub(super) async fn server() -> Result<(ApiServer, Client)> {
    let parts = Parts {
        store: Arc::new(MemoryStore::new()),
        clock: Clock::system(),
        random: Random::seeded(1),
        token_key: TokenKey::generate().map_err(|error| anyhow::anyhow!("{error}"))?,
        pace: Pace::default(),
        seats: pintle_apiserver::MAX_SEATS,
    };
    let server = ApiServer::start(parts).await.map_err(|error| anyhow::anyhow!("{error}"))?;
    tokio::spawn({
        let server = server.clone();
        async move { server.run().await }
    });
    let client = server.client(User::internal("system:kube-controller-manager"));
    Ok((server, client))
}

/// One Pod's JSON with marks where Pods differ.
pub(super) struct Template(String);

impl Template {
    pub(super) async fn make() -> Result<Template> {
        let (_server, client) = server().await?;
        namespace(&client, NAMESPACE).await?;
        let made = create(&client, NAMESPACE, marked()).await?;
        let uid = made.metadata.uid.clone().context("the server gives uids")?;
        let version = made.metadata.resource_version.clone().context("the server gives versions")?;
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{NAME}");
        let text = client.request_text(http::Request::get(path).body(Vec::new())?).await?;
        let text = text.trim_end().replace(&uid, "uidmark");
        Ok(Template(text.replace(&format!("\"resourceVersion\":\"{version}\""), "\"resourceVersion\":\"versionmark\"")))
    }

    /// The n-th Pod. Names come in the order of a list.
    pub(super) fn pod(&self, number: usize, total: usize) -> String {
        let set = number / REPLICAS;
        let text = fill(&self.0, number, set * NAMESPACES / total.div_ceil(REPLICAS).max(1));
        text.replace("uidmark", &uid(number, 0xbbbb)).replace("versionmark", &(1000 + number).to_string())
    }

    /// What is sent of it to who asks for metadata only.
    pub(super) fn metadata(&self, number: usize, total: usize) -> Result<String> {
        let pod: Value = serde_json::from_str(&self.pod(number, total))?;
        let metadata = &pod["metadata"];
        Ok(json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}).to_string())
    }
}

/// So many Pods on a server, each created and given a status.
pub(super) async fn populate(client: &Client, count: usize) -> Result<()> {
    for number in 0..NAMESPACES {
        namespace(client, &format!("team-{number:02}-production")).await?;
    }
    let pods = (0..count).map(|number| {
        let client = client.clone();
        tokio::spawn(async move {
            let namespace = number / REPLICAS % NAMESPACES;
            let pod: Value = serde_json::from_str(&fill(&marked().to_string(), number, namespace))?;
            create(&client, &format!("team-{namespace:02}-production"), pod).await.map(drop)
        })
    });
    stream::iter(pods).buffer_unordered(32).map(|made| made?).try_collect::<Vec<()>>().await?;
    Ok(())
}

fn fill(text: &str, number: usize, namespace: usize) -> String {
    let set = number / REPLICAS;
    let owner = format!("checkout-service-{:010x}", 0x7d9_f8b6_c5d0 + set);
    text.replace(NAMESPACE, &format!("team-{namespace:02}-production"))
        .replace(NAME, &format!("{owner}-{number:05x}"))
        .replace(PREFIX, &owner)
        .replace(OWNER_UID, &uid(set, 0xaaaa))
        .replace(HASH, &format!("{:010x}", 0x7d9_f8b6_c5d0 + set))
        .replace(NODE, &format!("node-{:04}", number % 1000))
        .replace(HOST, &format!("192.168.{}.{}", number % 1000 / 250, number % 250))
        .replace(ADDRESS, &format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255))
        .replace(CONTAINER, &format!("{number:064x}"))
}

fn uid(number: usize, kind: usize) -> String {
    let scattered = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{:08x}-1b2a-4c3d-8e5f-{:08x}{kind:04x}", scattered >> 32, scattered as u32)
}

async fn namespace(client: &Client, name: &str) -> Result<()> {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": "default"}}))?;
    Api::namespaced(client.clone(), name).create(&PostParams::default(), &account).await?;
    Ok(())
}

async fn create(client: &Client, namespace: &str, pod: Value) -> Result<Pod> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let by = |manager: &str| PostParams { field_manager: Some(manager.into()), ..PostParams::default() };
    let pod: Pod = serde_json::from_value(pod)?;
    let mut made = pods.create(&by("kube-controller-manager"), &pod).await?;
    made.status = pod.status;
    let name = made.metadata.name.clone().unwrap_or_default();
    Ok(pods.replace_status(&name, &by("kubelet"), &made).await?)
}

fn marked() -> Value {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-11-16T04:05:29Z", "observedGeneration": 1});
    let conditions =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": NAME, "namespace": NAMESPACE, "generateName": format!("{PREFIX}-"),
            "labels": {"app.kubernetes.io/name": "checkout", "app.kubernetes.io/part-of": "shop", "pod-template-hash": HASH},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": PREFIX, "uid": OWNER_UID,
                                 "controller": true, "blockOwnerDeletion": true}]
        },
        "spec": {
            "nodeName": NODE,
            "containers": [{
                "name": "server", "image": "registry.example.com/shop/checkout:1.42.0",
                "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                "env": [{"name": "LOG_LEVEL", "value": "info"},
                        {"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                "readinessProbe": {"httpGet": {"path": "/ready", "port": "http", "scheme": "HTTP"}, "periodSeconds": 10}
            }]
        },
        "status": {
            "phase": "Running", "hostIP": HOST, "hostIPs": [{"ip": HOST}], "podIP": ADDRESS, "podIPs": [{"ip": ADDRESS}],
            "startTime": "2026-11-16T04:05:29Z", "qosClass": "Burstable", "observedGeneration": 1,
            "conditions": conditions,
            "containerStatuses": [{
                "name": "server", "ready": true, "started": true, "restartCount": 0,
                "image": "registry.example.com/shop/checkout:1.42.0",
                "imageID": "registry.example.com/shop/checkout@sha256:6c3c624b58dbbcd3c0dd82b4c53f04194d1247c6eebdaab7c610cf7d66709b3b",
                "containerID": format!("containerd://{CONTAINER}"),
                "state": {"running": {"startedAt": "2026-11-16T04:05:29Z"}}
            }]
        }
    })
}
