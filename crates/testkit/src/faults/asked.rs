//! What a request asks for, as far as faults care: who asks, which verb, which object.

use http::request::Parts;
use std::fmt;

/// Kinds that a healthy cluster writes for ever: they are never counted.
const RESTLESS: [&str; 2] = ["events", "leases"];

/// One request, read from its head alone, so that it may come from a client in this process or over a socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The product in the user agent: `replicaset-controller` of `replicaset-controller/pintle`.
    pub agent: String,
    pub method: String,
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub subresource: String,
    pub watches: bool,
    /// The key that its loop was reconciling, where a write tells it.
    pub key: String,
    dry_run: bool,
}

impl Asked {
    pub fn of(head: &Parts) -> Self {
        let agent = head.headers.get(http::header::USER_AGENT).and_then(|agent| agent.to_str().ok());
        let query = head.uri.query().unwrap_or_default();
        let has = |wanted: &str| query.split('&').any(|pair| pair == wanted);
        let mut asked = Asked {
            agent: agent.and_then(|agent| agent.split('/').next()).unwrap_or_default().to_owned(),
            method: head.method.as_str().to_owned(),
            watches: has("watch=true") || has("watch=1"),
            dry_run: query.contains("dryRun="),
            key: key_in(head.headers.get("pintle-cause").map_or(b"", |cause| cause.as_bytes())),
            ..Asked::default()
        };
        let segments: Vec<&str> = head.uri.path().split('/').filter(|segment| !segment.is_empty()).collect();
        let rest = match segments.first() {
            Some(&"api") => segments.get(2..),
            Some(&"apis") => segments.get(3..),
            _ => None,
        };
        let rest = match rest.unwrap_or_default() {
            // `namespaces/x/status` is about the namespace, `namespaces/x/pods` about what is in it.
            ["namespaces", namespace, inner, ..] if !matches!(*inner, "status" | "finalize") => {
                asked.namespace = (*namespace).to_owned();
                &rest.unwrap_or_default()[2..]
            }
            all => all,
        };
        let at = |index: usize| rest.get(index).map(|part| (*part).to_owned()).unwrap_or_default();
        (asked.resource, asked.name, asked.subresource) = (at(0), at(1), at(2));
        asked
    }

    /// Whether it changes something that a cluster at rest does not change: neither Leases nor Events, no dry run, no
    /// question in the form of a POST.
    pub fn writes(&self) -> bool {
        let changes = !matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS");
        changes
            && !self.dry_run
            && !self.resource.is_empty()
            && !self.resource.ends_with("reviews")
            && !self.is_restless()
    }

    /// Whether it is about what a healthy cluster writes for ever.
    pub(crate) fn is_restless(&self) -> bool {
        RESTLESS.contains(&self.resource.as_str())
    }

    /// Whether it may be about the object under this key of the store.
    pub(crate) fn is_about(&self, key: &str) -> bool {
        let tail = match (self.namespace.as_str(), self.name.as_str()) {
            (_, "") => return false,
            ("", name) => format!("/{name}"),
            (namespace, name) => format!("/{namespace}/{name}"),
        };
        key.ends_with(&tail)
    }
}

/// The key that a write's cause tells.
fn key_in(cause: &[u8]) -> String {
    let cause: serde_json::Value = serde_json::from_slice(cause).unwrap_or_default();
    cause["key"].as_str().unwrap_or_default().to_owned()
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.resource)?;
        for part in [&self.namespace, &self.name, &self.subresource] {
            if !part.is_empty() {
                write!(f, "/{part}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, uri: &str) -> Asked {
        let request = http::Request::builder().method(method).uri(uri).header("user-agent", "at/pintle").body(());
        Asked::of(&request.unwrap().into_parts().0)
    }

    #[test]
    fn a_request_is_known_by_its_path() {
        let cases = [
            ("PATCH", "/api/v1/namespaces/a/pods/b/status", "PATCH pods/a/b/status", true),
            ("POST", "/apis/apps/v1/namespaces/a/deployments", "POST deployments/a", true),
            ("PUT", "/api/v1/namespaces/a/finalize", "PUT namespaces/a/finalize", true),
            ("DELETE", "/api/v1/nodes/n", "DELETE nodes/n", true),
            ("GET", "/api/v1/pods?watch=true&resourceVersion=3", "GET pods", false),
            ("POST", "/api/v1/namespaces/a/events", "POST events/a", false),
            ("PUT", "/apis/coordination.k8s.io/v1/namespaces/a/leases/l", "PUT leases/a/l", false),
            ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "POST subjectaccessreviews", false),
            ("POST", "/api/v1/namespaces/a/pods?dryRun=All", "POST pods/a", false),
            ("GET", "/version", "GET ", false),
        ];
        for (method, uri, shown, writes) in cases {
            let asked = asked(method, uri);
            assert_eq!((asked.to_string().as_str(), asked.writes()), (shown, writes), "{uri}");
            assert_eq!(asked.agent, "at");
        }
        assert!(asked("GET", "/api/v1/pods?watch=true").watches && !asked("GET", "/api/v1/pods").watches);
    }
}
