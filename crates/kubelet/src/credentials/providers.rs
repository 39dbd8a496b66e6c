//! Image credential provider plugins: which programs are asked for which images, and for how long their answers hold.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use pintle_container::Credentials;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{chosen, is_for, place, plugin};

const CONFIG: [&str; 3] =
    ["kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v1beta1", "kubelet.config.k8s.io/v1alpha1"];
const SPOKEN: [&str; 3] = [
    "credentialprovider.kubelet.k8s.io/v1",
    "credentialprovider.kubelet.k8s.io/v1beta1",
    "credentialprovider.kubelet.k8s.io/v1alpha1",
];

/// What a `CredentialProviderConfig` says, and where its programs are.
#[derive(Clone, Debug)]
pub struct CredentialProviders {
    pub(super) directory: PathBuf,
    pub(super) providers: Vec<Provider>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Provider {
    /// Also that of the program.
    pub(super) name: String,
    #[serde(default)]
    match_images: Vec<String>,
    #[serde(default)]
    default_cache_duration: String,
    #[serde(default)]
    pub(super) api_version: String,
    #[serde(default)]
    pub(super) args: Vec<String>,
    #[serde(default)]
    pub(super) env: Vec<Variable>,
    #[serde(default)]
    token_attributes: Option<Value>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) value: String,
}

impl CredentialProviders {
    /// The error names the field.
    pub fn new(config: &Value, directory: PathBuf) -> Result<Self, String> {
        let text = |field: &str| config[field].as_str().unwrap_or_default();
        if text("kind") != "CredentialProviderConfig" || !CONFIG.contains(&text("apiVersion")) {
            return Err(format!("it must be a CredentialProviderConfig of {}", CONFIG[0]));
        }
        let providers: Vec<Provider> =
            serde_json::from_value(config["providers"].clone()).map_err(|error| format!("providers: {error}"))?;
        if providers.is_empty() {
            return Err("providers: at least one is needed".to_owned());
        }
        for (number, provider) in providers.iter().enumerate() {
            let wrong = |field: &str, why: &str| Err(format!("providers[{number}].{field}: {why}"));
            let name = provider.name.as_str();
            if name.is_empty() || matches!(name, "." | "..") || name.contains(['/', ' ']) {
                return wrong("name", "it must be the name of a program, without a path");
            }
            if providers.iter().take(number).any(|other| other.name == provider.name) {
                return wrong("name", "another provider has it already");
            }
            if provider.match_images.is_empty() {
                return wrong("matchImages", "at least one is needed");
            }
            if !SPOKEN.contains(&provider.api_version.as_str()) {
                return wrong("apiVersion", &format!("it must be one of {}", SPOKEN.join(", ")));
            }
            if duration(&provider.default_cache_duration).is_none() {
                return wrong("defaultCacheDuration", "a duration such as 12h is needed");
            }
            if provider.token_attributes.is_some() {
                return wrong("tokenAttributes", "tokens of service accounts are not given to plugins here");
            }
        }
        Ok(CredentialProviders { directory, providers })
    }
}

fn duration(text: &str) -> Option<SignedDuration> {
    text.parse::<SignedDuration>().ok().filter(|duration| !duration.is_negative())
}

/// For which other images an answer holds too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Image(String),
    Registry(String),
    Global,
}

struct Kept {
    entries: Map<String, Value>,
    until: Timestamp,
}

/// The plugins of one machine, and what they have answered.
#[derive(Clone)]
pub(crate) struct Providers {
    config: Arc<CredentialProviders>,
    kept: Arc<Mutex<BTreeMap<(String, Scope), Kept>>>,
}

impl Providers {
    pub(crate) fn new(config: CredentialProviders) -> Self {
        Providers { config: Arc::new(config), kept: Arc::default() }
    }

    /// What the plugins that know this image have for it. One that fails is said, and the others are asked.
    pub(crate) async fn credentials(&self, image: &str, now: Timestamp) -> Vec<Credentials> {
        let (host, path) = place(image);
        let mut found = Vec::new();
        let knows = |provider: &&Provider| provider.match_images.iter().any(|pattern| is_for(pattern, host, path));
        for provider in self.config.providers.iter().filter(knows) {
            match self.entries(provider, image, now).await {
                Ok(entries) => found.extend(chosen(&entries, image)),
                Err(error) => tracing::warn!(provider = %provider.name, %image, %error, "no credentials from a plugin"),
            }
        }
        found
    }

    async fn entries(&self, provider: &Provider, image: &str, now: Timestamp) -> Result<Map<String, Value>, String> {
        let scopes = [Scope::Image(image.to_owned()), Scope::Registry(place(image).0.to_owned()), Scope::Global];
        {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.retain(|_, kept| kept.until > now);
            let known = scopes.iter().find_map(|scope| kept.get(&(provider.name.clone(), scope.clone())));
            if let Some(known) = known {
                return Ok(known.entries.clone());
            }
        }
        let answer = plugin::ask(&self.config.directory, provider, image).await?;
        let [of_image, of_registry, of_all] = scopes;
        let scope = match answer.cache_key_type.as_str() {
            "Image" => of_image,
            "Registry" => of_registry,
            "Global" => of_all,
            other => return Err(format!("it answered with an unknown cacheKeyType {other:?}")),
        };
        let holds = answer.cache_duration.as_deref().unwrap_or(&provider.default_cache_duration);
        let until = duration(holds).and_then(|holds| now.checked_add(holds).ok()).filter(|until| *until > now);
        if let Some(until) = until {
            let kept = Kept { entries: answer.auth.clone(), until };
            let mut all = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert((provider.name.clone(), scope), kept);
        }
        Ok(answer.auth)
    }
}

#[cfg(test)]
#[path = "providers_tests.rs"]
mod tests;
