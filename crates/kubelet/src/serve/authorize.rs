//! Who asks a node, and whether they may: the API server is asked about tokens (TokenReview) and rights (SubjectAccessReview).

use std::time::Duration;

use aws_lc_rs::digest;
use http::{HeaderMap, Method, StatusCode, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use pintle_runtime::Objects;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::Failure;
use super::remember::Remembered;

const MASTERS: &str = "system:masters";
const AUTHENTICATED: &str = "system:authenticated";

/// For how long answers of the API server count: Kubernetes' own defaults.
const TOKEN_TTL: Duration = Duration::from_secs(2 * 60);
const ALLOWED_TTL: Duration = Duration::from_secs(5 * 60);
const DENIED_TTL: Duration = Duration::from_secs(30);

/// A longer token is not asked about.
const MAX_TOKEN_BYTES: usize = 64 * 1024;

/// A client as its certificate or its token names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct User {
    name: String,
    uid: Option<String>,
    groups: Vec<String>,
}

impl User {
    /// From a certificate that the TLS layer has verified; nothing if it names nobody.
    pub(super) fn of(certificate: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let name = certificate.subject().iter_common_name().next()?.as_str().ok()?.to_owned();
        let groups = certificate.subject().iter_organization().filter_map(|group| group.as_str().ok());
        let groups = groups.map(str::to_owned).chain([AUTHENTICATED.to_owned()]).collect();
        Some(User { name, uid: None, groups }).filter(|user| !user.name.is_empty())
    }
}

/// What a path of the node's is called in rules: any one of these subresources of the Node is enough.
fn subresources(path: &str) -> Vec<&'static str> {
    let below = |prefix: &str| path == prefix || path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'));
    let fine = [("/pods", "pods"), ("/healthz", "healthz"), ("/configz", "configz"), ("/runningpods", "pods")];
    let coarse = [
        ("/stats", "stats"),
        ("/metrics", "metrics"),
        ("/logs", "log"),
        ("/checkpoint", "checkpoint"),
        ("/statusz", "statusz"),
        ("/flagz", "configz"),
    ];
    let fine = fine.into_iter().find(|(prefix, _)| below(prefix)).map(|(_, name)| name);
    let coarse = coarse.into_iter().find(|(prefix, _)| below(prefix)).map_or("proxy", |(_, name)| name);
    fine.into_iter().chain([coarse]).collect()
}

fn verb(method: &Method) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::GET | Method::HEAD => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

/// A right, as it is asked for.
type Right = (User, &'static str, &'static str);

/// What one node asks the API server about those who ask the node.
pub(super) struct Access {
    client: kube::Client,
    node: String,
    /// By the token's SHA-256: tokens themselves are not kept.
    tokens: Remembered<Vec<u8>, Option<User>>,
    rights: Remembered<Right, bool>,
}

impl Access {
    pub(super) fn new(client: kube::Client, node: String) -> Self {
        Access { client, node, tokens: Remembered::default(), rights: Remembered::default() }
    }

    /// Who asks: by certificate, or else by bearer token. Others are not answered.
    pub(super) async fn user(&self, certificate: Option<User>, headers: &HeaderMap) -> Result<User, Failure> {
        let unauthorized = || Failure(StatusCode::UNAUTHORIZED, "Unauthorized".to_owned());
        if let Some(user) = certificate {
            return Ok(user);
        }
        let token = bearer(headers).ok_or_else(unauthorized)?;
        let digest = digest::digest(&digest::SHA256, token.as_bytes()).as_ref().to_vec();
        if let Some(known) = self.tokens.get(&digest) {
            return known.ok_or_else(unauthorized);
        }
        let review = TokenReview {
            spec: TokenReviewSpec { token: token.to_owned(), audiences: None },
            ..TokenReview::default()
        };
        let answer = Objects::<TokenReview>::all(self.client.clone()).create(&PostParams::default(), &review).await;
        let status = match answer {
            Ok(answer) => answer.status.unwrap_or_default(),
            Err(error) => {
                tracing::warn!(%error, "whose token this is is not known; it is refused");
                return Err(unauthorized());
            }
        };
        let told = status.user.filter(|_| status.authenticated == Some(true)).unwrap_or_default();
        let user = told.username.filter(|name| !name.is_empty()).map(|name| User {
            name,
            uid: told.uid,
            groups: told.groups.unwrap_or_default(),
        });
        self.tokens.keep(digest, user.clone(), TOKEN_TTL);
        user.ok_or_else(unauthorized)
    }

