//! The status that a plan calls for: what of it differs from the status that is there, written once at the end.

use kube::Resource;
use serde::Serialize;
use serde_json::{Value, json};

use super::Plan;
use super::write::{collection_of, guarded, name_of};
use crate::status::merge_patch;

/// A status to write, as a merge patch at the version that was read.
///
/// Numbers, texts and lists that are zero or empty count as absent: Kubernetes leaves most of them out, and
/// a loop that went on writing what the server leaves out would never rest.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusUpdate {
    pub(crate) collection: String,
    pub(crate) name: String,
    /// None if the status is what it should be.
    pub(crate) patch: Option<Value>,
    pub(crate) if_failed: IfFailed,
    base: Value,
    wanted: Value,
    guards: (Option<String>, Option<String>),
}

/// What becomes of the status when a write failed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum IfFailed {
    /// It is not written: it would tell what did not happen.
    Skip,
    /// It is written all the same: it only tells what was there.
    Write,
    /// This is written instead, with what the server said in the place of `{error}`.
    Instead(Option<Value>),
}

impl StatusUpdate {
    /// Makes the status of the object, which is `before`, this one.
    pub fn of<K: Resource<DynamicType = ()>, S: Serialize>(object: &K, before: Option<&S>, status: &S) -> Self {
        let value = |status: &S| serde_json::to_value(status).unwrap_or_default();
        let base = before.map(value).unwrap_or_default();
        let meta = object.meta();
        let guards = (meta.uid.clone(), meta.resource_version.clone());
        let (collection, name) = (collection_of(object), name_of(meta));
        let (wanted, if_failed) = (value(status), IfFailed::Skip);
        let mut update = StatusUpdate { collection, name, patch: None, if_failed, base, wanted, guards };
        update.patch = update.patch_to(update.wanted.clone());
        update
    }

    /// It is written also if a write fails.
    pub fn even_if_failed(mut self) -> Self {
        self.if_failed = IfFailed::Write;
        self
    }

    /// What is written instead if a write fails; `{error}` in it becomes what the server said.
    pub fn if_failed<S: Serialize>(mut self, status: &S) -> Self {
        self.if_failed = IfFailed::Instead(self.patch_to(serde_json::to_value(status).unwrap_or_default()));
        self
    }

    /// Annotations that the status subresource takes along.
    pub fn annotating(mut self, annotations: Value) -> Self {
        let (uid, version) = (self.guards.0.as_deref(), self.guards.1.as_deref());
        let mut patch = self.patch.take().unwrap_or_else(|| guarded(json!({}), uid, version));
        patch["metadata"]["annotations"] = annotations;
        self.patch = Some(patch);
        self
    }

    /// The whole status as it will be, for readers of a plan.
    pub fn wanted(&self) -> &Value {
        &self.wanted
    }

    /// The annotations that change.
    pub fn annotations(&self) -> Option<&Value> {
        self.patch.as_ref()?.get("metadata")?.get("annotations")
    }

    /// What would be written, for readers of a plan; none if the status is what it should be.
    pub fn changes(&self) -> Option<&Value> {
        self.patch.as_ref()?.get("status")
    }

    /// What would be written if a write failed.
    pub fn changes_if_failed(&self) -> Option<&Value> {
        match &self.if_failed {
            IfFailed::Skip => None,
            IfFailed::Write => self.changes(),
            IfFailed::Instead(patch) => patch.as_ref().map(|patch| &patch["status"]),
        }
    }

    fn patch_to(&self, new: Value) -> Option<Value> {
        (without_zeros(&self.base) != without_zeros(&new)).then(|| {
            let patch = json!({"status": merge_patch(&self.base, new)});
            guarded(patch, self.guards.0.as_deref(), self.guards.1.as_deref())
        })
    }
}

impl Plan {
    /// Makes the status of the object, which is `before`, this one, unless it is.
    pub fn set_status<K: Resource<DynamicType = ()>, S: Serialize>(
        &mut self,
        object: &K,
        before: Option<&S>,
        status: &S,
    ) {
        self.status = Some(StatusUpdate::of(object, before, status));
    }
}

/// The value without members that are zero, empty or null.
fn without_zeros(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), without_zeros(value)));
            Value::Object(members.filter(|(_, value)| !is_zero(value)).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_zeros).collect()),
        other => other.clone(),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}
