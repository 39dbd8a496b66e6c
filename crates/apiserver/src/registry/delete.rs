//! An object on its way out: marked while finalizers or a grace period hold it, removed when nothing does.

use super::draft::{Stored, Write};
use super::error::Error;
use super::{Registry, Written};
use crate::admission::{Operation, Review};
use crate::call::Call;
use crate::catalogue::Resource;
use crate::codec;
use crate::notes::Notes;
use crate::strategy::{Dependents, Grace};
use jiff::SignedDuration;
use pintle_meta::{Status, clock, field, object};
use serde_json::Value;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// How to delete.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    pub grace_period_seconds: Option<i64>,
    pub propagation: Option<Propagation>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub dry_run: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl DeleteOptions {
    /// From a DeleteOptions object.
    pub fn from_value(value: &Value) -> Result<Self, Status> {
        let invalid = |error: field::Error| Status::invalid("meta.k8s.io", "DeleteOptions", "", &[error]);
        let mut options = DeleteOptions {
            grace_period_seconds: object::integer(value, &["gracePeriodSeconds"]),
            uid: object::at(value, &["preconditions", "uid"]).and_then(Value::as_str).map(str::to_owned),
            resource_version: object::at(value, &["preconditions", "resourceVersion"])
                .and_then(Value::as_str)
                .map(str::to_owned),
            dry_run: object::list(value, &["dryRun"]).iter().any(|v| v == "All"),
            propagation: None,
        };
        let policy = object::text(value, &["propagationPolicy"]);
        options.set_propagation(policy)?;
        match value.get("orphanDependents").and_then(Value::as_bool) {
            Some(_) if options.propagation.is_some() => {
                return Err(invalid(field::Error::invalid(
                    &field::Path::new("propagationPolicy"),
                    policy,
                    "orphanDependents and deletionPropagation cannot be both set",
                )));
            }
            Some(true) => options.propagation = Some(Propagation::Orphan),
            Some(false) => options.propagation = Some(Propagation::Background),
            None => {}
        }
        Ok(options)
    }

    pub fn set_propagation(&mut self, policy: &str) -> Result<(), Status> {
        self.propagation = match policy {
            "" => self.propagation,
            "Background" => Some(Propagation::Background),
            "Foreground" => Some(Propagation::Foreground),
            "Orphan" => Some(Propagation::Orphan),
            other => {
                let path = field::Path::new("propagationPolicy");
                let error = field::Error::not_supported(&path, other, &["Foreground", "Background", "Orphan", "nil"]);
                return Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", &[error]));
            }
        };
        Ok(())
    }
}

impl Registry {
    /// Deletes the object that the call names. Answers its last state, and whether it is gone.
    pub async fn delete(&self, call: &Call, notes: &Notes, options: &DeleteOptions) -> Result<(Written, bool), Error> {
        let write = Write::new(self, call, notes)?;
        let dry_run = write.dry_run || options.dry_run;
        loop {
            let entry = self.get(&write.resource, call.namespace(), &call.path.name).await?;
            let old = Stored { value: codec::decode_whole(&entry.value)?, entry };
            check_preconditions(&write.resource, &old.value, options)?;
            if write.resource.converter().is_some() {
                let wanted = write.resource.api_version();
                let shown = self.convert_one(&write.resource, &wanted, old.value.clone()).await?;
                write.admit_deletion(&shown, options).await?;
            } else {
                write.admit_deletion(&old.value, options).await?;
            }
            let mut object = old.value.clone();
            let held = write.mark_deleted(&mut object, options);
            if dry_run {
                return Ok((Written::Shown(object), !held));
            }
            if !held {
                if write.remove(&old).await? {
                    let mut last = old.value;
                    if object::integer(&last, &["metadata", "deletionGracePeriodSeconds"]).is_some() {
                        object::set(&mut last, &["metadata", "deletionGracePeriodSeconds"], 0);
                    }
                    return Ok((Written::Shown(last), true));
                }
            } else if object == old.value {
                return Ok((Written::Stored(old.entry), false));
            } else if let Some(marked) = write.mark(&old, &object).await? {
                return Ok((Written::Stored(marked), false));
            }
        }
    }
}

