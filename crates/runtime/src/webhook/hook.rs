//! What the API server is told to ask a handler about: the parts of a webhook's configuration, made of a kind's type.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, RuleWithOperations, ServiceReference, ValidatingWebhook, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Resource;

use super::{Operation, WebhookConfig};

const V1: &str = "v1";

/// Where a handler of admission answers, and what the API server is told to ask it.
///
/// A path alone registers nothing: a manifest of yours names it. [`Hook::about`] is registered by the server itself.
#[derive(Clone, Debug)]
pub struct Hook {
    pub(super) path: String,
    pub(super) about: Option<About>,
}

#[derive(Clone, Debug)]
pub(super) struct About {
    name: String,
    group: String,
    version: String,
    resource: String,
    operations: Vec<Operation>,
    fails_open: bool,
    timeout_seconds: i32,
    namespaces: Option<LabelSelector>,
    objects: Option<LabelSelector>,
}

impl From<&str> for Hook {
    fn from(path: &str) -> Self {
        Hook { path: path.to_owned(), about: None }
    }
}

impl Hook {
    /// Asked about every create and update of this kind, in this version of it. Writes in other versions are shown in this one.
    ///
    /// Its name is made of the path and the kind: `/check` of Ats is `check.ats.cnat.programming-kubernetes.info`.
    pub fn about<K: Resource<DynamicType = ()>>(path: &str) -> Self {
        let (group, resource) = (K::group(&()), K::plural(&()));
        let word: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        // A name has at least three parts.
        let domain = if group.is_empty() { "core" } else { &group };
        let about = About {
            name: format!("{}.{resource}.{domain}", word.join("-")),
            version: K::version(&()).into_owned(),
            operations: vec![Operation::Create, Operation::Update],
            fails_open: false,
            timeout_seconds: 10,
            namespaces: None,
            objects: None,
            resource: resource.into_owned(),
            group: group.into_owned(),
        };
        Hook { path: path.to_owned(), about: Some(about) }
    }

    fn with(mut self, change: impl FnOnce(&mut About)) -> Self {
        if let Some(about) = &mut self.about {
            change(about);
        }
        self
    }

    /// About these operations and no others.
    #[must_use]
    pub fn on(self, operations: &[Operation]) -> Self {
        self.with(|about| about.operations = operations.to_vec())
    }

    /// About a subresource of the kind, such as `status` or `scale`.
    #[must_use]
    pub fn of_subresource(self, name: &str) -> Self {
        self.with(|about| about.resource = format!("{}/{name}", about.resource))
    }

    /// Writes pass while this server does not answer. Without it they are refused.
    #[must_use]
    pub fn ignoring_failures(self) -> Self {
        self.with(|about| about.fails_open = true)
    }

    /// For how long the API server waits: 1 to 30 seconds.
    #[must_use]
    pub fn timeout_seconds(self, seconds: u8) -> Self {
        self.with(|about| about.timeout_seconds = i32::from(seconds.clamp(1, 30)))
    }

    /// Only in namespaces with these labels.
    #[must_use]
    pub fn in_namespaces(self, selector: LabelSelector) -> Self {
        self.with(|about| about.namespaces = Some(selector))
    }

    /// Only about objects with these labels.
    #[must_use]
    pub fn with_labels(self, selector: LabelSelector) -> Self {
        self.with(|about| about.objects = Some(selector))
    }
}

impl About {
    fn rules(&self) -> Option<Vec<RuleWithOperations>> {
        let list = |word: &str| Some(vec![word.to_owned()]);
        Some(vec![RuleWithOperations {
            api_groups: list(&self.group),
            api_versions: list(&self.version),
            operations: Some(self.operations.iter().map(|operation| operation.as_str().to_owned()).collect()),
            resources: list(&self.resource),
            scope: None,
        }])
    }

    fn failure_policy(&self) -> Option<String> {
        Some(if self.fails_open { "Ignore" } else { "Fail" }.to_owned())
    }

