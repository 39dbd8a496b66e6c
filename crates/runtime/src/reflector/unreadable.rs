//! An object that cannot be decoded: who it is, and why.
//!
//! One such object must not keep everybody from all others of its kind: it is reported with its name and skipped until it is
//! written anew.

use serde::Deserialize;

use crate::key::Key;

/// Told in the place of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    pub key: Key,
    /// Its resourceVersion.
    pub version: String,
    pub error: String,
}

#[derive(Deserialize)]
struct Object {
    metadata: Identity,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    name: String,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    resource_version: Option<String>,
}

impl Unreadable {
    /// Nothing if it is not even an object with a name.
    pub(super) fn of(text: &str, error: &kube::Error) -> Option<Unreadable> {
        let Object { metadata } = serde_json::from_str(text).ok()?;
        let key = Key::new(metadata.namespace.unwrap_or_default(), metadata.name);
        Some(Unreadable { key, version: metadata.resource_version.unwrap_or_default(), error: error.to_string() })
    }
}
