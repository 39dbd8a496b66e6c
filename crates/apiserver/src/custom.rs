//! Custom resources: definitions become served resources, through the same registry as everything else.
//!
//! The catalogue follows the stored definitions before each request, so a resource is there as soon as its definition
//! is. Of a definition only its names are read then; its schemas are compiled when somebody first uses them. A loop of the
//! server's own writes what became of a definition into its status and, when one is deleted, removes its objects first.

mod conditions;
mod conversion;
mod kind;
mod lifecycle;
pub(crate) mod names;
mod scale;

pub use lifecycle::{CLEANUP, run};

pub(crate) use conversion::Converter;

use crate::catalogue::{Custom, Resource, Subresource};
use bytes::Bytes;
use kind::CustomKind;
use names::Names;
use pintle_meta::{field, object};
use pintle_schema::Schema;
use pintle_store::Entry;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::sync::{Arc, OnceLock};

/// What is read of a definition when it changes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Definition {
    metadata: Metadata,
    spec: Spec,
    #[serde(default)]
    status: DefinitionStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DefinitionStatus {
    accepted_names: Names,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    uid: String,
    #[serde(default)]
    generation: i64,
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    conversion: Option<Conversion>,
    group: String,
    scope: String,
    names: Names,
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Conversion {
    strategy: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    name: String,
    #[serde(default)]
    served: bool,
    #[serde(default)]
    storage: bool,
    #[serde(default)]
    subresources: Subresources,
    #[serde(default)]
    deprecated: bool,
    deprecation_warning: Option<String>,
}

#[derive(Default, Deserialize)]
struct Subresources {
    status: Option<IgnoredAny>,
    scale: Option<IgnoredAny>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    uid: String,
    generation: i64,
    terminating: bool,
    /// Its names were accepted: they are its own from now on.
    pub(crate) accepted: bool,
}

impl Identity {
    /// Do both say the same about objects?
    pub(crate) fn has_content_of(&self, other: &Identity) -> bool {
        (&self.uid, self.generation) == (&other.uid, other.generation)
    }
}

/// A definition as it is stored, and the version of it that a resource serves.
pub(crate) struct Source {
    stored: Bytes,
    version: String,
    parts: OnceLock<(Value, Schema)>,
    /// A webhook converts between versions.
    converts: bool,
    converter: OnceLock<Option<Converter>>,
}

impl Source {
    /// The version's own part of the definition, and its schema.
    fn parts(&self) -> &(Value, Schema) {
        self.parts.get_or_init(|| {
            let mut definition = crate::codec::decode(&self.stored);
            let preserves = object::flag(&definition, &["spec", "preserveUnknownFields"]);
            let versions = object::at_mut(&mut definition, &["spec", "versions"]).and_then(Value::as_array_mut);
            let own = versions.and_then(|all| all.iter_mut().find(|v| object::text(v, &["name"]) == self.version));
            let mut version = own.map(Value::take).unwrap_or_default();
            let schema =
                object::at_mut(&mut version, &["schema", "openAPIV3Schema"]).map(Value::take).unwrap_or_default();
            // Checked when the definition was written.
            let schema =
                Schema::from_crd(&schema, preserves, &field::Path::root()).unwrap_or_else(|_| Schema::untyped());
            (version, schema)
        })
    }

    /// The schema as it was written, for OpenAPI: read when asked for, because it is large and seldom asked for.
    fn open_api(&self) -> Value {
        let definition = crate::codec::decode(&self.stored);
        let versions = object::list(&definition, &["spec", "versions"]).iter();
        let mut own = versions.filter(|v| object::text(v, &["name"]) == self.version);
        own.next().and_then(|version| object::at(version, &["schema", "openAPIV3Schema"]).cloned()).unwrap_or_default()
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.parts().1
    }

    /// Who converts between versions, if anybody does.
    pub(crate) fn converter(&self) -> Option<&Converter> {
        let made = || Converter::read(&crate::codec::decode(&self.stored));
        if self.converts { self.converter.get_or_init(made).as_ref() } else { None }
    }
}

impl Definition {
    pub(crate) fn read(entry: &Entry) -> Option<Self> {
        serde_json::from_slice(&entry.value).ok()
    }

    /// Which definition this is: the same as long as nothing but its status and metadata changes.
    pub(crate) fn identity(&self) -> Identity {
        Identity {
            uid: self.metadata.uid.clone(),
            generation: self.metadata.generation,
            terminating: self.metadata.deletion_timestamp.is_some(),
            accepted: self.status.accepted_names == self.spec.names,
        }
    }

    pub(crate) fn group(&self) -> &str {
        &self.spec.group
    }

    pub(crate) fn names(&self) -> &Names {
        &self.spec.names
    }

    /// The names of all its versions, served or not.
    pub(crate) fn versions(&self) -> impl Iterator<Item = &str> {
        self.spec.versions.iter().map(|version| version.name.as_str())
    }

    /// The resources that a definition serves, one a version. What they say is so since the revision `defined_at`.
    pub(crate) fn served(&self, entry: &Entry, defined_at: u64) -> Vec<Arc<Resource>> {
        let storage = self.spec.versions.iter().find(|version| version.storage).map_or("", |version| &version.name);
        let served = self.spec.versions.iter().filter(|version| version.served);
        served.map(|version| Arc::new(self.resource(version, storage, entry, defined_at))).collect()
    }

    /// The resource in the version that is stored, served or not.
    pub(crate) fn stored(&self, entry: &Entry) -> Option<Arc<Resource>> {
        let storage = self.spec.versions.iter().find(|version| version.storage)?;
        Some(Arc::new(self.resource(storage, &storage.name, entry, entry.mod_revision)))
    }

    fn resource(&self, version: &Version, storage: &str, entry: &Entry, defined_at: u64) -> Resource {
        let kind = &self.spec.names.kind;
        let mut subresources = Vec::new();
        if version.subresources.status.is_some() {
            subresources.push(subresource("status", kind, None));
        }
        if version.subresources.scale.is_some() {
            subresources.push(subresource("scale", "Scale", Some(("autoscaling".into(), "v1".into()))));
        }
        let source = Arc::new(Source {
            stored: entry.value.clone(),
            version: version.name.clone(),
            parts: OnceLock::new(),
            converts: self.spec.conversion.as_ref().is_some_and(|conversion| conversion.strategy == "Webhook"),
            converter: OnceLock::new(),
        });
        Resource::custom(Custom {
            group: &self.spec.group,
            version: &version.name,
            storage_version: storage,
            names: self.spec.names.clone(),
            namespaced: self.spec.scope == "Namespaced",
            subresources,
            deprecation: version.deprecated.then(|| {
                let plain = || format!("{}/{} {kind} is deprecated", self.spec.group, version.name);
                version.deprecation_warning.clone().unwrap_or_else(plain)
            }),
            terminating: self.metadata.deletion_timestamp.is_some(),
            strategy: Arc::new(CustomKind::new(source.clone())),
            source,
            defined_at,
        })
    }
}

fn subresource(name: &str, kind: &str, group_version: Option<(String, String)>) -> Subresource {
    let verbs = ["get", "patch", "update"].map(str::to_owned).to_vec();
    Subresource { name: name.into(), kind: kind.into(), group_version, verbs }
}
