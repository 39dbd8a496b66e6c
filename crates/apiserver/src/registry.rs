//! Any kind, through one path: what happens between a decoded request and the store's commit. `pipeline` has the order.

mod commit;
mod delete;
mod draft;
mod error;
mod metadata;
mod pipeline;
#[cfg(test)]
mod races;
mod steps;

pub use delete::{DeleteOptions, Propagation};
pub use draft::{Change, Part, Shown};
pub use error::Error;
pub use metadata::validate_labels;

use crate::admission::Admission;
use crate::catalogue::{Catalogue, Resource};
use crate::causes::Causes;
use crate::codec;
use crate::follow::Follower;
use crate::outbound::Outbound;
use bytes::Bytes;
use pintle_meta::labels::{FieldSelector, Selector};
use pintle_meta::{Clock, Random, Status, object};
use pintle_store::{Entry, ReadError, Store};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub struct Registry {
    pub store: Arc<dyn Store>,
    pub clock: Clock,
    pub random: Random,
    pub catalogue: Follower<Catalogue>,
    pub admission: Admission,
    /// Why each recent write happened.
    pub causes: Causes,
    /// The way to webhooks and other API servers.
    pub outbound: Outbound,
    /// The loops of this program run. Where others do, this server does not know what is acted on.
    pub own_loops: AtomicBool,
}

/// What a write left behind.
pub enum Written {
    Stored(Arc<Entry>),
    /// A dry run's result, or the last state of what is gone.
    Shown(Value),
}

impl Written {
    pub fn into_bytes(self) -> Bytes {
        match self {
            Written::Stored(entry) => entry.value.clone(),
            Written::Shown(value) => shown(&value),
        }
    }

    pub fn to_value(&self) -> Value {
        match self {
            Written::Stored(entry) => codec::decode(&entry.value),
            Written::Shown(value) => value.clone(),
        }
    }
}

/// What stands before the hole.
const RESOURCE_VERSION: &str = "\"resourceVersion\":\"";

/// A value in the same order of members as a stored object.
pub fn shown(value: &Value) -> Bytes {
    let splice = codec::encode(value);
    let revision = object::resource_version(value);
    let (bytes, hole) = splice.parts();
    let mut bytes = bytes.to_vec();
    match hole {
        // An object that was never stored has no revision to show.
        Some(hole) if revision.is_empty() => {
            bytes.drain(hole - RESOURCE_VERSION.len()..(hole + 2).min(bytes.len()));
        }
        Some(hole) => {
            bytes.splice(hole..hole, revision.bytes());
        }
        None => {}
    }
    bytes.into()
}

/// What selectors look at, taken out of an object's bytes once and kept beside them.
pub struct Facets {
    labels: Box<[(Box<str>, Box<str>)]>,
    fields: Box<[(Cow<'static, str>, Box<str>)]>,
}

impl Facets {
    fn of(resource: &Resource, value: &Value) -> Self {
        let labels = object::at(value, &["metadata", "labels"]).and_then(Value::as_object);
        let strategy = &resource.strategy;
        Facets {
            labels: labels
                .into_iter()
                .flatten()
                .map(|(k, v)| (k.as_str().into(), v.as_str().unwrap_or_default().into()))
                .collect(),
            fields: strategy
                .selectable_fields()
                .iter()
                .map(|field| Cow::Borrowed(*field))
                .chain(strategy.declared_fields().iter().cloned().map(Cow::Owned))
                .map(|field| (field.clone(), strategy.selectable_field(value, &field).into()))
                .collect(),
        }
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(k, _)| **k == *key).map(|(_, v)| &**v)
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(k, _)| *k == name).map(|(_, v)| &**v)
    }
}

/// The facets of an entry, computed at most once for each version of an object.
pub fn facets<'a>(resource: &Resource, entry: &'a Entry) -> &'a Facets {
    entry.derive(|entry| Facets::of(resource, &codec::decode(&entry.value)))
}