    /// Refuses what the user may not ask of this node.
    pub(super) async fn check(&self, user: &User, method: &Method, path: &str) -> Result<(), Failure> {
        // The API server answers the same, and may be the one who asks.
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(());
        }
        let (verb, subresources) = (verb(method), subresources(path));
        for subresource in &subresources {
            if self.allows(user, verb, subresource).await? {
                return Ok(());
            }
        }
        let message = format!(
            "Forbidden (user={}, verb={verb}, resource=nodes, subresource(s)=[{}])\n",
            user.name,
            subresources.join(" ")
        );
        Err(Failure(StatusCode::FORBIDDEN, message))
    }

    async fn allows(&self, user: &User, verb: &'static str, subresource: &'static str) -> Result<bool, Failure> {
        let right = (user.clone(), verb, subresource);
        if let Some(known) = self.rights.get(&right) {
            return Ok(known);
        }
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.name.clone()),
                uid: user.uid.clone(),
                groups: Some(user.groups.clone()),
                resource_attributes: Some(ResourceAttributes {
                    verb: Some(verb.to_owned()),
                    version: Some("v1".to_owned()),
                    resource: Some("nodes".to_owned()),
                    subresource: Some(subresource.to_owned()),
                    name: Some(self.node.clone()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let answer =
            Objects::<SubjectAccessReview>::all(self.client.clone()).create(&PostParams::default(), &review).await;
        let allowed = match answer {
            Ok(answer) => answer.status.is_some_and(|status| status.allowed),
            Err(error) => {
                tracing::warn!(user = user.name, %error, "who may ask this node is not known; it is refused");
                let message = format!(
                    "Authorization error (user={}, verb={verb}, resource=nodes, subresource={subresource})",
                    user.name
                );
                return Err(Failure(StatusCode::INTERNAL_SERVER_ERROR, message));
            }
        };
        self.rights.keep(right, allowed, if allowed { ALLOWED_TTL } else { DENIED_TTL });
        Ok(allowed)
    }
}

/// The token of `Authorization: Bearer TOKEN`.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= MAX_TOKEN_BYTES).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_needs_the_right_that_upstream_wants() {
        for (path, names) in [
            ("/pods", &["pods", "proxy"][..]),
            ("/runningpods/", &["pods", "proxy"]),
            ("/healthz", &["healthz", "proxy"]),
            ("/healthz/ping", &["healthz", "proxy"]),
            ("/configz", &["configz", "proxy"]),
            ("/flagz", &["configz"]),
            ("/statusz", &["statusz"]),
            ("/stats/summary", &["stats"]),
            ("/metrics", &["metrics"]),
            ("/metrics/resource", &["metrics"]),
            ("/logs/", &["log"]),
            ("/checkpoint/a/b/c", &["checkpoint"]),
            ("/exec/a/b/c", &["proxy"]),
            ("/statsx", &["proxy"]),
        ] {
            assert_eq!(subresources(path), names, "{path}");
        }
    }

    #[test]
    fn a_token_is_found_as_clients_write_it() {
        for (value, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer  abc ", Some("abc")),
            ("Bearer", None),
            ("Bearer ", None),
            ("Basic abc", None),
            ("abc", None),
        ] {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
            assert_eq!(bearer(&headers), token, "{value}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
