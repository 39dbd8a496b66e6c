//! Tells the API server which authority to trust: writes the bundle into the configurations that name our Service.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionSpec,
};
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Resource};
use pintle_kinds::Kind;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::sync::Arc;
use tokio::sync::Notify;

use super::WebhookConfig;
use super::hook::{Conversion, Hook};
use super::register::{Own, Registrar};
use crate::context::Context;
use crate::informer::{Informer, Registration};
use crate::reflector::Selection;

/// The objects that point at our Service, watched so that one which is applied anew gets the bundle again.
pub(super) struct Targets {
    client: Client,
    namespace: String,
    service: String,
    mutating: Vec<Informer<MutatingWebhookConfiguration>>,
    validating: Vec<Informer<ValidatingWebhookConfiguration>>,
    definitions: Vec<Informer<CustomResourceDefinition>>,
    registrar: Registrar,
    /// Definitions that get their stanza from this server.
    converted: Vec<(Conversion, Vec<Informer<CustomResourceDefinition>>)>,
    _registrations: Vec<Registration>,
}

impl Targets {
    /// `changed` is told whenever one of them changes.
    pub(super) fn watch(context: &Context, config: &WebhookConfig, own: &Own, changed: &Arc<Notify>) -> Self {
        let mut registrations = Vec::new();
        // What this server registers itself is only watched, so that it is written again when somebody changes it.
        let names = |hooks: &[Hook]| if hooks.is_empty() { Vec::new() } else { vec![config.registered_as.clone()] };
        let _: Vec<Informer<MutatingWebhookConfiguration>> =
            watch(context, &names(&own.mutating), changed, &mut registrations);
        let _: Vec<Informer<ValidatingWebhookConfiguration>> =
            watch(context, &names(&own.validating), changed, &mut registrations);
        let converted = own.conversions.iter().filter_map(|conversion| {
            let name = conversion.definition.clone()?;
            Some((conversion.clone(), watch(context, &[name], changed, &mut registrations)))
        });
        let converted = converted.collect();
        Targets {
            registrar: Registrar::of(context, config, own),
            converted,
            client: context.client.clone(),
            namespace: config.namespace.clone(),
            service: config.service.clone(),
            mutating: watch(context, &config.mutating_configurations, changed, &mut registrations),
            validating: watch(context, &config.validating_configurations, changed, &mut registrations),
            definitions: watch(context, &config.definitions, changed, &mut registrations),
            _registrations: registrations,
        }
    }

    /// Writes the bundle where it is not yet. What is missing gets it when it comes.
    pub(super) async fn inject(&self, bundle: &str) -> Result<(), kube::Error> {
        self.registrar.register(bundle).await?;
        for (conversion, informers) in &self.converted {
            for object in informers.iter().flat_map(Informer::all) {
                self.patch(&*object, self.registrar.of_definition(conversion, &object.spec, bundle)).await?;
            }
        }
        let bundle = ByteString(bundle.as_bytes().to_vec());
        for object in self.mutating.iter().flat_map(Informer::all) {
            let hooks = object.webhooks.iter().flatten().map(|hook| (hook.name.as_str(), &hook.client_config));
            self.patch(&*object, self.of_hooks(hooks, &bundle)).await?;
        }
        for object in self.validating.iter().flat_map(Informer::all) {
            let hooks = object.webhooks.iter().flatten().map(|hook| (hook.name.as_str(), &hook.client_config));
            self.patch(&*object, self.of_hooks(hooks, &bundle)).await?;
        }
        for object in self.definitions.iter().flat_map(Informer::all) {
            self.patch(&*object, self.of_conversion(&object.spec, &bundle)).await?;
        }
        Ok(())
    }

    /// Each webhook is named in a test, so that a list which changed in between is not written to.
    fn of_hooks<'a>(
        &self,
        hooks: impl Iterator<Item = (&'a str, &'a WebhookClientConfig)>,
        bundle: &ByteString,
    ) -> Vec<Value> {
        let mut operations = Vec::new();
        for (index, (name, config)) in hooks.enumerate() {
            let ours = config.service.as_ref().is_some_and(|service| self.is_ours(&service.namespace, &service.name));
            if ours && config.ca_bundle.as_ref() != Some(bundle) {
                operations.push(json!({"op": "test", "path": format!("/webhooks/{index}/name"), "value": name}));
                let path = format!("/webhooks/{index}/clientConfig/caBundle");
                operations.push(json!({"op": "add", "path": path, "value": bundle}));
            }
        }
        operations
    }

    fn of_conversion(&self, spec: &CustomResourceDefinitionSpec, bundle: &ByteString) -> Vec<Value> {
        let hook = spec.conversion.as_ref().and_then(|conversion| conversion.webhook.as_ref());
        let Some(config) = hook.and_then(|hook| hook.client_config.as_ref()) else { return Vec::new() };
        let ours = config.service.as_ref().is_some_and(|service| self.is_ours(&service.namespace, &service.name));
        if !ours || config.ca_bundle.as_ref() == Some(bundle) {
            return Vec::new();
        }
        let path = "/spec/conversion/webhook/clientConfig";
        vec![
            json!({"op": "test", "path": format!("{path}/service/name"), "value": self.service}),
            json!({"op": "add", "path": format!("{path}/caBundle"), "value": bundle}),
        ]
    }

    fn is_ours(&self, namespace: &str, name: &str) -> bool {
        namespace == self.namespace && name == self.service
    }

    async fn patch<K>(&self, object: &K, operations: Vec<Value>) -> Result<(), kube::Error>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
    {
        if operations.is_empty() {
            return Ok(());
        }
        let name = object.meta().name.clone().unwrap_or_default();
        let patch: json_patch::Patch =
            serde_json::from_value(Value::Array(operations)).map_err(kube::Error::SerdeError)?;
        Api::<K>::all(self.client.clone()).patch(&name, &PatchParams::default(), &Patch::<()>::Json(patch)).await?;
        tracing::info!(kind = %K::kind(&()), name, "the webhook's bundle was written");
        Ok(())
    }
}

fn watch<K>(
    context: &Context,
    names: &[String],
    changed: &Arc<Notify>,
    registrations: &mut Vec<Registration>,
) -> Vec<Informer<K>>
where
    K: Kind<DynamicType = ()>,
{
    let watch_one = |name: &String| {
        let informer: Informer<K> = context.informers.select(Selection::fields(format!("metadata.name={name}")));
        let changed = changed.clone();
        registrations.push(informer.on_change(move |_| changed.notify_one()));
        informer
    };
    names.iter().map(watch_one).collect()
}
