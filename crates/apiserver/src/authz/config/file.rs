//! AuthorizationConfiguration: the authorizers, in order.

use super::{Authorization, Mode, WebhookConfig};
use crate::access;
pub use crate::access::ConfigError;
use crate::outbound::Endpoint;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{duration, rules};
use serde::Deserialize;
use std::time::Duration;

const MAX_TIMEOUT: Duration = Duration::from_secs(30);

/// The file is read once, when the server starts.
pub fn read(path: &std::path::Path) -> Result<Authorization, ConfigError> {
    let file: File = access::read(path, "AuthorizationConfiguration", &["v1", "v1beta1", "v1alpha1"])?;
    let chain = file.validated().map_err(|problems| ConfigError::Invalid { path: path.into(), problems })?;
    Ok(Authorization { chain })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    authorizers: Vec<AuthorizerPart>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AuthorizerPart {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    name: String,
    webhook: Option<WebhookPart>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WebhookPart {
    #[serde(default, rename = "authorizedTTL")]
    authorized_ttl: String,
    #[serde(default = "yes")]
    cache_authorized_requests: bool,
    #[serde(default, rename = "unauthorizedTTL")]
    unauthorized_ttl: String,
    #[serde(default = "yes")]
    cache_unauthorized_requests: bool,
    #[serde(default)]
    timeout: String,
    #[serde(default)]
    subject_access_review_version: String,
    #[serde(default)]
    match_condition_subject_access_review_version: String,
    #[serde(default)]
    failure_policy: String,
    #[serde(default)]
    connection_info: ConnectionPart,
    #[serde(default)]
    match_conditions: Vec<MatchCondition>,
}

fn yes() -> bool {
    true
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ConnectionPart {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    kube_config_file: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MatchCondition {
    #[serde(default)]
    expression: String,
}

/// Those that may stand once only.
const SINGLE: [&str; 4] = ["Node", "RBAC", "AlwaysAllow", "AlwaysDeny"];

impl File {
    fn validated(self) -> Result<Vec<Mode>, Errors> {
        let root = Path::new("authorizers");
        let (mut errors, mut chain) = (Vec::new(), Vec::new());
        let (mut types, mut names) = (Vec::new(), Vec::new());
        if self.authorizers.is_empty() {
            errors.push(Error::required(&root, "at least one authorization mode must be defined"));
        }
        for (index, authorizer) in self.authorizers.into_iter().enumerate() {
            let path = root.index(index);
            let AuthorizerPart { kind, name, webhook } = authorizer;
            let at = path.child("type");
            match kind.as_str() {
                "" => {
                    errors.push(Error::required(&at, ""));
                    continue;
                }
                "ABAC" => {
                    errors.push(Error::invalid(
                        &at,
                        kind,
                        "policy files of ABAC are not supported; use RBAC or a webhook",
                    ));
                    continue;
                }
                kind if kind != "Webhook" && !SINGLE.contains(&kind) => {
                    let known = ["AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"];
                    errors.push(Error::not_supported(&at, kind, &known));
                    continue;
                }
                kind if kind != "Webhook" && types.iter().any(|seen| seen == kind) => {
                    errors.push(Error::duplicate(&at, kind));
                    continue;
                }
                _ => {}
            }
            validate_name(&name, &names, &path.child("name"), &mut errors);
            let mode = match (kind.as_str(), webhook) {
                ("Webhook", None) => {
                    errors.push(Error::required(&path.child("webhook"), "required when type=Webhook"));
                    None
                }
                ("Webhook", Some(webhook)) => webhook
                    .validated(&name, &path.child("webhook"), &mut errors)
                    .map(|hook| Mode::Webhook(Box::new(hook))),
                (_, Some(_)) => {
                    let why = "may only be specified when type=Webhook";
                    errors.push(Error::invalid(&path.child("webhook"), "non-null", why));
                    None
                }
                ("Node", None) => Some(Mode::Node),
                ("RBAC", None) => Some(Mode::Rbac),
                ("AlwaysAllow", None) => Some(Mode::AlwaysAllow),
                (_, None) => Some(Mode::AlwaysDeny),
            };
            chain.extend(mode);
            types.push(kind);
            names.push(name);
        }
        if errors.is_empty() { Ok(chain) } else { Err(errors) }
    }
}

fn validate_name(name: &str, others: &[String], path: &Path, errors: &mut Errors) {
    let wrong = rules::dns_subdomain(name);
    if name.is_empty() {
        errors.push(Error::required(path, ""));
    } else if others.iter().any(|other| other == name) {
        errors.push(Error::duplicate(path, name));
    } else if !wrong.is_empty() {
        errors.push(Error::invalid(path, name, format!("authorizer name is invalid: {}", wrong.join(", "))));
    }
}

impl WebhookPart {
    /// None if something is wrong, which is then among the errors.
    fn validated(self, name: &str, path: &Path, errors: &mut Errors) -> Option<WebhookConfig> {
        let before = errors.len();
        let timeout = positive(&self.timeout, &path.child("timeout"), errors);
        if timeout.is_some_and(|timeout| timeout > MAX_TIMEOUT) {
            errors.push(Error::invalid(&path.child("timeout"), self.timeout.clone(), "must be > 0s and <= 30s"));
        }
        let authorized = positive(&self.authorized_ttl, &path.child("authorizedTTL"), errors);
        let unauthorized = positive(&self.unauthorized_ttl, &path.child("unauthorizedTTL"), errors);
        one_of(
            &self.subject_access_review_version,
            &["v1", "v1beta1"],
            &path.child("subjectAccessReviewVersion"),
            errors,
        );
        let at = path.child("matchConditionSubjectAccessReviewVersion");
        match self.match_condition_subject_access_review_version.as_str() {
            "" if !self.match_conditions.is_empty() => {
                errors.push(Error::required(&at, "required if match conditions are specified"));
            }
            "" | "v1" => {}
            other => errors.push(Error::not_supported(&at, other, &["v1"])),
        }
        one_of(&self.failure_policy, &["NoOpinion", "Deny"], &path.child("failurePolicy"), errors);
        for (index, condition) in self.match_conditions.iter().enumerate() {
            let at = path.child("matchConditions").index(index).child("expression");
            let why = "match conditions are expressions in CEL, which are not supported yet";
            errors.push(Error::invalid(&at, condition.expression.clone(), why));
        }
        let endpoint = self.connection_info.endpoint(&path.child("connectionInfo"), errors);
        if errors.len() > before {
            return None;
        }
        let kept = |ttl: Option<Duration>, keeps: bool| ttl.filter(|_| keeps).unwrap_or_default();
        Some(WebhookConfig {
            name: name.to_owned(),
            endpoint: endpoint?,
            version: self.subject_access_review_version,
            timeout: timeout?,
            authorized_ttl: kept(authorized, self.cache_authorized_requests),
            unauthorized_ttl: kept(unauthorized, self.cache_unauthorized_requests),
            denies_on_failure: self.failure_policy == "Deny",
        })
    }
}

impl ConnectionPart {
    fn endpoint(&self, path: &Path, errors: &mut Errors) -> Option<Endpoint> {
        let (kind, file) = (path.child("type"), path.child("kubeConfigFile"));
        let given = self.kube_config_file.as_str();
        match self.kind.as_str() {
            "" => errors.push(Error::required(&kind, "")),
            "KubeConfigFile" if given.is_empty() => errors.push(Error::required(&file, "")),
            "KubeConfigFile" if !given.starts_with('/') => {
                errors.push(Error::invalid(&file, given, "must be an absolute path"));
            }
            "KubeConfigFile" => match Endpoint::of_kubeconfig(std::path::Path::new(given)) {
                Ok(endpoint) => return Some(endpoint),
                Err(error) => errors.push(Error::invalid(&file, given, format!("error loading file: {error}"))),
            },
            "InClusterConfig" => {
                let why = "this server does not run in a Pod: name a file with type=KubeConfigFile";
                errors.push(Error::invalid(&kind, "InClusterConfig", why));
            }
            other => errors.push(Error::not_supported(&kind, other, &["InClusterConfig", "KubeConfigFile"])),
        }
        None
    }
}

fn one_of(value: &str, known: &[&str], path: &Path, errors: &mut Errors) {
    if value.is_empty() {
        errors.push(Error::required(path, ""));
    } else if !known.contains(&value) {
        errors.push(Error::not_supported(path, value, known));
    }
}

fn positive(text: &str, path: &Path, errors: &mut Errors) -> Option<Duration> {
    if text.is_empty() {
        errors.push(Error::required(path, ""));
        return None;
    }
    match duration::seconds(text) {
        Some(seconds) if seconds > 0.0 => return Duration::try_from_secs_f64(seconds).ok(),
        Some(0.0) => errors.push(Error::required(path, "")),
        Some(_) => errors.push(Error::invalid(path, text, "must be > 0s")),
        None => errors.push(Error::invalid(path, text, "must be a duration, such as 30s or 5m")),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<Mode>, String> {
        let text = format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n{text}");
        let file: File = access::decode(text.as_bytes(), "AuthorizationConfiguration", &["v1"])?;
        file.validated().map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    }

    const GOOD: &str = "
authorizers:
- type: Webhook
  name: first
  webhook:
    authorizedTTL: 5m
    unauthorizedTTL: 30s
    timeout: 3s
    subjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: /nowhere/at/all}
- {type: Node, name: node}
- {type: RBAC, name: rbac}
";

    #[test]
    fn authorizers_are_asked_in_the_order_of_the_file() {
        let chain =
            of("authorizers: [{type: RBAC, name: a}, {type: AlwaysDeny, name: b}, {type: Node, name: c}]").unwrap();
        assert!(matches!(chain[..], [Mode::Rbac, Mode::AlwaysDeny, Mode::Node]));
    }

    #[test]
    fn what_a_file_cannot_mean_is_refused_by_the_name_of_the_field() {
        let only = of(GOOD).err().unwrap();
        assert!(only.starts_with("authorizers[0].webhook.connectionInfo.kubeConfigFile: Invalid value"), "{only}");
        for (from, to, why) in [
            ("type: Webhook", "type: ''", "authorizers[0].type: Required value"),
            ("type: Webhook", "type: ABAC", "authorizers[0].type: Invalid value"),
            ("type: Webhook", "type: Magic", "authorizers[0].type: Unsupported value: \"Magic\""),
            ("type: Webhook", "type: RBAC", "authorizers[0].webhook: Invalid value: \"non-null\""),
            ("type: RBAC", "type: Node", "authorizers[2].type: Duplicate value: \"Node\""),
            ("name: rbac", "name: node", "authorizers[2].name: Duplicate value: \"node\""),
            ("name: rbac", "name: No_Name", "authorizers[2].name: Invalid value"),
            ("timeout: 3s", "timeout: 31s", "webhook.timeout: Invalid value: \"31s\": must be > 0s and <= 30s"),
            ("timeout: 3s", "timeout: 0s", "webhook.timeout: Required value"),
            ("timeout: 3s", "timeout: soon", "webhook.timeout: Invalid value"),
            ("authorizedTTL: 5m", "authorizedTTL: -5m", "webhook.authorizedTTL: Invalid value"),
            ("failurePolicy: Deny", "failurePolicy: Maybe", "webhook.failurePolicy: Unsupported value"),
            ("Version: v1", "Version: v2", "webhook.subjectAccessReviewVersion: Unsupported value"),
            ("type: KubeConfigFile", "type: InClusterConfig", "webhook.connectionInfo.type: Invalid value"),
            ("/nowhere/at/all", "nowhere", "must be an absolute path"),
            (
                "    timeout",
                "    matchConditions: [{expression: 'true'}]\n    timeout",
                "matchConditions[0].expression",
            ),
            ("    timeout", "    retries: 3\n    timeout", "unknown field `retries`"),
        ] {
            let changed = GOOD.replacen(from, to, 1);
            assert_ne!(changed, GOOD, "{from}");
            let error = of(&changed).err().unwrap();
            assert!(error.contains(why), "{to}: {error}");
        }
        assert!(of("authorizers: []").err().unwrap().contains("at least one authorization mode must be defined"));
    }
}