    pub(super) fn mutating(&self, client_config: WebhookClientConfig) -> MutatingWebhook {
        MutatingWebhook {
            name: self.name.clone(),
            client_config,
            rules: self.rules(),
            failure_policy: self.failure_policy(),
            timeout_seconds: Some(self.timeout_seconds),
            namespace_selector: self.namespaces.clone(),
            object_selector: self.objects.clone(),
            admission_review_versions: vec![V1.to_owned()],
            side_effects: "None".to_owned(),
            ..MutatingWebhook::default()
        }
    }

    pub(super) fn validating(&self, client_config: WebhookClientConfig) -> ValidatingWebhook {
        ValidatingWebhook {
            name: self.name.clone(),
            client_config,
            rules: self.rules(),
            failure_policy: self.failure_policy(),
            timeout_seconds: Some(self.timeout_seconds),
            namespace_selector: self.namespaces.clone(),
            object_selector: self.objects.clone(),
            admission_review_versions: vec![V1.to_owned()],
            side_effects: "None".to_owned(),
            ..ValidatingWebhook::default()
        }
    }
}

/// Where a handler of conversions answers, and which definition is told so.
///
/// A path alone registers nothing. What [`Conversion::of`] names gets its stanza from the server itself.
#[derive(Clone, Debug)]
pub struct Conversion {
    pub(super) path: String,
    /// The name of the CustomResourceDefinition.
    pub(super) definition: Option<String>,
    pub(super) serves: Vec<String>,
}

impl From<&str> for Conversion {
    fn from(path: &str) -> Self {
        Conversion { path: path.to_owned(), definition: None, serves: Vec::new() }
    }
}

impl Conversion {
    /// Between all versions of this kind.
    pub fn of<K: Resource<DynamicType = ()>>(path: &str) -> Self {
        let definition = Some(format!("{}.{}", K::plural(&()), K::group(&())));
        Conversion { path: path.to_owned(), definition, serves: Vec::new() }
    }

    /// This version is served from the moment on at which somebody converts it. Its manifest says `served: false`, so that nobody
    /// is shown a version that cannot be made.
    #[must_use]
    pub fn serving(mut self, version: &str) -> Self {
        self.serves.push(version.to_owned());
        self
    }
}

/// How the API server reaches a path of the server.
pub(super) fn client_config(config: &WebhookConfig, path: &str, bundle: &str) -> WebhookClientConfig {
    let ca_bundle = Some(ByteString(bundle.as_bytes().to_vec()));
    match &config.url {
        Some(url) => {
            let url = Some(format!("{}{path}", url.trim_end_matches('/')));
            WebhookClientConfig { ca_bundle, url, service: None }
        }
        None => {
            let service = ServiceReference {
                namespace: config.namespace.clone(),
                name: config.service.clone(),
                path: Some(path.to_owned()),
                port: Some(i32::from(config.service_port)),
            };
            WebhookClientConfig { ca_bundle, service: Some(service), url: None }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    #[test]
    fn what_is_asked_is_said_by_the_kind() {
        let hook = Hook::about::<Pod>("/pods/check").on(&[Operation::Delete]).of_subresource("eviction");
        let hook = hook.ignoring_failures().timeout_seconds(99);
        let config = WebhookConfig::new("shop", "hook", "tls");
        let made = hook.about.unwrap().validating(client_config(&config, &hook.path, "bundle"));
        let made: Value = serde_json::to_value(made).unwrap();
        assert_eq!(
            made,
            json!({
                "name": "pods-check.pods.core", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "failurePolicy": "Ignore", "timeoutSeconds": 30,
                "clientConfig": {"caBundle": "YnVuZGxl",
                    "service": {"namespace": "shop", "name": "hook", "path": "/pods/check", "port": 443}},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods/eviction"]}],
            })
        );
    }

    #[test]
    fn a_server_outside_of_the_cluster_is_reached_by_its_url() {
        let mut config = WebhookConfig::new("shop", "hook", "tls");
        config.url = Some("https://127.0.0.1:9443/".to_owned());
        let made = client_config(&config, "/check", "");
        assert_eq!((made.url.as_deref(), made.service), (Some("https://127.0.0.1:9443/check"), None));
    }
}
