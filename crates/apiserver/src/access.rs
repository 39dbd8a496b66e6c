//! Who comes in, and what they may do: what a server is told about it before it starts, and how its files are read.

use crate::authn::config::Authentication;
use crate::authz::config::Authorization;
use crate::parse;
use pintle_meta::{field, object};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;
use std::path::{Path, PathBuf};

#[derive(Default)]
pub struct Access {
    pub authentication: Authentication,
    pub authorization: Authorization,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{}: {why}", path.display())]
    Malformed { path: PathBuf, why: String },
    #[error("{}: {}", path.display(), Listed(problems))]
    Invalid { path: PathBuf, problems: field::Errors },
}

struct Listed<'a>(&'a [field::Error]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        match shown.as_slice() {
            [one] => f.write_str(one),
            many => write!(f, "[{}]", many.join(", ")),
        }
    }
}

/// The group of all configuration files of an API server.
const GROUP: &str = "apiserver.config.k8s.io";

/// Reads a configuration of this kind, in any of the versions. What it does not know is an error: it is never ignored.
pub(crate) fn read<T: DeserializeOwned>(path: &Path, kind: &str, versions: &[&str]) -> Result<T, ConfigError> {
    let text = std::fs::read(path).map_err(|source| ConfigError::Unreadable { path: path.into(), source })?;
    decode(&text, kind, versions).map_err(|why| ConfigError::Malformed { path: path.into(), why })
}

pub(crate) fn decode<T: DeserializeOwned>(text: &[u8], kind: &str, versions: &[&str]) -> Result<T, String> {
    let parsed = parse::yaml(text)?;
    if let Some(first) = parsed.duplicates.messages().into_iter().next() {
        return Err(first);
    }
    let mut value = parsed.value;
    let (version, found) = (object::text(&value, &["apiVersion"]), object::text(&value, &["kind"]));
    let is_known =
        version.split_once('/').is_some_and(|(group, version)| group == GROUP && versions.contains(&version));
    if !is_known || found != kind {
        let expected: Vec<String> = versions.iter().map(|version| format!("{GROUP}/{version}")).collect();
        return Err(format!(
            "expected kind {kind} and apiVersion {}, found kind {found:?} and apiVersion {version:?}",
            expected.join(" or ")
        ));
    }
    let map = object::as_map(&mut value);
    map.remove("apiVersion");
    map.remove("kind");
    // What is null counts as absent.
    map.retain(|_, value| !value.is_null());
    serde_json::from_value::<T>(Value::Object(std::mem::take(map))).map_err(|error| error.to_string())
}
