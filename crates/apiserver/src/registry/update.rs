//! A changed object: read, changed, checked, compared and set.

use super::create::{CLAIM_TRIES, claimed};
use super::{Facets, Registry, Write, Written, commit_error, metadata};
use crate::admission::Operation as Admitted;
use crate::codec;
use pintle_meta::{Status, object};
use pintle_schema::apply::{Operation, track_update};
use pintle_store::{CommitError, Entry, Expect, Op, Txn};
use serde_json::Value;
use std::sync::Arc;

/// What an update makes of what is there.
pub struct Change {
    /// The whole new object, decoded, defaulted and in the version that is stored.
    pub object: Value,
    /// Its managed fields are already right (an apply wrote them).
    pub tracked: bool,
}

impl Change {
    pub fn new(object: Value) -> Self {
        Change { object, tracked: false }
    }
}

/// How often a change without a resourceVersion is made again on a newer object.
const TRIES: usize = 16;

impl Registry {
    /// Changes `name`. `change` sees the current object (none: the answer may create it) and may run several times.
    pub async fn update(
        &self,
        write: &Write<'_>,
        name: &str,
        warnings: &mut Vec<String>,
        mut change: impl FnMut(Option<&Value>) -> Result<Change, Status> + Send,
    ) -> Result<(Written, bool), Status> {
        let resource = write.resource;
        let key: Arc<str> = resource.key(write.namespace, name).into();
        for attempt in 1.. {
            let Some(entry) = self.store.get(&key).await.map_err(super::read_error)? else {
                let Change { mut object, tracked } = change(None)?;
                object::remove(&mut object, &["metadata", "resourceVersion"]);
                match self.create_tracked(write, object, !tracked, warnings).await {
                    Err(status) if status.reason == "AlreadyExists" && attempt < TRIES => continue,
                    result => return result.map(|written| (written, true)),
                }
            };
            let old = codec::decode_whole(&entry.value)?;
            let changed = change(Some(&old))?;
            // Who names a version insists on it.
            let insists = !object::resource_version(&changed.object).is_empty()
                && object::resource_version(&changed.object) != object::resource_version(&old);
            if insists {
                return Err(Status::modified(&resource.group, &resource.name, name));
            }
            let seen = warnings.len();
            match self.update_once(write, &key, &entry, old, changed, warnings).await? {
                Some(written) => return Ok((written, false)),
                None if attempt >= TRIES => return Err(Status::modified(&resource.group, &resource.name, name)),
                None => warnings.truncate(seen),
            }
        }
        Err(Status::modified(&resource.group, &resource.name, name))
    }

