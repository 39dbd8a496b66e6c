//! What a registry is told about who pulls: from a Pod's pull secrets, in the forms that Docker's tools write, and from
//! programs of the machine that make it up when it is needed.

mod plugin;
pub mod providers;

use k8s_openapi::api::core::v1::Secret;
use pintle_container::Credentials;
use serde_json::{Map, Value};

/// Docker's own registry, which names without a host mean.
const HUB: &str = "index.docker.io";

/// Those in the secret that are for this image, the most exact first.
pub(crate) fn matching(secret: &Secret, image: &str) -> Vec<Credentials> {
    let data = secret.data.as_ref();
    let read = |key: &str| data.and_then(|data| data.get(key)).and_then(|bytes| serde_json::from_slice(&bytes.0).ok());
    let registries: Option<Value> = match secret.type_.as_deref() {
        Some("kubernetes.io/dockerconfigjson") => {
            read(".dockerconfigjson").and_then(|config: Value| config.get("auths").cloned())
        }
        Some("kubernetes.io/dockercfg") => read(".dockercfg"),
        _ => None,
    };
    let Some(Value::Object(registries)) = registries else { return Vec::new() };
    chosen(&registries, image)
}

/// Of entries by registry, those that are for this image, the most exact first.
fn chosen(registries: &Map<String, Value>, image: &str) -> Vec<Credentials> {
    let (host, path) = place(image);
    let mut found: Vec<(usize, Credentials)> = registries
        .iter()
        .filter(|(registry, _)| is_for(registry, host, path))
        .map(|(registry, entry)| (registry.len(), credentials(entry)))
        .collect();
    found.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
    found.into_iter().map(|(_, credentials)| credentials).collect()
}

/// The registry and the repository of an image.
fn place(image: &str) -> (&str, &str) {
    match image.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => match host {
            "docker.io" => (HUB, path),
            _ => (host, path),
        },
        _ => (HUB, image),
    }
}

/// `https://host/v1/`, `*.example.com/team` and the like.
fn is_for(registry: &str, host: &str, path: &str) -> bool {
    let registry = registry.split_once("://").map_or(registry, |(_, rest)| rest).trim_end_matches('/');
    let (wanted, below) = registry.split_once('/').unwrap_or((registry, ""));
    let wanted = if wanted == "docker.io" { HUB } else { wanted };
    // Version parts of an old address are no part of any repository's name.
    let below = below.strip_prefix("v1").or_else(|| below.strip_prefix("v2")).unwrap_or(below).trim_matches('/');
    let (wanted, host): (Vec<&str>, Vec<&str>) = (wanted.split('.').collect(), host.split('.').collect());
    let labels = wanted.len() == host.len() && wanted.iter().zip(&host).all(|(wanted, label)| fits(wanted, label));
    labels
        && path
            .strip_prefix(below)
            .is_some_and(|rest| below.is_empty() || rest.is_empty() || rest.starts_with(['/', ':', '@']))
}

/// One label of a host, in which a star stands for anything.
fn fits(pattern: &str, label: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == label,
        Some((before, after)) => {
            label.len() >= before.len() + after.len() && label.starts_with(before) && label.ends_with(after)
        }
    }
}

fn credentials(entry: &Value) -> Credentials {
    let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    let mut credentials =
        Credentials { username: text("username"), password: text("password"), identity_token: text("identitytoken") };
    // The two together, if they are not there one by one.
    let both = decoded(&text("auth"));
    if let Some((username, password)) = both.as_deref().and_then(|both| both.split_once(':'))
        && credentials.username.is_empty()
    {
        (credentials.username, credentials.password) = (username.to_owned(), password.to_owned());
    }
    credentials
}

fn decoded(text: &str) -> Option<String> {
    use base64::Engine;
    let bytes = base64::prelude::BASE64_STANDARD.decode(text).ok()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_registry_is_told_what_is_meant_for_it_and_nobody_else_is() {
        for (registry, image, expected) in [
            ("https://index.docker.io/v1/", "busybox", true),
            ("https://index.docker.io/v1/", "docker.io/library/busybox:1", true),
            ("https://index.docker.io/v1/", "example.com/busybox", false),
            ("example.com", "example.com/team/web:1", true),
            ("example.com/team", "example.com/team/web:1", true),
            ("example.com/team", "example.com/teams/web", false),
            ("example.com/team/web", "example.com/team/web@sha256:0", true),
            ("*.example.com", "eu.example.com/web", true),
            ("*.example.com", "a.eu.example.com/web", false),
            ("*.example.com", "example.com.evil.org/web", false),
            ("localhost:5000", "localhost:5000/web", true),
            ("localhost:5000", "localhost:5001/web", false),
        ] {
            let (host, path) = place(image);
            assert_eq!(is_for(registry, host, path), expected, "{registry} for {image}");
        }
    }

    #[test]
    fn a_secret_gives_the_most_exact_first_and_shows_no_password() {
        let config = json!({"auths": {
            "example.com": {"auth": "YTpiOmM="}, "example.com/team": {"username": "u", "password": "p"}, "other.org": {}}});
        let secret = Secret {
            type_: Some("kubernetes.io/dockerconfigjson".into()),
            data: Some([(".dockerconfigjson".into(), ByteString(config.to_string().into()))].into()),
            ..Secret::default()
        };
        let found = matching(&secret, "example.com/team/web");
        let told: Vec<_> = found.iter().map(|c| (c.username.as_str(), c.password.as_str())).collect();
        assert_eq!(told, [("u", "p"), ("a", "b:c")]);
        assert!(!format!("{found:?}").contains("b:c"));
    }
}
