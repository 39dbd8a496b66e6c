//! What each step of a write does to the object.

use super::draft::{Draft, Shown, Write};
use super::error::{About, Error};
use super::metadata;
use crate::admission::Review;
use crate::codec;
use crate::no_effect;
use pintle_meta::{Status, object};
use pintle_schema::apply::{Manager, Operation, track_update};
use pintle_schema::diff::Diff;
use serde_json::Value;
use std::sync::atomic::Ordering;

impl Write<'_> {
    fn is_status(&self) -> bool {
        self.call.path.subresource == "status"
    }

    /// Puts the object where its path says, and keeps from the stored one what this way of writing does not change.
    pub(super) fn place(&self, draft: &mut Draft<'_>) -> Result<(), Error> {
        metadata::place(&self.resource, self.call.namespace(), &mut draft.object)?;
        let Some(old) = draft.old_value() else {
            draft.generated = metadata::name_new(&self.registry.random, &mut draft.object);
            return Ok(());
        };
        let (sent, was) = (object::resource_version(&draft.object), object::resource_version(old));
        // Who names a version insists on it.
        if !sent.is_empty() && sent != was {
            return Err(Error::Modified(About::new(&self.resource, object::name(old))));
        }
        let (uid, own) = (object::uid(&draft.object), object::uid(old));
        if !uid.is_empty() && uid != own {
            let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {own}");
            return Err(Status::conflict(&self.resource.group, &self.resource.name, object::name(old), &why).into());
        }
        metadata::keep_stamps(&mut draft.object, old);
        if self.is_status() {
            keep_all_but_status(&mut draft.object, old);
        } else if self.resource.has_status() && self.call.path.subresource.is_empty() {
            keep(&mut draft.object, old, "status");
        }
        Ok(())
    }

    /// Admission plugins change the object. What they set is nobody's, so what the client sets is noted before.
    pub(super) async fn mutate(&self, draft: &mut Draft<'_>) -> Result<(), Error> {
        let admission = &self.registry.admission;
        let review = Review { is_generated: draft.generated, ..self.review(draft.old_value(), &draft.conditions) };
        if draft.old.is_none() || admission.may_change(&review) {
            let diff = draft.old_value().map(|old| Diff::of(old, &draft.object));
            track(self, &mut draft.tracked, draft.old.map(|old| &old.value), &mut draft.object, diff.as_ref());
        }
        match &draft.shown {
            Shown::Nothing => {}
            Shown::Object => {
                admission.mutate(&review, &mut draft.object).await?;
                // A webhook must not move it elsewhere.
                metadata::place(&self.resource, self.call.namespace(), &mut draft.object)?;
            }
            Shown::Part(part) => {
                let old = draft.old.map(|old| part.of(&old.value));
                let mut shown = part.of(&draft.object);
                admission.mutate(&review.of_part(old.as_ref()), &mut shown).await?;
                part.put(&mut draft.object, &shown)?;
            }
        }
        Ok(())
    }

    /// The last touch before the object is checked: what the server and the kind alone say.
    pub(super) fn prepare(&self, draft: &mut Draft<'_>) {
        let (registry, resource) = (self.registry, &self.resource);
        let Some(old) = draft.old_value() else {
            metadata::stamp_new(registry, resource, &mut draft.object);
            if resource.has_status() && !resource.strategy.creates_with_status() {
                object::remove(&mut draft.object, &["status"]);
            }
            draft.asked = resource.strategy.claims(&draft.object);
            resource.strategy.prepare_create(&mut draft.object);
            return;
        };
        draft.asked = resource.strategy.claims(&draft.object);
        if self.is_status() {
            resource.strategy.prepare_status(&mut draft.object, old);
        } else {
            resource.strategy.prepare_update(&mut draft.object, old, &self.call.path.subresource);
        }
        resource.strategy.fill_in_times(&mut draft.object, old, registry.clock.now());
        object::set(&mut draft.object, &["metadata", "resourceVersion"], object::resource_version(old));
        pintle_schema::decode::complete(resource.schema(), &mut draft.object);
        draft.diff = Diff::of(old, &draft.object);
        draft.diff.forget(&["metadata", "managedFields"]);
        track(self, &mut draft.tracked, Some(old), &mut draft.object, Some(&draft.diff));
        if self.counts(&draft.diff) {
            let generation = object::integer(old, &["metadata", "generation"]).unwrap_or(0) + 1;
            object::metadata(&mut draft.object).insert("generation".into(), generation.into());
        }
    }

    /// Does the write make another generation?
    fn counts(&self, diff: &Diff) -> bool {
        let strategy = &self.resource.strategy;
        // A binding is the scheduler's answer to a spec, not another spec.
        let may = !matches!(self.call.path.subresource.as_str(), "status" | "binding");
        let annotated = || strategy.counts_annotations() && diff.at(&["metadata", "annotations"]).is_some();
        // A status that has no path of its own is a part of what clients ask for.
        let own_status = || self.resource.custom && !self.resource.has_status() && diff.at(&["status"]).is_some();
        may && strategy.counts_generations() && (changes_spec(diff) || annotated() || own_status())
    }

    pub(super) fn validate(&self, draft: &Draft<'_>) -> Result<(), Error> {
        let (resource, object) = (&self.spoken, &draft.object);
        let mut errors = Vec::new();
        metadata::validate(resource, object, &mut errors);
        match draft.old_value() {
            None => resource.check(object, None, &mut errors),
            Some(old) => {
                metadata::validate_update(object, old, &mut errors);
                if self.is_status() {
                    resource.strategy.validate_status(object, old, &mut errors);
                } else {
                    resource.check(object, Some(old), &mut errors);
                    resource.strategy.validate_update(object, old, &self.call.path.subresource, &mut errors);
                }
            }
        }
        match errors.is_empty() {
            true => Ok(()),
            false => {
                let name = object::name(draft.old_value().unwrap_or(object));
                Err(Error::Invalid(About::new(resource, name), errors))
            }
        }
    }

    /// Admission plugins have the last word about the whole object, after everything has changed that changes.
    pub(super) async fn admit(&self, draft: &mut Draft<'_>) -> Result<(), Error> {
        if draft.old.is_none() {
            pintle_schema::decode::complete(self.resource.schema(), &mut draft.object);
        }
        let admission = &self.registry.admission;
        let review = self.review(draft.old_value(), &draft.conditions);
        match &draft.shown {
            Shown::Nothing => {}
            Shown::Object => admission.validate(&review, Some(&draft.object)).await?,
            Shown::Part(part) => {
                let old = draft.old.map(|old| part.of(&old.value));
                admission.validate(&review.of_part(old.as_ref()), Some(&part.of(&draft.object))).await?;
            }
        }
        Ok(())
    }

    /// What is odd about the object, but no reason to refuse it.
    pub(super) fn remark(&self, draft: &Draft<'_>) {
        if self.is_status() {
            return;
        }
        self.notes.warn_all(self.spoken.strategy.warnings(&draft.object, draft.old_value()));
    }

    /// What is stored and has no effect yet. Whoever leaves all but metadata alone has heard it already.
    pub(super) fn without_effect(&self, draft: &Draft<'_>) -> Vec<String> {
        if !self.call.path.subresource.is_empty() {
            return Vec::new();
        }
        let own_loops = self.registry.own_loops.load(Ordering::Relaxed);
        let said = |object: &Value| no_effect::warnings(&self.resource, object, &self.call.user, own_loops);
        let heard = draft.old_value().filter(|_| !changes_spec(&draft.diff)).map(said).unwrap_or_default();
        said(&draft.object).into_iter().filter(|sentence| !heard.contains(sentence)).collect()
    }

    /// The object as it is stored.
    pub(super) fn encode(&self, draft: &Draft<'_>) -> Result<(), Error> {
        codec::check_nesting(&draft.object)?;
        Ok(())
    }
}

