//! A CustomResourceDefinition: what must be right about it before its resource is served.

use super::approval::Approval;
use crate::custom::CLEANUP;
use crate::strategy::Strategy;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use pintle_schema::Schema;
use serde_json::{Value, json};

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
        let stored = storage_version(definition);
        object::set(
            definition,
            &["status"],
            json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": stored}),
        );
    }

    fn prepare_update(&self, definition: &mut Value, _old: &Value, _subresource: &str) {
        let mut versions: Vec<Value> = object::list(definition, &["status", "storedVersions"]).to_vec();
        for version in storage_version(definition) {
            if !versions.iter().any(|v| *v == *version) {
                versions.push(version.into());
            }
        }
        object::set(definition, &["status", "storedVersions"], versions);
    }

    /// It goes when its objects are gone: whoever has removed them takes the finalizer off.
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

    fn validate(&self, definition: &Value, old: Option<&Value>, errors: &mut Errors) {
        let spec = Path::new("spec");
        let text = |path: &[&str]| object::text(definition, path);
        let (group, plural) = (text(&["spec", "group"]), text(&["spec", "names", "plural"]));
        let expected = format!("{plural}.{group}");
        if object::name(definition) != expected {
            let detail = "must be spec.names.plural+\".\"+spec.group";
            errors.push(Error::invalid(&Path::new("metadata").child("name"), object::name(definition), detail));
        }
        if group.is_empty() {
            errors.push(Error::required(&spec.child("group"), ""));
        } else if !group.contains('.') {
            errors.push(Error::invalid(&spec.child("group"), group, "should be a domain with at least one dot"));
        } else {
            errors.extend(
                rules::dns_subdomain(group).into_iter().map(|p| Error::invalid(&spec.child("group"), group, p)),
            );
        }
        match text(&["spec", "scope"]) {
            "" => errors.push(Error::required(&spec.child("scope"), "")),
            "Namespaced" | "Cluster" => {}
            other => errors.push(Error::not_supported(&spec.child("scope"), other, &["Cluster", "Namespaced"])),
        }
        let names = spec.child("names");
        for key in ["plural", "singular", "kind", "listKind"] {
            let name = text(&["spec", "names", key]);
            if name.is_empty() {
                errors.push(Error::required(&names.child(key), ""));
            } else {
                let problems = rules::dns_1035_label(&name.to_lowercase());
                errors.extend(problems.into_iter().map(|p| Error::invalid(&names.child(key), name, p)));
            }
        }
        versions(definition, &spec.child("versions"), errors);
        if old.is_none() {
            errors.extend(Approval::of(definition).and_then(|approval| approval.error(definition)));
        }
    }

    fn validate_update(&self, definition: &Value, old: &Value, _subresource: &str, errors: &mut Errors) {
        // What was missing may go on missing: whoever updates the rest need not know.
        let (was, is) = (Approval::of(old), Approval::of(definition));
        if was != is {
            errors.extend(is.and_then(|approval| approval.error(definition)));
        }
        let established = object::list(old, &["status", "conditions"])
            .iter()
            .any(|c| c["type"] == "Established" && c["status"] == "True");
        if !established {
            return;
        }
        for path in
            [&["spec", "group"][..], &["spec", "scope"], &["spec", "names", "kind"], &["spec", "names", "plural"]]
        {
            let (new, was) = (object::text(definition, path), object::text(old, path));
            if new != was {
                errors.push(Error::invalid(&Path::new(&path.join(".")), new, "field is immutable"));
            }
        }
    }
}

fn storage_version(definition: &Value) -> Vec<String> {
    object::list(definition, &["spec", "versions"])
        .iter()
        .filter(|v| object::flag(v, &["storage"]))
        .map(|v| object::text(v, &["name"]).to_owned())
        .collect()
}

fn versions(definition: &Value, path: &Path, errors: &mut Errors) {
    let versions = object::list(definition, &["spec", "versions"]);
    if versions.is_empty() {
        errors.push(Error::required(path, "must have at least one version"));
        return;
    }
    if storage_version(definition).len() != 1 {
        errors.push(Error::invalid(
            path,
            object::at(definition, &["spec", "versions"]).cloned().unwrap_or_default(),
            "must have exactly one version marked as storage version",
        ));
    }
    let mut seen: Vec<&str> = Vec::new();
    for (i, version) in versions.iter().enumerate() {
        let here = path.index(i);
        let name = object::text(version, &["name"]);
        errors.extend(rules::dns_1035_label(name).into_iter().map(|p| Error::invalid(&here.child("name"), name, p)));
        if seen.contains(&name) {
            errors.push(Error::invalid(&here.child("name"), name, "must be unique"));
        }
        seen.push(name);
        let schema = here.child("schema").child("openAPIV3Schema");
        match object::at(version, &["schema", "openAPIV3Schema"]) {
            None | Some(Value::Null) => errors.push(Error::required(&schema, "schemas are required")),
            Some(given) => {
                if object::text(given, &["type"]) != "object" {
                    errors.push(if object::text(given, &["type"]).is_empty() {
                        Error::required(&schema.child("type"), "must not be empty at the root")
                    } else {
                        Error::invalid(
                            &schema.child("type"),
                            object::text(given, &["type"]),
                            "must be object at the root",
                        )
                    });
                } else if let Err(problems) = Schema::from_crd(given, false, &schema) {
                    errors.extend(problems);
                }
            }
        }
    }
}
