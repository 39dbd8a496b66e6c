//! A cluster with the operator in it, and the cloud beside it.

use std::time::Duration;

use at_operator::cloud::Cloud;
use at_operator::types::{At, Phase, v1beta1};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use pintle_runtime::webhook::WebhookConfig;
use pintle_runtime::{Context, Shutdown, Trigger};
use pintle_testkit::{Cluster, Webhook};
use serde_json::{Value, json};
use tempfile::TempDir;

pub struct World {
    pub cluster: Cluster,
    cloud: TempDir,
    context: Context,
    _stop: Trigger,
}

impl World {
    pub async fn start() -> Self {
        World::start_as("kubernetes-admin").await
    }

    /// With the operator acting as this user, with the rights that its manifest gives.
    pub async fn start_as(user: &str) -> Self {
        let (cluster, cloud) = (Cluster::start().await, tempfile::tempdir().unwrap());
        for manifest in [include_str!("../../manifests/crd.yaml"), include_str!("../../manifests/rbac.yaml")] {
            for object in serde_saphyr::from_multiple::<Value>(manifest).unwrap() {
                cluster.apply(object).await;
            }
        }
        let groups: &[&str] = if user == "kubernetes-admin" { &["system:masters"] } else { &[] };
        let (stop, shutdown) = Shutdown::new();
        let context =
            Context::new(cluster.client_as(user, groups), cluster.clock.clone(), cluster.random.clone(), shutdown);
        tokio::spawn(at_operator::reconcile::run(context.clone(), Cloud::in_directory(cloud.path())));
        cluster.settle().await;
        World { cluster, cloud, context, _stop: stop }
    }

    /// Starts the operator's webhooks, behind the Service that its manifest has, and waits until the API server asks them.
    pub async fn with_webhooks(&self) -> Webhook {
        let webhook = self.cluster.webhook("at-operator", "at-operator").await;
        let config = WebhookConfig::new("at-operator", "at-operator", "at-operator-tls");
        tokio::spawn(at_operator::webhooks::server(&self.context, config).serve_over(webhook.wire()));
        let both = Api::<v1beta1::At>::namespaced(self.cluster.client(), "default");
        self.cluster
            .eventually("both versions are served", async || both.list(&ListParams::default()).await.ok())
            .await;
        let validating = Api::<ValidatingWebhookConfiguration>::all(self.cluster.client());
        let is_asked = async || validating.get_opt("at-operator").await.unwrap();
        self.cluster.eventually("the webhooks are asked", is_asked).await;
        webhook
    }

    pub async fn create(&self, name: &str, after: Duration, what: Value) {
        self.create_at(name, &self.in_time(after), what).await.unwrap();
    }

    pub async fn create_at(&self, name: &str, schedule: &str, what: Value) -> Result<(), kube::Error> {
        let mut at = json!({
            "apiVersion": "cnat.programming-kubernetes.info/v1alpha1", "kind": "At",
            "metadata": {"name": name, "namespace": "default", "annotations": {"simulated.pintle.dev/run-for": "10s"}},
            "spec": what,
        });
        at["spec"]["schedule"] = json!(schedule);
        self.cluster.create(at).await.map(drop)
    }

    pub async fn edit(&self, name: &str, patch: Value) {
        let api = self.cluster.api::<At>("default");
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub async fn at(&self, name: &str) -> At {
        self.cluster.api::<At>("default").get(name).await.unwrap()
    }

    pub async fn phase(&self, name: &str) -> Option<Phase> {
        self.at(name).await.status.and_then(|status| status.phase)
    }

    pub async fn pods(&self) -> usize {
        self.cluster.api::<Pod>("default").list(&ListParams::default()).await.unwrap().items.len()
    }

    pub async fn advance(&self, time: Duration) {
        self.cluster.advance(time).await;
    }

    /// The time after this, as people write it.
    pub fn in_time(&self, after: Duration) -> String {
        pintle_meta::clock::rfc3339(self.cluster.clock.now() + after)
    }

    pub fn records(&self) -> usize {
        let files = std::fs::read_dir(self.cloud.path()).unwrap();
        files.filter(|file| file.as_ref().unwrap().file_name() != "DOWN").count()
    }

    pub fn cloud_is(&self, up: bool) {
        let switch = self.cloud.path().join("DOWN");
        if up { std::fs::remove_file(switch).unwrap() } else { std::fs::write(switch, "").unwrap() }
    }
}