impl Write<'_> {
    /// An eviction was admitted as what it is.
    async fn admit_deletion(&self, old: &Value, options: &DeleteOptions) -> Result<(), Error> {
        if !self.call.path.subresource.is_empty() {
            return Ok(());
        }
        let Write { registry, call, notes, resource, .. } = self;
        let about = Review::new(registry, call, notes, resource, Operation::Delete);
        let review = Review { old: Some(old), deletion: Some(options), ..about };
        registry.admission.delete(&review).await?;
        Ok(())
    }

    /// Marks an object as being deleted; answers whether something still holds it.
    fn mark_deleted(&self, value: &mut Value, options: &DeleteOptions) -> bool {
        let resource = &self.resource;
        set_finalizers(value, resource.strategy.dependents(), options.propagation);
        let holds_finalizer = object::finalizers(value).next().is_some() || !resource.strategy.is_deletable(value);
        let asked = options.grace_period_seconds;
        let grace = match resource.strategy.grace(value, asked) {
            Grace::None => 0,
            Grace::Seconds(seconds) => seconds.max(0),
        };
        let marked = object::is_being_deleted(value);
        let left = object::integer(value, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
        // A deletion under way can only be hurried.
        if marked && (left <= grace || asked.is_none()) && !(grace == 0 && left > 0) {
            return holds_finalizer || left > 0;
        }
        if !holds_finalizer && grace == 0 {
            return false;
        }
        let now = self.registry.clock.now();
        let ends = now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
        let generation = object::integer(value, &["metadata", "generation"]);
        let metadata = object::metadata(value);
        if !marked || grace < left {
            metadata.insert("deletionTimestamp".into(), clock::rfc3339(ends).into());
            if !resource.strategy.waits_for_contents() {
                metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
            }
        }
        let counts = !marked && !resource.strategy.waits_for_contents();
        if let Some(generation) = generation.filter(|g| *g > 0 && counts) {
            metadata.insert("generation".into(), (generation + 1).into());
        }
        resource.strategy.mark_deleted(value);
        true
    }
}

/// Orphaning and waiting for dependents are finalizers that the garbage collector takes off.
fn set_finalizers(value: &mut Value, default: Dependents, asked: Option<Propagation>) {
    let present: Vec<String> = object::finalizers(value).map(str::to_owned).collect();
    let has = |name: &str| present.iter().any(|f| f == name);
    let chosen = match asked {
        Some(chosen) => chosen,
        None if has(ORPHAN) => Propagation::Orphan,
        None if has(FOREGROUND) => Propagation::Foreground,
        None if default == Dependents::Orphan => Propagation::Orphan,
        None => Propagation::Background,
    };
    let mut finalizers: Vec<String> = present.iter().filter(|f| *f != ORPHAN && *f != FOREGROUND).cloned().collect();
    match chosen {
        Propagation::Orphan => finalizers.push(ORPHAN.to_owned()),
        Propagation::Foreground => finalizers.push(FOREGROUND.to_owned()),
        Propagation::Background => {}
    }
    if finalizers.len() == present.len() && finalizers.iter().all(|f| present.contains(f)) {
        return;
    }
    if finalizers.is_empty() {
        object::remove(value, &["metadata", "finalizers"]);
    } else {
        object::metadata(value).insert("finalizers".into(), finalizers.into());
    }
}

fn check_preconditions(resource: &Resource, old: &Value, options: &DeleteOptions) -> Result<(), Status> {
    let Resource { kind, group, .. } = resource;
    let name = object::name(old);
    if resource.strategy.waits_for_contents() {
        let (uid, was) = (options.uid.as_deref().unwrap_or_default(), object::uid(old));
        if !uid.is_empty() && uid != was {
            let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {was}");
            return Err(Status::conflict(group, &resource.name, name, &why));
        }
    }
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != object::uid(old)) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            object::uid(old)
        );
        return Err(Status::conflict(group, kind, name, &why));
    }
    if let Some(version) = options.resource_version.as_deref().filter(|v| *v != object::resource_version(old)) {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
            object::resource_version(old)
        );
        return Err(Status::conflict(group, kind, name, &why));
    }
    Ok(())
}
