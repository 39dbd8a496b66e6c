//! Who may ask a node: the API server itself, and whoever it says may.

use http::Method;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::{Api, PostParams};
use x509_parser::prelude::{FromDer, X509Certificate};

const MASTERS: &str = "system:masters";
const AUTHENTICATED: &str = "system:authenticated";

/// A client as its certificate names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct User {
    name: String,
    groups: Vec<String>,
}

impl User {
    /// From a certificate that the TLS layer has verified; nothing if it names nobody.
    pub(super) fn of(certificate: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let name = certificate.subject().iter_common_name().next()?.as_str().ok()?.to_owned();
        let groups = certificate.subject().iter_organization().filter_map(|group| group.as_str().ok());
        let groups = groups.map(str::to_owned).chain([AUTHENTICATED.to_owned()]).collect();
        Some(User { name, groups }).filter(|user| !user.name.is_empty())
    }
}

/// What a path of the node's is called in rules: any one of these subresources of the Node is enough.
fn subresources(path: &str) -> Vec<&'static str> {
    let below = |prefix: &str| path == prefix || path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'));
    let mut names = Vec::new();
    for (prefix, name) in [("/pods", "pods"), ("/healthz", "healthz")] {
        names.extend(below(prefix).then_some(name));
    }
    let coarse = [("/stats", "stats"), ("/metrics", "metrics"), ("/logs", "log")];
    names.push(coarse.into_iter().find(|(prefix, _)| below(prefix)).map_or("proxy", |(_, name)| name));
    names
}

/// Whether a user may ask this of a node.
pub(super) async fn allows(client: &kube::Client, node: &str, user: &User, method: &Method, path: &str) -> bool {
    // The API server answers the same, and may be the one who asks.
    if user.groups.iter().any(|group| group == MASTERS) {
        return true;
    }
    let verb = match *method {
        Method::POST => "create",
        Method::GET | Method::HEAD => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => return false,
    };
    for subresource in subresources(path) {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.name.clone()),
                groups: Some(user.groups.clone()),
                resource_attributes: Some(ResourceAttributes {
                    verb: Some(verb.to_owned()),
                    version: Some("v1".to_owned()),
                    resource: Some("nodes".to_owned()),
                    subresource: Some(subresource.to_owned()),
                    name: Some(node.to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        match Api::<SubjectAccessReview>::all(client.clone()).create(&PostParams::default(), &review).await {
            Ok(answer) if answer.status.as_ref().is_some_and(|status| status.allowed) => return true,
            Ok(_) => {}
            Err(error) => tracing::warn!(user = user.name, %error, "who may ask this node is not known; it is refused"),
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_needs_the_right_that_upstream_wants() {
        assert_eq!(subresources("/pods"), ["pods", "proxy"]);
        assert_eq!(subresources("/stats/summary"), ["stats"]);
        assert_eq!(subresources("/metrics/resource"), ["metrics"]);
        assert_eq!(subresources("/exec/a/b/c"), ["proxy"]);
        assert_eq!(subresources("/statsx"), ["proxy"]);
    }
}
