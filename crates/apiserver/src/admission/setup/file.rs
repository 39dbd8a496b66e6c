//! AdmissionConfiguration: a file with the configuration of single plugins, in it or in files that it names.

use super::{Configuration, Here, known};
use crate::access::{self, ConfigError};
use crate::admission::pod_security;
use crate::outbound::{Credentials, EndpointError};
use crate::parse;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    plugins: Vec<Plugin>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plugin {
    #[serde(default)]
    name: String,
    #[serde(default)]
    path: String,
    configuration: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WebhookFile {
    #[serde(default)]
    kube_config_file: String,
}

/// What the file says. What it does not know is an error: it is never ignored.
pub fn read(path: &FilePath) -> Result<Configuration, ConfigError> {
    let file: File = access::read(path, "AdmissionConfiguration", &["v1"])?;
    let (mut configuration, mut seen, mut problems) = (Configuration::default(), BTreeSet::new(), Errors::new());
    let directory = path.parent().unwrap_or(FilePath::new("."));
    for (index, plugin) in file.plugins.into_iter().enumerate() {
        let at = Path::new("plugins").index(index);
        if !seen.insert(plugin.name.clone()) {
            problems.push(Error::duplicate(&at.child("name"), plugin.name));
            continue;
        }
        if let Err(problem) = plugin.add_to(&mut configuration, directory, &at) {
            problems.extend(problem);
        }
    }
    match problems.is_empty() {
        true => Ok(configuration),
        false => Err(ConfigError::Invalid { path: path.into(), problems }),
    }
}

impl Plugin {
    fn add_to(self, to: &mut Configuration, directory: &FilePath, at: &Path) -> Result<(), Errors> {
        let name = self.name.clone();
        match known(&name) {
            None => return Err(vec![Error::invalid(&at.child("name"), name, "there is no plugin of this name")]),
            Some((_, Here::Absent)) => {
                return Err(vec![Error::invalid(&at.child("name"), name, "this plugin is not built here")]);
            }
            Some(_) => {}
        }
        let Some(own) = self.own(directory, at)? else { return Ok(()) };
        match name.as_str() {
            "PodSecurity" => to.pod_security = Arc::new(pod_security(own)?),
            "MutatingAdmissionWebhook" => to.mutating = Arc::new(credentials(own)?),
            "ValidatingAdmissionWebhook" => to.validating = Arc::new(credentials(own)?),
            _ => return Err(vec![Error::forbidden(at, format!("plugin {name} has no configuration here"))]),
        }
        Ok(())
    }

    /// The plugin's own configuration; none if the file only names it.
    fn own(self, directory: &FilePath, at: &Path) -> Result<Option<Own>, Errors> {
        match (self.configuration, self.path.as_str()) {
            (None | Some(Value::Null), "") => Ok(None),
            (Some(Value::Null) | None, path) => {
                let (path, at) = (directory.join(path), at.child("path"));
                let unreadable = |why: String| vec![Error::invalid(&at, path.display().to_string(), why)];
                let text = std::fs::read(&path).map_err(|error| unreadable(error.to_string()))?;
                let parsed = parse::yaml(&text).map_err(unreadable)?;
                match parsed.duplicates.messages().into_iter().next() {
                    Some(twice) => Err(unreadable(twice)),
                    None => Ok(Some(Own { value: parsed.value, at })),
                }
            }
            (Some(value), "") => Ok(Some(Own { value, at: at.child("configuration") })),
            (Some(_), _) => Err(vec![Error::forbidden(at, "path and configuration exclude each other")]),
        }
    }
}

/// A plugin's own configuration, and where it stands.
struct Own {
    value: Value,
    at: Path,
}

impl Own {
    fn decode<T: DeserializeOwned>(mut self, group: &str, versions: &[&str], kind: &str) -> Result<T, Errors> {
        let (found, named) = (object::text(&self.value, &["apiVersion"]), object::kind(&self.value));
        let expected: Vec<String> = versions.iter().map(|version| format!("{group}/{version}")).collect();
        if !expected.iter().any(|version| version == found) || named != kind {
            let why = format!(
                "expected kind {kind} and apiVersion {}, found kind {named:?} and apiVersion {found:?}",
                expected.join(" or ")
            );
            return Err(vec![Error::invalid(&self.at, named, why)]);
        }
        let map = object::as_map(&mut self.value);
        map.remove("apiVersion");
        map.remove("kind");
        map.retain(|_, value| !value.is_null());
        serde_json::from_value(self.value).map_err(|error| vec![Error::invalid(&self.at, kind, error.to_string())])
    }
}

fn pod_security(own: Own) -> Result<pod_security::Configuration, Errors> {
    let at = own.at.clone();
    let versions = ["v1", "v1beta1", "v1alpha1"];
    let file: pod_security::File =
        own.decode("pod-security.admission.config.k8s.io", &versions, "PodSecurityConfiguration")?;
    file.validated(&at)
}

fn credentials(own: Own) -> Result<Credentials, Errors> {
    let at = own.at.child("kubeConfigFile");
    let file: WebhookFile = own.decode("apiserver.config.k8s.io", &["v1"], "WebhookAdmissionConfiguration")?;
    if file.kube_config_file.is_empty() {
        return Ok(Credentials::default());
    }
    let path = PathBuf::from(&file.kube_config_file);
    if !path.is_absolute() {
        return Err(vec![Error::invalid(&at, file.kube_config_file, "must be an absolute file path")]);
    }
    let unusable = |error: EndpointError| vec![Error::invalid(&at, file.kube_config_file.as_str(), error.to_string())];
    Credentials::of_kubeconfig(&path).map_err(unusable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Configuration, String> {
        let directory = tempfile::tempdir().unwrap();
        let own = "{apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, defaults: {warn: baseline}}";
        std::fs::write(directory.path().join("own.yaml"), own).unwrap();
        let users = "{apiVersion: v1, kind: Config, users: [{name: hook.shop.svc, user: {token: t}}]}";
        std::fs::write(directory.path().join("users"), users).unwrap();
        let path = directory.path().join("admission.yaml");
        let text = text.replace("DIR", &directory.path().display().to_string());
        std::fs::write(&path, format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n{text}"))
            .unwrap();
        read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn plugins_are_configured_in_the_file_or_beside_it() {
        let webhooks = "configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: DIR/users}";
        let read = read_text(&format!(
            "plugins:\n- {{name: PodSecurity, path: own.yaml}}\n- name: ValidatingAdmissionWebhook\n  {webhooks}\n- {{name: Priority}}\n"
        ));
        let read = read.unwrap();
        assert_eq!(read.pod_security.defaults.warn.to_string(), "baseline:latest");
        assert!(read.validating.of("hook.shop.svc", 443).is_some() && read.mutating.of("hook.shop.svc", 443).is_none());
    }

    #[test]
    fn what_cannot_be_configured_is_refused_by_its_name() {
        let security = |rest: &str| {
            format!(
                "plugins:\n- name: PodSecurity\n  configuration: {{apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, {rest}}}\n"
            )
        };
        for (text, why) in [
            ("plugins: [{name: Magic}]".to_owned(), "plugins[0].name: Invalid value: \"Magic\""),
            ("plugins: [{name: EventRateLimit, path: x}]".to_owned(), "not built here"),
            ("plugins: [{name: Priority, configuration: {a: 1}}]".to_owned(), "plugin Priority has no configuration"),
            ("plugins: [{name: Priority}, {name: Priority}]".to_owned(), "plugins[1].name: Duplicate value"),
            ("plugins: [{name: PodSecurity, path: nowhere}]".to_owned(), "plugins[0].path"),
            ("plugins: [{name: PodSecurity, file: x}]".to_owned(), "unknown field `file`"),
            ("plugin: []".to_owned(), "unknown field `plugin`"),
            (security("defaults: {enforce: strict}"), "configuration.defaults.enforce: Invalid value: \"strict\""),
            (security("defaults: {enforced: baseline}"), "unknown field `enforced`"),
            (security("exemptions: {namespaces: [a, a]}"), "exemptions.namespaces[1]: Duplicate value"),
            (security("exemptions: {usernames: [\"\"]}"), "exemptions.usernames[0]"),
        ] {
            let said = read_text(&text).err().unwrap_or_else(|| panic!("{text} is taken"));
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
