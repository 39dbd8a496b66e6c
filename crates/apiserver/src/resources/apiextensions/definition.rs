//! A CustomResourceDefinition: what is filled in, what becomes of its status, and how it goes.

use super::approval::Approval;
use super::{names, spec};
use crate::custom::CLEANUP;
use crate::strategy::Strategy;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use pintle_schema::structural;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub struct Definition;

impl Strategy for Definition {
    fn default(&self, definition: &mut Value) {
        let spec = object::map_at(definition, "spec");
        object::fill(spec, "conversion", json!({"strategy": "None"}));
        let names = object::as_map(spec.entry("names").or_insert_with(|| json!({})));
        if let Some(kind) = names.get("kind").and_then(Value::as_str).map(str::to_owned) {
            object::fill(names, "singular", kind.to_lowercase());
            object::fill(names, "listKind", format!("{kind}List"));
        }
    }

    fn prepare_create(&self, definition: &mut Value) {
        let stored: Vec<Value> = storage_version(definition).into_iter().collect();
        object::set(
            definition,
            &["status"],
            json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": stored}),
        );
    }

    fn prepare_update(&self, definition: &mut Value, _old: &Value, _subresource: &str) {
        let mut versions: Vec<Value> = object::list(definition, &["status", "storedVersions"]).to_vec();
        versions.extend(storage_version(definition).filter(|version| !versions.contains(version)));
        object::set(definition, &["status", "storedVersions"], versions);
    }

    /// It goes when its objects are gone: the loop that has removed them takes the finalizer off.
    fn is_deletable(&self, definition: &Value) -> bool {
        object::is_being_deleted(definition) && !object::finalizers(definition).any(|f| f == CLEANUP)
    }

    fn mark_deleted(&self, definition: &mut Value) {
        let when = object::text(definition, &["metadata", "deletionTimestamp"]).to_owned();
        if !object::finalizers(definition).any(|f| f == CLEANUP) {
            let mut finalizers = object::list(definition, &["metadata", "finalizers"]).to_vec();
            finalizers.push(CLEANUP.into());
            object::set(definition, &["metadata", "finalizers"], finalizers);
        }
        let mut conditions = object::list(definition, &["status", "conditions"]).to_vec();
        conditions.retain(|c| c["type"] != "Terminating");
        conditions.push(json!({"type": "Terminating", "status": "True", "lastTransitionTime": when,
            "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"}));
        object::set(definition, &["status", "conditions"], conditions);
    }

    fn waits_for_contents(&self) -> bool {
        true
    }

    fn counts_generations(&self) -> bool {
        true
    }

    fn updates_unconditionally(&self) -> bool {
        false
    }

    fn validate(&self, definition: &Value, old: Option<&Value>, errors: &mut Errors) {
        if old.is_none() {
            let text = |path: &[&str]| object::text(definition, path);
            let expected = format!("{}.{}", text(&["spec", "names", "plural"]), text(&["spec", "group"]));
            if object::name(definition) != expected {
                let detail = "must be spec.names.plural+\".\"+spec.group";
                errors.push(Error::invalid(&Path::new("metadata").child("name"), object::name(definition), detail));
            }
        }
        spec::check(definition, old, errors);
        self.check_status(definition, errors);
        stored_versions(definition, errors);
        let approval = Approval::of(definition);
        // What was missing may go on missing: an update of the rest need not add it.
        if old.is_none_or(|old| Approval::of(old) != approval) {
            errors.extend(approval.and_then(|approval| approval.error(definition)));
        }
        let preserves = |definition: &Value| object::flag(definition, &["spec", "preserveUnknownFields"]);
        if preserves(definition) && !old.is_some_and(preserves) {
            let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
            errors.push(Error::invalid(&Path::new("spec").child("preserveUnknownFields"), true, detail));
        }
    }

    fn validate_status(&self, definition: &Value, _old: &Value, errors: &mut Errors) {
        self.check_status(definition, errors);
    }

    fn warnings(&self, definition: &Value, old: Option<&Value>) -> Vec<String> {
        let formats = |definition: &Value| -> Vec<String> {
            let versions = object::list(definition, &["spec", "versions"]).iter();
            let mut schemas: Vec<&Value> =
                versions.filter_map(|version| object::at(version, &["schema", "openAPIV3Schema"])).collect();
            // A schema that all versions share is told once.
            schemas.dedup();
            schemas.iter().flat_map(|schema| structural::unrecognized_formats(schema)).map(str::to_owned).collect()
        };
        let known: BTreeSet<String> = old.map(formats).unwrap_or_default().into_iter().collect();
        let new = formats(definition).into_iter().filter(|format| !known.contains(format.as_str()));
        new.map(|format| format!("unrecognized format {format:?}")).collect()
    }
}

impl Definition {
    fn check_status(&self, definition: &Value, errors: &mut Errors) {
        if let Some(accepted) = object::at(definition, &["status", "acceptedNames"]) {
            names::check(accepted, &Path::new("status").child("acceptedNames"), errors);
        }
    }
}

/// The name of the version that is stored.
fn storage_version(definition: &Value) -> Option<Value> {
    let versions = object::list(definition, &["spec", "versions"]).iter();
    versions.filter(|v| object::flag(v, &["storage"])).map(|v| v["name"].clone()).next()
}

/// As long as objects may be stored in a version, the definition keeps it.
fn stored_versions(definition: &Value, errors: &mut Errors) {
    let path = Path::new("status").child("storedVersions");
    let stored = object::list(definition, &["status", "storedVersions"]);
    if stored.is_empty() {
        errors.push(Error::invalid(&path, Value::Null, "must have at least one stored version"));
        return;
    }
    let versions = object::list(definition, &["spec", "versions"]);
    let kept: BTreeSet<&str> = stored.iter().filter_map(Value::as_str).collect();
    let names: BTreeSet<&str> = versions.iter().map(|version| object::text(version, &["name"])).collect();
    for version in versions.iter().filter(|version| object::flag(version, &["storage"])) {
        let name = object::text(version, &["name"]);
        if !kept.contains(name) {
            let detail = format!("must have the storage version {name}");
            errors.push(Error::invalid(&path, stored.to_vec(), detail));
        }
    }
    for (index, name) in stored.iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        if !names.contains(name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.push(Error::invalid(&path.index(index), name, detail));
        }
    }
}

#[cfg(test)]
mod tests;
