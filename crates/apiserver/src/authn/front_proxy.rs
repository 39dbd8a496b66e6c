//! Users that a proxy in front names in headers: the aggregator of another API server, or an authenticating proxy.
//!
//! - Only a proxy that showed a certificate of the right authority, with one of the allowed names, is believed; see
//!   [`FrontProxy::shown`]. From anybody else the headers count as absent.
//! - The headers are removed after authentication, from every request ([`FrontProxy::clear`], [`clear_usual`]).
//!
//! A custom API server makes one from what the cluster publishes in the ConfigMap `extension-apiserver-authentication`
//! ([`Options::of_published`]).

use super::User;
use super::certificate;
use crate::pki::PkiError;
use http::{HeaderMap, HeaderName};
use pintle_meta::{object, query};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use serde_json::Value;
use std::sync::Arc;

/// How a proxy is known, and how it names users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The authorities of proxies' certificates, in PEM.
    pub ca_pem: String,
    /// Allowed common names of proxies; every name if the list is empty.
    pub allowed_names: Vec<String>,
    /// The first of these headers that has a value names the user.
    pub username_headers: Vec<String>,
    pub uid_headers: Vec<String>,
    /// All values of all of these are groups.
    pub group_headers: Vec<String>,
    /// What follows one of these in a header's name is the key of an extra value.
    pub extra_prefixes: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum FrontProxyError {
    #[error("{0:?} is not the name of a header")]
    Header(String),
    #[error("the authority of front proxies cannot be used: {0}")]
    Authority(String),
    #[error("the ConfigMap has no usable {0}")]
    Published(&'static str),
}

impl Options {
    /// What a cluster publishes about its proxy, the `data` of `extension-apiserver-authentication`: the authority as PEM, and
    /// each list as JSON.
    pub fn of_published(data: &Value) -> Result<Self, FrontProxyError> {
        let list = |key: &'static str| match object::text(data, &[key]) {
            "" => Ok(Vec::new()),
            text => serde_json::from_str(text).map_err(|_| FrontProxyError::Published(key)),
        };
        let ca_pem = object::text(data, &["requestheader-client-ca-file"]).to_owned();
        if ca_pem.is_empty() {
            return Err(FrontProxyError::Published("requestheader-client-ca-file"));
        }
        Ok(Options {
            ca_pem,
            allowed_names: list("requestheader-allowed-names")?,
            username_headers: list("requestheader-username-headers")?,
            uid_headers: list("requestheader-uid-headers")?,
            group_headers: list("requestheader-group-headers")?,
            extra_prefixes: list("requestheader-extra-headers-prefix")?,
        })
    }
}

/// Believes the proxies of one authority.
pub struct FrontProxy {
    verifier: Arc<dyn ClientCertVerifier>,
    allowed_names: Vec<String>,
    names: Vec<HeaderName>,
    uids: Vec<HeaderName>,
    groups: Vec<HeaderName>,
    extra: Vec<String>,
}

impl FrontProxy {
    pub fn new(options: &Options) -> Result<Self, FrontProxyError> {
        let headers = |names: &[String]| names.iter().map(|name| header(name)).collect::<Result<Vec<_>, _>>();
        let prefixes = options.extra_prefixes.iter().map(|prefix| Ok(header(prefix)?.as_str().to_owned()));
        Ok(FrontProxy {
            verifier: verifier(&options.ca_pem).map_err(|error| FrontProxyError::Authority(error.to_string()))?,
            allowed_names: options.allowed_names.clone(),
            names: headers(&options.username_headers)?,
            uids: headers(&options.uid_headers)?,
            groups: headers(&options.group_headers)?,
            extra: prefixes.collect::<Result<_, _>>()?,
        })
    }