/// Notes who set what, once a write.
fn track(write: &Write<'_>, tracked: &mut bool, old: Option<&Value>, object: &mut Value, diff: Option<&Diff>) {
    if std::mem::replace(tracked, true) {
        return;
    }
    let subresource = write.call.path.subresource.as_str();
    let (api_version, reset) = (write.spoken.api_version(), write.resource.reset_fields(subresource));
    let manager = Manager {
        name: &write.manager,
        operation: Operation::Update,
        api_version: &api_version,
        subresource,
        time: &write.registry.clock.now_rfc3339(),
    };
    track_update(write.spoken.schema(), old, object, &manager, reset, diff);
}

/// Does anything but metadata and status differ?
fn changes_spec(diff: &Diff) -> bool {
    diff.members().any(|(name, _)| !matches!(name, "metadata" | "status" | "kind" | "apiVersion"))
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
    let mut sent = std::mem::replace(object, old.clone());
    let put = |into: &mut serde_json::Map<String, Value>, key: &str, value: Option<Value>| match value {
        Some(value) => {
            into.insert(key.to_owned(), value);
        }
        None => {
            into.remove(key);
        }
    };
    let sent_map = object::as_map(&mut sent);
    put(object::as_map(object), "status", sent_map.remove("status"));
    let Some(Value::Object(mut metadata)) = sent_map.remove("metadata") else { return };
    for key in ["annotations", "labels", "finalizers", "managedFields", "resourceVersion"] {
        put(object::metadata(object), key, metadata.remove(key));
    }
}
