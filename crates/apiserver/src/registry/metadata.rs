//! The metadata of every object: placed, named, stamped and checked the same way for all kinds.

use super::Registry;
use crate::catalogue::Resource;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{Random, Status, object, rules};
use serde_json::Value;

/// The longest name that leaves room for a generated end.
const LONGEST_BASE: usize = 63 - SUFFIX;
const SUFFIX: usize = 5;
/// All annotations of an object together.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;
/// Where a finalizer needs no domain and no slash.
const RELAXED_GROUPS: [&str; 4] =
    ["admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "coordination.k8s.io"];

/// Puts an object where its path says; one that says otherwise is refused.
pub(super) fn place(resource: &Resource, namespace: &str, value: &mut Value) -> Result<(), Status> {
    let said = object::namespace(value);
    if resource.namespaced {
        if said.is_empty() {
            object::metadata(value).insert("namespace".into(), namespace.into());
        } else if said != namespace {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
    } else if !said.is_empty() {
        if resource.kind == "Namespace" || said == "default" || resource.custom {
            object::remove(value, &["metadata", "namespace"]);
        } else {
            return Err(Status::bad_request("namespace is not allowed for cluster-scoped resources"));
        }
    }
    Ok(())
}

/// Gives a new object its generated name. Answers whether the name was generated.
pub(super) fn name_new(random: &Random, value: &mut Value) -> bool {
    if !object::name(value).is_empty() || object::text(value, &["metadata", "generateName"]).is_empty() {
        return false;
    }
    rename(random, value);
    true
}

pub(super) fn rename(random: &Random, value: &mut Value) {
    let base = object::text(value, &["metadata", "generateName"]);
    let end = base.char_indices().map(|(i, c)| i + c.len_utf8()).take_while(|e| *e <= LONGEST_BASE).last().unwrap_or(0);
    let name = format!("{}{}", &base[..end], random.suffix(SUFFIX));
    object::metadata(value).insert("name".into(), name.into());
}

/// What the server alone says about a new object.
pub(super) fn stamp_new(registry: &Registry, resource: &Resource, value: &mut Value) {
    let (uid, now) = (registry.random.uid(), registry.clock.now_rfc3339());
    let metadata = object::metadata(value);
    metadata.insert("uid".into(), uid.into());
    metadata.insert("creationTimestamp".into(), now.into());
    for absent in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion", "generation"] {
        metadata.remove(absent);
    }
    if resource.strategy.counts_generations() {
        metadata.insert("generation".into(), 1.into());
    }
}

/// What the server alone says stays as it was, whatever an update says.
pub(super) fn keep_stamps(value: &mut Value, old: &Value) {
    let metadata = object::metadata(value);
    for key in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"] {
        match old.get("metadata").and_then(|m| m.get(key)) {
            Some(kept) => {
                metadata.insert(key.into(), kept.clone());
            }
            None => {
                metadata.remove(key);
            }
        }
    }
    let old_metadata = |key: &str| old.get("metadata").and_then(|m| m.get(key)).cloned();
    for key in ["uid", "name", "namespace"] {
        if metadata.get(key).and_then(Value::as_str).unwrap_or_default().is_empty()
            && let Some(kept) = old_metadata(key)
        {
            metadata.insert(key.into(), kept);
        }
    }
}

