//! Files in the kubeconfig format: a program and who is shown to it, or credentials for many programs.

use super::credentials::{Credential, Credentials};
use super::endpoint::Login;
use super::{Endpoint, EndpointError, Trust, TrustError};
use crate::parse;
use crate::pki::Identity;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use pintle_meta::object;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Reads a file and takes something out of it.
pub(super) fn read<T>(
    path: &Path,
    take: impl FnOnce(&Kubeconfig<'_>) -> Result<T, Problem>,
) -> Result<T, EndpointError> {
    let text = fs::read(path).map_err(|source| EndpointError::Unreadable { path: path.into(), source })?;
    let refused = |why: String| EndpointError::Kubeconfig { path: path.into(), why };
    let config = parse::yaml(&text).map_err(refused)?.value;
    let file = Kubeconfig { config: &config, directory: path.parent().unwrap_or(Path::new(".")) };
    take(&file).map_err(|problem| match problem {
        Problem::Says(why) => refused(why),
        Problem::Endpoint(error) => error,
    })
}

pub(super) struct Kubeconfig<'a> {
    config: &'a Value,
    /// Relative paths are below it.
    directory: &'a Path,
}

pub(super) enum Problem {
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
    /// The cluster and user of the current context.
    pub(super) fn endpoint(&self) -> Result<Endpoint, Problem> {
        const CLUSTER: [&str; 4] =
            ["server", "certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify"];
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
        must_be_known(cluster, "cluster", &CLUSTER)?;
        let Credential { identity, login } = self.credential(user)?;
        let authority = self.data(cluster, "certificate-authority")?;
        let trust = match (object::flag(cluster, &["insecure-skip-tls-verify"]), authority) {
            (true, Some(_)) => {
                return Err(says("certificate-authority and insecure-skip-tls-verify exclude each other"));
            }
            (true, None) => Trust::of_anyone(identity.as_ref())?,
            (false, authority) => Trust::of_bundle(&authority.unwrap_or_default(), identity.as_ref())?,
        };
        Ok(Endpoint { login, ..Endpoint::of_url(object::text(cluster, &["server"]), trust)? })
    }

    /// Every user by name, and the one of the current context.
    pub(super) fn credentials(&self) -> Result<Credentials, Problem> {
        let mut credentials = Credentials::default();
        for entry in object::list(self.config, &["users"]) {
            let credential = Arc::new(self.credential(entry.get("user").unwrap_or(&Value::Null))?);
            credentials.by_name.insert(object::text(entry, &["name"]).to_owned(), credential);
        }
        let current = object::text(self.config, &["current-context"]);
        if !current.is_empty() {
            let context = self.named("contexts", current, "context")?;
            credentials.otherwise = credentials.by_name.get(object::text(context, &["user"])).cloned();
        }
        Ok(credentials)
    }

    /// What a user shows.
    fn credential(&self, user: &Value) -> Result<Credential, Problem> {
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
        must_be_known(user, "user", &USER)?;
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
        Ok(Credential { identity, login: self.login(user) })
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

/// A part that is not known here is an error: it is never ignored.
fn must_be_known(of: &Value, what: &str, known: &[&str]) -> Result<(), Problem> {
    let odd = of.as_object().into_iter().flatten().find(|(key, _)| !known.contains(&key.as_str()));
    match odd.filter(|(key, _)| *key != "extensions" && *key != "disable-compression") {
        Some((key, _)) => Err(Problem::Says(format!("{key} of a {what} is not supported here"))),
        None => Ok(()),
    }
}
