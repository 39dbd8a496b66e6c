//! Registers the server itself: the webhooks of its handlers as configurations of its own, and the stanza of definitions whose
//! objects it converts.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionSpec;
use kube::api::{Api, ObjectMeta, Patch, PatchParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;

use super::WebhookConfig;
use super::hook::{Conversion, Hook, client_config};
use crate::context::Context;

/// The field manager of what is written here, unless the context has a name.
const MANAGER: &str = "webhook-server";

/// What a server has handlers for.
#[derive(Clone, Debug, Default)]
pub(super) struct Own {
    pub(super) mutating: Vec<Hook>,
    pub(super) validating: Vec<Hook>,
    pub(super) conversions: Vec<Conversion>,
}

pub(super) struct Registrar {
    client: Client,
    manager: String,
    config: WebhookConfig,
    own: Own,
}

impl Registrar {
    pub(super) fn of(context: &Context, config: &WebhookConfig, own: &Own) -> Self {
        let manager = if context.name.is_empty() { MANAGER.to_owned() } else { context.name.clone() };
        // Those that a manifest names are the manifest's.
        let registered = |hooks: &[Hook]| hooks.iter().filter(|hook| hook.about.is_some()).cloned().collect();
        let own = Own { mutating: registered(&own.mutating), validating: registered(&own.validating), ..own.clone() };
        Registrar { client: context.client.clone(), manager, config: config.clone(), own }
    }

    /// Writes both configurations. What is as it should be already is not written.
    pub(super) async fn register(&self, bundle: &str) -> Result<(), kube::Error> {
        let client = |hook: &Hook| client_config(&self.config, &hook.path, bundle);
        let metadata = ObjectMeta { name: Some(self.config.registered_as.clone()), ..ObjectMeta::default() };
        if !self.own.mutating.is_empty() {
            let hooks = self.own.mutating.iter();
            let webhooks = hooks.filter_map(|hook| Some(hook.about.as_ref()?.mutating(client(hook)))).collect();
            let metadata = metadata.clone();
            self.apply(&MutatingWebhookConfiguration { metadata, webhooks: Some(webhooks) }).await?;
        }
        if !self.own.validating.is_empty() {
            let hooks = self.own.validating.iter();
            let webhooks = hooks.filter_map(|hook| Some(hook.about.as_ref()?.validating(client(hook)))).collect();
            self.apply(&ValidatingWebhookConfiguration { metadata, webhooks: Some(webhooks) }).await?;
        }
        Ok(())
    }

    async fn apply<K>(&self, object: &K) -> Result<(), kube::Error>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug,
    {
        let parameters = PatchParams::apply(&self.manager).force();
        let api = Api::<K>::all(self.client.clone());
        api.patch(&self.config.registered_as, &parameters, &Patch::Apply(object)).await.map(drop)
    }

    /// What a definition lacks to be converted here, as a JSON patch.
    pub(super) fn of_definition(
        &self,
        conversion: &Conversion,
        spec: &CustomResourceDefinitionSpec,
        bundle: &str,
    ) -> Vec<Value> {
        let config = client_config(&self.config, &conversion.path, bundle);
        let mut operations = Vec::new();
        if !is_told(spec, &config) {
            let stanza = json!({
                "strategy": "Webhook",
                "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]},
            });
            operations.push(json!({"op": "add", "path": "/spec/conversion", "value": stanza}));
        }
        for (index, version) in spec.versions.iter().enumerate() {
            if conversion.serves.contains(&version.name) && !version.served {
                let path = format!("/spec/versions/{index}");
                // So that a list which changed in between is not written to.
                operations.push(json!({"op": "test", "path": format!("{path}/name"), "value": version.name}));
                operations.push(json!({"op": "add", "path": format!("{path}/served"), "value": true}));
            }
        }
        operations
    }
}

fn is_told(spec: &CustomResourceDefinitionSpec, config: &WebhookClientConfig) -> bool {
    let Some(conversion) = &spec.conversion else { return false };
    let told = conversion.webhook.as_ref().and_then(|webhook| webhook.client_config.as_ref());
    // One type of the API for admission, one for conversions, with the same fields.
    let same = |told: &dyn Fn() -> Option<Value>| told() == serde_json::to_value(config).ok();
    conversion.strategy == "Webhook" && same(&|| serde_json::to_value(told?).ok())
}
