//! The status on the way out: changed while the reconcile runs, written once at its end, whatever the outcome.
//!
//! ```no_run
//! # use kube::core::object::HasStatus; use kube::api::Api; use pintle_runtime::{Action, Error, status::Status};
//! # async fn work<K>(_: &mut K) -> Result<Action, Error> { Ok(Action::done()) }
//! # async fn example<K>(api: Api<K>, object: std::sync::Arc<K>) -> Result<Action, Error>
//! # where K: kube::Resource<DynamicType = ()> + HasStatus + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
//! #       K::Status: Clone + Default + PartialEq + serde::Serialize {
//! let mut status = Status::of(object.as_ref());
//! let outcome = work(&mut *status).await;
//! status.leave(&api, outcome).await
//! # }
//! ```
//!
//! Nothing is written if nothing changed. The version that was read guards the write: a status that somebody else wrote
//! in between is a conflict, and the next attempt looks again.

use std::fmt::Debug;
use std::ops::{Deref, DerefMut};

use kube::Resource;
use kube::api::{Api, Patch, PatchParams};
use kube::core::object::HasStatus;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::error::{Error, ignore_not_found};

/// An object's status, being worked on.
#[derive(Debug)]
pub struct Status<'a, K: HasStatus> {
    object: &'a K,
    status: K::Status,
}

impl<K: HasStatus> Deref for Status<'_, K> {
    type Target = K::Status;

    fn deref(&self) -> &K::Status {
        &self.status
    }
}

impl<K: HasStatus> DerefMut for Status<'_, K> {
    fn deref_mut(&mut self) -> &mut K::Status {
        &mut self.status
    }
}

impl<'a, K> Status<'a, K>
where
    K: Resource + HasStatus + Clone + Debug + DeserializeOwned,
    K::Status: Clone + Default + PartialEq + Serialize,
{
    pub fn of(object: &'a K) -> Self {
        Status { object, status: object.status().cloned().unwrap_or_default() }
    }

    pub fn has_changed(&self) -> bool {
        self.object.status() != Some(&self.status)
    }

    /// Writes what has changed. An object that is gone needs no status.
    pub async fn write(&self, api: &Api<K>) -> Result<(), Error> {
        if !self.has_changed() {
            return Ok(());
        }
        let value = |status: &K::Status| serde_json::to_value(status);
        let unreadable = |error| Error::Invalid(format!("the status cannot be written as JSON: {error}"));
        let old = self.object.status().map_or(Ok(Value::Null), value).map_err(unreadable)?;
        let new = value(&self.status).map_err(unreadable)?;
        let meta = self.object.meta();
        let patch = json!({
            "metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid},
            "status": merge_patch(&old, new),
        });
        let name = meta.name.as_deref().unwrap_or_default();
        ignore_not_found(api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await)?;
        Ok(())
    }

    /// Writes the status and passes the outcome on; of two errors the outcome's is the one to know.
    pub async fn leave<T>(self, api: &Api<K>, outcome: Result<T, Error>) -> Result<T, Error> {
        let written = self.write(api).await;
        match outcome {
            Ok(value) => written.map(|()| value),
            Err(error) => {
                if let Err(unwritten) = written {
                    tracing::warn!(error = %unwritten, "the status was not written");
                }
                Err(error)
            }
        }
    }
}

/// What must be merged into `old` to make it `new`: fields that are gone are told by a null.
pub(crate) fn merge_patch(old: &Value, new: Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new.clone()) else { return new };
    let mut patch: Map<String, Value> = Map::new();
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in new {
        match old.get(&name) {
            Some(same) if *same == value => {}
            Some(before) => {
                patch.insert(name, merge_patch(before, value));
            }
            None => {
                patch.insert(name, value);
            }
        }
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_is_gone_from_the_status_is_gone_from_the_server() {
        let old = json!({"phase": "RUNNING", "pod": {"name": "x", "node": "n1"}, "tries": 1});
        let new = json!({"phase": "DONE", "pod": {"name": "x"}});
        assert_eq!(merge_patch(&old, new), json!({"phase": "DONE", "pod": {"node": null}, "tries": null}));
        assert_eq!(merge_patch(&Value::Null, json!({"phase": "PENDING"})), json!({"phase": "PENDING"}));
    }
}