/// Does the entry match both selectors?
pub fn selected(resource: &Resource, entry: &Entry, labels: &Selector, fields: &FieldSelector) -> bool {
    if labels.is_everything() && fields.is_everything() {
        return true;
    }
    if fields.is_everything() {
        let facets = facets(resource, entry);
        return labels.matches(|key| facets.label(key));
    }
    let (namespace, name) = names_of(resource, &entry.key);
    let known = |field: &str| match field {
        "metadata.name" => Some(name),
        "metadata.namespace" => Some(namespace),
        _ => None,
    };
    // Names stand in the key: asking for them reads no bytes.
    if !fields.terms.iter().all(|t| known(&t.field).is_none_or(|v| (v == t.value) == t.equal)) {
        return false;
    }
    if labels.is_everything() && fields.terms.iter().all(|t| known(&t.field).is_some()) {
        return true;
    }
    let facets = facets(resource, entry);
    if !labels.matches(|key| facets.label(key)) {
        return false;
    }
    let found = |field: &str| known(field).or_else(|| facets.field(field));
    if fields.terms.iter().all(|term| found(&term.field).is_some()) {
        return fields.matches(found);
    }
    // Its definition declared the field later, or for another version.
    let value = codec::decode(&entry.value);
    let field_of = |field: &str| found(field).map(str::to_owned);
    fields.terms.iter().all(|term| {
        let value = field_of(&term.field).unwrap_or_else(|| resource.strategy.selectable_field(&value, &term.field));
        (value == term.value) == term.equal
    })
}

/// Namespace and name, as the key has them.
pub fn names_of<'a>(resource: &Resource, key: &'a str) -> (&'a str, &'a str) {
    let rest = key.strip_prefix(resource.prefix.as_str()).unwrap_or(key);
    if resource.namespaced { rest.split_once('/').unwrap_or(("", rest)) } else { ("", rest) }
}

impl Registry {
    /// The resource in whose version objects of `resource` are stored.
    pub fn stored_resource(&self, resource: &Arc<Resource>) -> Arc<Resource> {
        // A version of its own until it is stored, where a webhook converts.
        if resource.is_stored_version() || resource.converter().is_some() {
            return resource.clone();
        }
        let (group, version) = pintle_meta::names::split_api_version(&resource.stored_api_version);
        self.catalogue.latest().get(group, version, &resource.name).unwrap_or(resource).clone()
    }

    pub async fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Result<Arc<Entry>, Status> {
        let found = self.store.get(&resource.key(namespace, name)).await.map_err(read_error)?;
        found.ok_or_else(|| Status::not_found(&resource.group, &resource.name, name))
    }

    /// The bytes of an entry in the version that was asked for: as they are, unless versions differ.
    pub fn bytes_in(&self, resource: &Resource, entry: &Entry) -> Bytes {
        if resource.reads(entry) {
            return entry.value.clone();
        }
        shown(&self.value_in(resource, codec::decode(&entry.value)))
    }

    /// A stored value in the version that was asked for. Where a webhook converts, it has done so before ([`Self::entries_in`]).
    pub fn value_in(&self, resource: &Resource, mut value: Value) -> Value {
        if resource.api_version() != resource.stored_api_version {
            resource.strategy.read_stored(&mut value);
        }
        value["apiVersion"] = resource.api_version().into();
        if resource.custom {
            // An object that would become too large is shown without the rest of its defaults.
            let _ = pintle_schema::default::default(resource.schema(), &mut value);
        }
        value
    }

    /// An incoming value in the version that is stored.
    pub fn to_stored(&self, resource: &Resource, value: &mut Value) {
        // A webhook converts when the object is written.
        if resource.api_version() != resource.stored_api_version && resource.converter().is_none() {
            resource.strategy.to_stored(value);
            value["apiVersion"] = resource.stored_api_version.clone().into();
        }
    }

    /// What the server alone adds to a new object that needs no checks.
    pub(crate) fn dress_new(&self, resource: &Resource, object: &mut Value) {
        metadata::stamp_new(self, resource, object);
        resource.strategy.prepare_create(object);
        pintle_schema::decode::complete(resource.schema(), object);
    }

    /// When an object written now expires, in the store's form.
    fn expiry(&self, resource: &Resource, value: &Value) -> Option<i64> {
        resource.strategy.time_to_live(value).map(|seconds| self.clock.now_millis() + seconds * 1000)
    }
}

pub fn read_error(error: ReadError) -> Status {
    match error {
        ReadError::Compacted { .. } => Status::gone(
            "The provided continue parameter is too old to display a consistent list result. Start a new list without the continue parameter.",
        ),
        ReadError::Future { current } => too_large(0, current),
        other => Status::unavailable(other.to_string()),
    }
}

/// Waits for a revision that a client has seen, perhaps through another server.
pub async fn reach(store: &dyn Store, revision: u64) -> Result<(), Status> {
    store.reach(revision).await.map_err(|error| match error {
        ReadError::Future { current } => too_large(revision, current),
        other => read_error(other),
    })
}

/// A revision that has not happened yet.
pub fn too_large(asked: u64, current: u64) -> Status {
    let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
    let mut status = Status::new(504, "Timeout", message).with_details(
        serde_json::json!({"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}),
    );
    status.retry_after = Some(1);
    status
}
