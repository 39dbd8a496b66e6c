//! A webhook server tells the API server which authority to trust, and again when a manifest is applied without it.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use pintle_runtime::webhook::{WebhookConfig, WebhookServer};
use pintle_testkit::Cluster;
use serde_json::{Value, json};

fn configuration() -> Value {
    let hook = |name: &str, service: &str| {
        json!({"name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"service": {"namespace": "default", "name": service, "path": "/x"}}})
    };
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "at"}, "webhooks": [hook("a.x.io", "hook"), hook("b.x.io", "another"), hook("c.x.io", "hook")]})
}

fn definition() -> Value {
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.x.io"},
        "spec": {"group": "x.io", "scope": "Namespaced", "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [version("v1", true), version("v2", false)],
            "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
                "clientConfig": {"service": {"namespace": "default", "name": "hook", "path": "/convert"}}}}}})
}

/// Which of the webhooks have a bundle.
async fn bundled(cluster: &Cluster) -> Vec<bool> {
    let api: Api<MutatingWebhookConfiguration> = Api::all(cluster.client());
    let hooks = api.get("at").await.unwrap().webhooks.unwrap_or_default();
    hooks.iter().map(|hook| hook.client_config.ca_bundle.is_some()).collect()
}

#[tokio::test(start_paused = true)]
async fn whoever_points_at_the_service_gets_its_bundle_and_keeps_it() {
    let cluster = Cluster::bare().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = WebhookConfig::new("default", "hook", "hook-tls");
    config.mutating_configurations = vec!["at".into()];
    config.validating_configurations = vec!["not-there".into()];
    config.definitions = vec!["things.x.io".into()];
    let serving = tokio::spawn(WebhookServer::new(cluster.context(), config).serve_on(listener));

    cluster.apply(configuration()).await;
    cluster.apply(definition()).await;
    let ours_alone = vec![true, false, true];
    let has_bundle = async || (bundled(&cluster).await == ours_alone).then_some(());
    cluster.eventually("both webhooks of the Service have a bundle", has_bundle).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
    cluster
        .eventually("the conversion has a bundle", async || {
            let webhook = definitions.get("things.x.io").await.unwrap().spec.conversion?.webhook?;
            webhook.client_config?.ca_bundle
        })
        .await;
    let secret = cluster.api::<Secret>("default").get("hook-tls").await.unwrap();
    assert_eq!(secret.data.unwrap().into_keys().collect::<Vec<_>>(), ["ca.crt", "ca.key", "tls.crt", "tls.key"]);

    let webhooks = json!({"webhooks": configuration()["webhooks"]}).to_string();
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/at";
    assert_eq!(cluster.request("PATCH", path, "application/merge-patch+json", webhooks).await.code, 200);
    assert_eq!(bundled(&cluster).await, [false; 3], "a manifest without bundles takes them away");
    cluster.eventually("the bundles are back", has_bundle).await;
    cluster.settle().await;
    assert!(!serving.is_finished());
    serving.abort();
}
