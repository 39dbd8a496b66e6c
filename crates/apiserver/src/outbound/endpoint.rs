//! A program that a URL or a file in the kubeconfig format names: where it is, which authority to trust, which credentials to show.

use super::{Destination, Place, Trust, TrustError, join, kubeconfig};
use http::Uri;
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

impl Login {
    /// The value of `Authorization`; or the file that cannot be read.
    pub(super) async fn value(&self) -> Result<Option<String>, (&Path, std::io::Error)> {
        match self {
            Login::Nothing => Ok(None),
            Login::Fixed(value) => Ok(Some(value.clone())),
            Login::File(path) => {
                let token = tokio::fs::read_to_string(path).await.map_err(|why| (path.as_path(), why))?;
                Ok(Some(format!("Bearer {}", token.trim())))
            }
        }
    }
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
        kubeconfig::read(path, |file| file.endpoint())
    }

    pub fn url(&self) -> String {
        match &self.to.place {
            Place::Address { host, port: 443 } if !host.contains(':') => format!("https://{host}{}", self.path),
            Place::Address { host, port } => format!("https://{}{}", join(host, *port), self.path),
            Place::Service { .. } => format!("https://{}{}", self.to.place.authority(), self.path),
        }
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