pub(super) fn validate(resource: &Resource, value: &Value, errors: &mut Errors) {
    let path = Path::new("metadata");
    let name = object::name(value);
    let generate = object::text(value, &["metadata", "generateName"]);
    if !generate.is_empty() {
        let probe = format!("{}a", generate.trim_end_matches('-'));
        for problem in resource.strategy.name_problems(&probe) {
            errors.push(Error::invalid(&path.child("generateName"), generate, problem));
        }
    }
    if name.is_empty() {
        errors.push(Error::required(&path.child("name"), "name or generateName is required"));
    } else {
        for problem in resource.strategy.name_problems(name) {
            errors.push(Error::invalid(&path.child("name"), name, problem));
        }
    }
    if resource.namespaced {
        let namespace = object::namespace(value);
        for problem in rules::dns_label(namespace) {
            errors.push(Error::invalid(&path.child("namespace"), namespace, problem));
        }
    }
    validate_labels(object::at(value, &["metadata", "labels"]), &path.child("labels"), errors);
    validate_annotations(object::at(value, &["metadata", "annotations"]), &path.child("annotations"), errors);
    validate_owners(value, &path.child("ownerReferences"), errors);
    for (i, finalizer) in object::list(value, &["metadata", "finalizers"]).iter().enumerate() {
        let finalizer = finalizer.as_str().unwrap_or_default();
        let here = path.child("finalizers");
        for problem in rules::qualified_name(finalizer) {
            errors.push(Error::invalid(&here, finalizer, problem));
        }
        let standard = ["orphan", "foregroundDeletion", "kubernetes"];
        // Groups that began outside the core take any qualified name.
        let strict = !resource.custom && !RELAXED_GROUPS.contains(&resource.group.as_str());
        if strict && !finalizer.contains('/') && !standard.contains(&finalizer) {
            let name = here.index(i);
            errors.push(Error::invalid(
                &name,
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
}

/// Labels of metadata, of a selector's matchLabels or of a template.
pub fn validate_labels(labels: Option<&Value>, path: &Path, errors: &mut Errors) {
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        for problem in rules::qualified_name(key) {
            errors.push(Error::invalid(path, key.as_str(), problem));
        }
        let value = value.as_str().unwrap_or_default();
        for problem in rules::label_value(value) {
            errors.push(Error::invalid(&path.key(key), value, problem));
        }
    }
}

fn validate_annotations(annotations: Option<&Value>, path: &Path, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in annotations.and_then(Value::as_object).into_iter().flatten() {
        // Keys are compared in lower case: older tools wrote capitals in prefixes.
        for problem in rules::qualified_name(&key.to_lowercase()) {
            errors.push(Error::invalid(path, key.as_str(), problem));
        }
        size += key.len() + value.as_str().unwrap_or_default().len();
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(Error::too_long(path, ANNOTATIONS_LIMIT));
    }
}

fn validate_owners(value: &Value, path: &Path, errors: &mut Errors) {
    let mut controller: Option<String> = None;
    for (i, owner) in object::list(value, &["metadata", "ownerReferences"]).iter().enumerate() {
        let here = path.index(i);
        for key in ["apiVersion", "kind", "name", "uid"] {
            if object::text(owner, &[key]).is_empty() {
                let detail = if key == "apiVersion" { "version must not be empty" } else { "must not be empty" };
                errors.push(Error::invalid(&here.child(key), object::text(owner, &[key]), detail));
            }
        }
        if object::text(owner, &["kind"]) == "Event" && object::text(owner, &["apiVersion"]) == "v1" {
            errors.push(Error::invalid(&here, owner.clone(), "/v1, Kind=Event is disallowed from being an owner"));
        }
        if object::flag(owner, &["controller"]) {
            let name = format!("{}/{}", object::text(owner, &["kind"]), object::text(owner, &["name"]));
            if let Some(first) = &controller {
                errors.push(Error::invalid(
                    path,
                    value["metadata"]["ownerReferences"].clone(),
                    format!("Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"),
                ));
            }
            controller = Some(name);
        }
    }
}

/// What may not change in metadata.
pub(super) fn validate_update(value: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::new("metadata");
    for key in ["name", "namespace", "uid", "creationTimestamp"] {
        let (new, was) = (object::text(value, &["metadata", key]), object::text(old, &["metadata", key]));
        if new != was {
            errors.push(Error::invalid(&path.child(key), new, "field is immutable"));
        }
    }
    if object::is_being_deleted(old) {
        let had: Vec<&str> = object::finalizers(old).collect();
        let added: Vec<String> =
            object::finalizers(value).filter(|f| !had.contains(f)).map(|f| format!("{f:?}")).collect();
        if !added.is_empty() {
            errors.push(Error::forbidden(
                &path.child("finalizers"),
                format!("no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}", added.join(", ")),
            ));
        }
    }
}