    /// One try; `None` when somebody else wrote in between.
    async fn update_once(
        &self,
        write: &Write<'_>,
        key: &Arc<str>,
        entry: &Arc<Entry>,
        old: Value,
        change: Change,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Written>, Status> {
        let resource = write.resource;
        let Change { mut object, tracked } = change;
        metadata::place(write, &mut object)?;
        let uid = object::uid(&object);
        if !uid.is_empty() && uid != object::uid(&old) {
            let why =
                format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", object::uid(&old));
            return Err(Status::conflict(&resource.group, &resource.name, object::name(&old), &why));
        }
        metadata::keep_stamps(&mut object, &old);
        let status_write = write.subresource == "status";
        if status_write {
            keep_all_but_status(&mut object, &old);
        } else if resource.has_status() && write.subresource.is_empty() {
            keep(&mut object, &old, "status");
        }
        if !tracked {
            let (version, now) = (write.api_version(), self.clock.now_rfc3339());
            let manager = write.manager(&version, &now, Operation::Update);
            track_update(resource.schema(), Some(&old), &mut object, &manager, write.reset_fields());
        }
        self.admission.admit(self, write, Admitted::Update, Some(&old), &mut object).await?;
        let asked = resource.strategy.claims(&object);
        if status_write {
            resource.strategy.prepare_status(&mut object, &old);
        } else {
            resource.strategy.prepare_update(&mut object, &old, write.subresource);
            let annotated = || object.pointer("/metadata/annotations") != old.pointer("/metadata/annotations");
            let differs = spec_differs(&object, &old) || (resource.strategy.counts_annotations() && annotated());
            // A binding is the scheduler's answer to a spec, not another spec.
            let counts = resource.strategy.counts_generations() && write.subresource != "binding";
            if counts && differs {
                let generation = object::integer(&old, &["metadata", "generation"]).unwrap_or(0) + 1;
                object::metadata(&mut object).insert("generation".into(), generation.into());
            }
        }
        resource.strategy.fill_in_times(&mut object, &old, self.clock.now());
        let mut errors = Vec::new();
        metadata::validate(resource, &object, &mut errors);
        metadata::validate_update(&object, &old, &mut errors);
        if status_write {
            resource.strategy.validate_status(&object, &old, &mut errors);
        } else {
            resource.check(&object, &mut errors);
            resource.strategy.validate_update(&object, &old, write.subresource, &mut errors);
        }
        if !errors.is_empty() {
            return Err(Status::invalid(&resource.group, &resource.kind, object::name(&old), &errors));
        }
        self.admission.validate(write, Admitted::Update, Some(&old), &object).await?;
        if !status_write {
            warnings.extend(resource.strategy.warnings(&object));
            let heard = (!spec_differs(&object, &old)).then_some(&old);
            warnings.extend(self.no_effect(write, &object, heard));
        }
        object::set(&mut object, &["metadata", "resourceVersion"], object::resource_version(&old));
        pintle_schema::decode::complete(resource.schema(), &mut object);
        codec::check_nesting(&object)?;
        if object == old || pintle_schema::apply::same_but_for_times(&old, &object) {
            return Ok(Some(Written::Stored(entry.clone())));
        }
        // The last finalizer of an object that is being deleted is gone, and so is the object.
        let finished = object::is_being_deleted(&object)
            && object::finalizers(&object).next().is_none()
            && object::integer(&object, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0) == 0
            && resource.strategy.is_deletable(&object);
        if write.dry_run {
            return Ok(Some(Written::Shown(object)));
        }
        if finished {
            // What is given back is what the old object held: the new one names what it likes.
            return Ok(self.remove(write, key, entry, &old).await?.then_some(Written::Shown(object)));
        }
        self.replace(write, key, entry, &old, object, &asked).await
    }

    async fn replace(
        &self,
        write: &Write<'_>,
        key: &Arc<str>,
        entry: &Arc<Entry>,
        old: &Value,
        mut object: Value,
        asked: &[String],
    ) -> Result<Option<Written>, Status> {
        let resource = write.resource;
        let held = resource.strategy.claims(old);
        for attempt in 1.. {
            let mut txn = Txn {
                checks: vec![(key.clone(), Expect::Revision(entry.mod_revision))],
                ops: vec![Op::Put {
                    key: key.clone(),
                    value: codec::encode(&object),
                    expires_at: entry.expires_at.and(self.expiry(resource, &object)),
                }],
                ..Txn::default()
            };
            let holds = resource.strategy.claims(&object);
            for claim in holds.iter().filter(|c| !held.contains(c)) {
                self.claim(&mut txn, claim, key);
            }
            txn.ops.extend(held.iter().filter(|c| !holds.contains(c)).map(|c| Op::Delete { key: c.as_str().into() }));
            match self.commit(write, Some(old), Some(&object), txn).await? {
                Ok(committed) => {
                    let stored = committed.entries.into_iter().next().flatten();
                    let stored = stored.ok_or_else(|| Status::internal("nothing stored"))?;
                    stored.derive(|_| Facets::of(resource, &object));
                    return Ok(Some(Written::Stored(stored)));
                }
                Err(CommitError::Conflict { key: at, .. }) if at == *key => return Ok(None),
                Err(CommitError::Conflict { key: taken, .. }) => {
                    if attempt >= CLAIM_TRIES || asked.iter().any(|claim| **claim == *taken) {
                        return Err(claimed(resource, &object, &taken));
                    }
                    resource.strategy.reassign(&mut object, &taken);
                }
                Err(error) => return Err(commit_error(error)),
            }
        }
        Ok(None)
    }
}

fn keep(object: &mut Value, old: &Value, key: &str) {
    match old.get(key) {
        Some(kept) => {
            object::as_map(object).insert(key.to_owned(), kept.clone());
        }
        None => {
            object::as_map(object).remove(key);
        }
    }
}

/// A write through `status` changes the status, and of the metadata only what loops keep there.
fn keep_all_but_status(object: &mut Value, old: &Value) {
    let status = object.get("status").cloned();
    let metadata = object.get("metadata").cloned();
    *object = old.clone();
    match status {
        Some(status) => {
            object::as_map(object).insert("status".to_owned(), status);
        }
        None => {
            object::as_map(object).remove("status");
        }
    }
    if let Some(new) = metadata {
        let kept = object::metadata(object);
        for key in ["annotations", "labels", "finalizers", "managedFields", "resourceVersion"] {
            match new.get(key) {
                Some(value) => {
                    kept.insert(key.to_owned(), value.clone());
                }
                None => {
                    kept.remove(key);
                }
            }
        }
    }
}

/// Does anything but metadata and status differ? What is stored has its silences spelled out, what comes in has not.
fn spec_differs(object: &Value, old: &Value) -> bool {
    let empty = serde_json::Map::new();
    let (new, old) = (object.as_object().unwrap_or(&empty), old.as_object().unwrap_or(&empty));
    let counts = |key: &&String| !matches!(key.as_str(), "metadata" | "status" | "kind" | "apiVersion");
    let at = |map: &serde_json::Map<String, Value>, key: &String| map.get(key).cloned().unwrap_or_default();
    new.keys().chain(old.keys()).filter(counts).any(|key| !crate::resources::check::same(&at(new, key), &at(old, key)))
}