    /// Whether a chain of certificates, the client's own first, is of a proxy's authority; if so, whether its name is allowed.
    pub fn shown(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Option<bool> {
        let (own, others) = chain.split_first()?;
        self.verifier.verify_client_cert(own, others, now).ok()?;
        let name = certificate::common_name(own);
        Some(self.allowed_names.is_empty() || name.is_some_and(|name| self.allowed_names.contains(&name)))
    }

    /// The user that the headers name. Ask only for requests of a proxy that is believed.
    pub fn user(&self, headers: &HeaderMap) -> Option<User> {
        let first = |names: &[HeaderName]| {
            let mut values = names.iter().filter_map(|name| headers.get(name));
            values.find_map(|value| text(value).filter(|value| !value.is_empty()))
        };
        let name = first(&self.names)?;
        let groups = self.groups.iter().flat_map(|name| headers.get_all(name)).filter_map(text);
        let mut user = User {
            name,
            uid: first(&self.uids).unwrap_or_default(),
            groups: groups.filter(|group| !group.is_empty()).collect(),
            ..User::default()
        };
        for prefix in &self.extra {
            for (name, value) in headers {
                let Some(key) = name.as_str().strip_prefix(prefix.as_str()) else { continue };
                user.extra.entry(query::decode(key)).or_default().extend(text(value));
            }
        }
        Some(user)
    }

    /// Removes every header in which a proxy names a user.
    pub fn clear(&self, headers: &mut HeaderMap) {
        for name in self.names.iter().chain(&self.uids).chain(&self.groups) {
            headers.remove(name);
        }
        self.extra.iter().for_each(|prefix| remove_prefixed(headers, prefix));
    }
}

/// Removes the headers in which proxies usually name users. No program behind this server is to take them for its word.
pub fn clear_usual(headers: &mut HeaderMap) {
    for name in ["x-remote-user", "x-remote-uid", "x-remote-group"] {
        headers.remove(name);
    }
    remove_prefixed(headers, "x-remote-extra-");
}

fn remove_prefixed(headers: &mut HeaderMap, prefix: &str) {
    let names: Vec<HeaderName> = headers.keys().filter(|name| name.as_str().starts_with(prefix)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

fn header(name: &str) -> Result<HeaderName, FrontProxyError> {
    name.trim().parse().map_err(|_| FrontProxyError::Header(name.to_owned()))
}

fn text(value: &http::HeaderValue) -> Option<String> {
    std::str::from_utf8(value.as_bytes()).ok().map(str::to_owned)
}

/// Verifies certificates of clients against these authorities.
pub(crate) fn verifier(ca_pem: &str) -> Result<Arc<dyn ClientCertVerifier>, PkiError> {
    let setup = |error: String| PkiError::Setup(error);
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        roots.add(certificate.map_err(|error| setup(error.to_string()))?)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).allow_unauthenticated();
    let verifier = builder.build().map_err(|error| setup(error.to_string()))?;
    Ok(verifier)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::Pki;
    use pintle_meta::Clock;
    use serde_json::json;

    fn options(ca_pem: &str) -> Options {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Options {
            ca_pem: ca_pem.to_owned(),
            allowed_names: list(&["aggregator"]),
            username_headers: list(&["X-Remote-User", "X-User"]),
            uid_headers: list(&["X-Remote-Uid"]),
            group_headers: list(&["X-Remote-Group", "X-Group"]),
            extra_prefixes: list(&["X-Remote-Extra-"]),
        }
    }

    #[test]
    fn a_user_is_who_the_headers_name_and_the_headers_go_no_further() {
        let pki = Pki::generate(Clock::system().now()).unwrap();
        let proxy = FrontProxy::new(&options(&pki.ca_pem)).unwrap();
        let mut headers = HeaderMap::new();
        assert_eq!(proxy.user(&headers), None);
        for (name, value) in [
            ("x-remote-user", ""),
            ("x-user", "jane"),
            ("x-remote-uid", "42"),
            ("x-remote-group", "devs"),
            ("x-remote-group", ""),
            ("x-group", "ops"),
            ("x-remote-extra-example.com%2fscope", "a"),
            ("x-remote-extra-example.com%2fscope", "b"),
            ("x-remote-other", "stays"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        let user = proxy.user(&headers).unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str(), user.groups.join(" ")), ("jane", "42", "devs ops".into()));
        assert_eq!(user.extra["example.com/scope"], ["a", "b"]);
        proxy.clear(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-remote-other"]);
    }

    #[test]
    fn only_a_certificate_of_the_proxies_authority_with_an_allowed_name_is_believed() {
        let now = Clock::system().now();
        let (pki, other) = (Pki::generate(now).unwrap(), Pki::generate(now).unwrap());
        let proxy = FrontProxy::new(&options(&pki.ca_pem)).unwrap();
        let shown = |pki: &Pki, name: &str| {
            let identity = pki.client(name, "group", now).unwrap();
            let chain = [CertificateDer::from_pem_slice(identity.certificate_pem.as_bytes()).unwrap()];
            proxy.shown(&chain, UnixTime::since_unix_epoch(std::time::Duration::from_secs(now.as_second() as u64)))
        };
        assert_eq!(shown(&pki, "aggregator"), Some(true));
        assert_eq!(shown(&pki, "somebody"), Some(false));
        assert_eq!(shown(&other, "aggregator"), None);
    }

    #[test]
    fn what_a_cluster_publishes_is_read_as_it_is_written() {
        let data = json!({"requestheader-client-ca-file": "PEM", "requestheader-allowed-names": "[\"aggregator\"]",
            "requestheader-username-headers": "[\"X-Remote-User\",\"X-User\"]",
            "requestheader-uid-headers": "[\"X-Remote-Uid\"]",
            "requestheader-group-headers": "[\"X-Remote-Group\",\"X-Group\"]",
            "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]"});
        assert_eq!(Options::of_published(&data).unwrap(), options("PEM"));
        assert!(Options::of_published(&json!({})).is_err());
        let broken = json!({"requestheader-client-ca-file": "PEM", "requestheader-allowed-names": "aggregator"});
        assert!(Options::of_published(&broken).is_err());
    }
}
