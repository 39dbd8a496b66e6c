//! A program that a URL or a file in the kubeconfig format names: where it is, whom to believe there, what to show.

use super::{Destination, Place, Trust, TrustError, join};
use crate::parse;
use crate::pki::Identity;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::Uri;
use pintle_meta::object;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Clone)]
pub struct Endpoint {
    pub to: Destination,
    /// Path and query.
    pub path: String,
    pub login: Login,
}

/// What a request shows besides a client certificate.
#[derive(Clone, Default)]
pub enum Login {
    #[default]
    Nothing,
    /// The whole value of `Authorization`.
    Fixed(String),
    /// A bearer token in a file, which may change.
    File(PathBuf),
}

/// Why a URL or a file names no program.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error("{}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{}: {why}", path.display())]
    Kubeconfig { path: PathBuf, why: String },
    #[error("{url:?} is not usable: {why}")]
    Url { url: String, why: &'static str },
    #[error(transparent)]
    Trust(#[from] TrustError),
}

impl Endpoint {
    pub fn of_url(url: &str, trust: Trust) -> Result<Self, EndpointError> {
        let refused = |why| EndpointError::Url { url: url.to_owned(), why };
        let uri: Uri = url.parse().map_err(|_| refused("it cannot be parsed"))?;
        if uri.scheme_str() != Some("https") {
            return Err(refused("the scheme must be https"));
        }
        let authority = uri.authority().ok_or_else(|| refused("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(refused("it must not contain a username or password"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(refused("it has no host"));
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let place = Place::Address { host, port: authority.port_u16().unwrap_or(443) };
        Ok(Endpoint { to: Destination { place, trust }, path, login: Login::Nothing })
    }

    /// The cluster and user of the current context.
    pub fn of_kubeconfig(path: &Path) -> Result<Self, EndpointError> {
        let text = fs::read(path).map_err(|source| EndpointError::Unreadable { path: path.into(), source })?;
        let refused = |why: String| EndpointError::Kubeconfig { path: path.into(), why };
        let config = parse::yaml(&text).map_err(refused)?.value;
        let file = Kubeconfig { config: &config, directory: path.parent().unwrap_or(Path::new(".")) };
        file.endpoint().map_err(|problem| match problem {
            Problem::Says(why) => refused(why),
            Problem::Endpoint(error) => error,
        })
    }

    pub fn url(&self) -> String {
        match &self.to.place {
            Place::Address { host, port: 443 } if !host.contains(':') => format!("https://{host}{}", self.path),
            Place::Address { host, port } => format!("https://{}{}", join(host, *port), self.path),
            Place::Service { .. } => format!("https://{}{}", self.to.place.authority(), self.path),
        }
    }
}

struct Kubeconfig<'a> {
    config: &'a Value,
    /// Relative paths are below it.
    directory: &'a Path,
}

enum Problem {
    Says(String),
    Endpoint(EndpointError),
}

impl From<EndpointError> for Problem {
    fn from(error: EndpointError) -> Self {
        Problem::Endpoint(error)
    }
}

impl From<TrustError> for Problem {
    fn from(error: TrustError) -> Self {
        Problem::Endpoint(error.into())
    }
}

impl Kubeconfig<'_> {
    fn endpoint(&self) -> Result<Endpoint, Problem> {
        const CLUSTER: [&str; 4] =
            ["server", "certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify"];
        const USER: [&str; 8] = [
            "client-certificate",
            "client-certificate-data",
            "client-key",
            "client-key-data",
            "token",
            "tokenFile",
            "username",
            "password",
        ];
        let says = |why: &str| Problem::Says(why.to_owned());
        let current = object::text(self.config, &["current-context"]);
        if current.is_empty() {
            return Err(says("current-context is not set"));
        }
        let context = self.named("contexts", current, "context")?;
        let cluster = self.named("clusters", object::text(context, &["cluster"]), "cluster")?;
        let none = Value::Null;
        let user = match object::text(context, &["user"]) {
            "" => &none,
            name => self.named("users", name, "user")?,
        };
        for (of, what, known) in [(cluster, "cluster", &CLUSTER[..]), (user, "user", &USER[..])] {
            let odd = of.as_object().into_iter().flatten().find(|(key, _)| !known.contains(&key.as_str()));
            if let Some((key, _)) = odd.filter(|(key, _)| *key != "extensions" && *key != "disable-compression") {
                return Err(Problem::Says(format!("{key} of a {what} is not supported here")));
            }
        }
        let certificate = self.data(user, "client-certificate")?;
        let key = self.data(user, "client-key")?;
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|_| says("a client certificate is not PEM"));
        let identity = match (certificate, key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => {
                Some(Identity { certificate_pem: text(certificate)?, key_pem: text(key)? })
            }
            _ => return Err(says("client-certificate and client-key belong together")),
        };
        let authority = self.data(cluster, "certificate-authority")?;
        let trust = match (object::flag(cluster, &["insecure-skip-tls-verify"]), authority) {
            (true, Some(_)) => {
                return Err(says("certificate-authority and insecure-skip-tls-verify exclude each other"));
            }
            (true, None) => Trust::of_anyone(identity.as_ref())?,
            (false, authority) => Trust::of_bundle(&authority.unwrap_or_default(), identity.as_ref())?,
        };
        let login = self.login(user);
        Ok(Endpoint { login, ..Endpoint::of_url(object::text(cluster, &["server"]), trust)? })
    }

    fn login(&self, user: &Value) -> Login {
        let text = |key: &str| object::text(user, &[key]);
        match (text("tokenFile"), text("token"), text("username")) {
            ("", "", "") => Login::Nothing,
            ("", "", name) => {
                let pair = BASE64_STANDARD.encode(format!("{name}:{}", text("password")));
                Login::Fixed(format!("Basic {pair}"))
            }
            ("", token, _) => Login::Fixed(format!("Bearer {token}")),
            (file, ..) => Login::File(self.directory.join(file)),
        }
    }

    fn named(&self, list: &str, name: &str, part: &str) -> Result<&Value, Problem> {
        let found = object::list(self.config, &[list]).iter().find(|entry| object::text(entry, &["name"]) == name);
        let found = found.and_then(|entry| entry.get(part));
        found.ok_or_else(|| Problem::Says(format!("{list} has no {part} {name:?}")))
    }

    /// `KEY-data` in base64, or the content of the file that `KEY` names.
    fn data(&self, of: &Value, key: &str) -> Result<Option<Vec<u8>>, Problem> {
        let (data, file) = (object::text(of, &[&format!("{key}-data")]), object::text(of, &[key]));
        if !data.is_empty() {
            let bytes = BASE64_STANDARD.decode(data);
            return bytes.map(Some).map_err(|error| Problem::Says(format!("{key}-data is not base64: {error}")));
        }
        if file.is_empty() {
            return Ok(None);
        }
        let path = self.directory.join(file);
        let bytes = fs::read(&path).map_err(|source| EndpointError::Unreadable { path, source })?;
        Ok(Some(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_is_not_plain_https_is_refused() {
        let of = |url: &str| {
            let trust = Trust::of_anyone(None).unwrap();
            Endpoint::of_url(url, trust).map(|endpoint| (endpoint.to.place.authority(), endpoint.path))
        };
        let found = |authority: &str, path: &str| (authority.to_owned(), path.to_owned());
        assert_eq!(of("https://hook.example.com").unwrap(), found("hook.example.com:443", "/"));
        assert_eq!(of("https://[::1]:8443/a?b=c").unwrap(), found("[::1]:8443", "/a?b=c"));
        for refused in ["http://a", "https://user:pass@a/", "a", "https://", "unix:///x", ""] {
            assert!(of(refused).is_err(), "{refused}");
        }
    }
}
