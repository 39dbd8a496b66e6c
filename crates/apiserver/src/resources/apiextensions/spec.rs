//! What must be right about the spec of a definition, in the words and with the fields that clients of the API know.
//!
//! What all versions have in common is told where older clients wrote it: a schema of all versions at `spec.validation`,
//! their columns at `spec.additionalPrinterColumns`, and so on.

use super::parts::{self, Ratchets};
use super::{conversion, names};
use crate::resources::check;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) fn check(definition: &Value, old: Option<&Value>, errors: &mut Errors) {
    let path = Path::new("spec");
    let (spec, old_spec) = (&definition["spec"], old.map(|old| &old["spec"]));
    group(spec, &path, errors);
    match object::text(spec, &["scope"]) {
        "" => errors.push(Error::required(&path.child("scope"), "")),
        "Namespaced" | "Cluster" => {}
        other => errors.push(Error::not_supported(&path.child("scope"), other, &["Cluster", "Namespaced"])),
    }
    schemas_are_there(spec, old_spec, &path, errors);
    let preserves = object::flag(spec, &["preserveUnknownFields"]);
    if preserves && has_defaults(spec) {
        let detail = "must be false in order to use defaults in the schema";
        errors.push(Error::invalid(&path.child("preserveUnknownFields"), true, detail));
    }
    let ratchets = Ratchets::new(spec, old_spec);
    parts::check_versions(spec, &ratchets, &path, errors);
    version_names(spec, &path, errors);
    let empty = Value::Null;
    let given = spec.get("names").unwrap_or(&empty);
    names::check_required(given, &path.child("names"), errors);
    names::check(given, &path.child("names"), errors);
    parts::check_shared(spec, &ratchets, &path, errors);
    let strategy = object::text(spec, &["conversion", "strategy"]);
    if spec.get("conversion").is_some_and(Value::is_object) && strategy != "None" && preserves {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.push(Error::invalid(&path.child("conversion").child("strategy"), strategy, detail));
    }
    conversion::check(spec, old, &path.child("conversion"), errors);
    if let Some(old) = old {
        if is_established(old) {
            check::immutable(definition, old, &["spec", "scope"], errors);
            check::immutable(definition, old, &["spec", "names", "kind"], errors);
        }
        check::immutable(definition, old, &["spec", "group"], errors);
        check::immutable(definition, old, &["spec", "names", "plural"], errors);
    }
}

pub(super) fn is_established(definition: &Value) -> bool {
    let mut conditions = object::list(definition, &["status", "conditions"]).iter();
    conditions.any(|c| c["type"] == "Established" && c["status"] == "True")
}

fn group(spec: &Value, path: &Path, errors: &mut Errors) {
    let (group, here) = (object::text(spec, &["group"]), path.child("group"));
    let problems = rules::dns_subdomain(group);
    if group.is_empty() {
        errors.push(Error::required(&here, ""));
    } else if !problems.is_empty() {
        errors.push(Error::invalid(&here, group, problems.join(",")));
    } else if !group.contains('.') {
        errors.push(Error::invalid(&here, group, "should be a domain with at least one dot"));
    }
}

/// Every version has a schema. A definition that was stored without is asked for one only where everything would be pruned.
fn schemas_are_there(spec: &Value, old: Option<&Value>, path: &Path, errors: &mut Errors) {
    let lacks = |version: &Value| !object::at(version, &["schema", "openAPIV3Schema"]).is_some_and(Value::is_object);
    let all_asked = !old.is_some_and(|old| object::list(old, &["versions"]).iter().any(lacks));
    let preserves = object::flag(spec, &["preserveUnknownFields"]);
    for (index, version) in object::list(spec, &["versions"]).iter().enumerate().filter(|(_, version)| lacks(version)) {
        let here = path.child("versions").index(index).child("schema").child("openAPIV3Schema");
        if all_asked {
            errors.push(Error::required(&here, ""));
        } else if !preserves && object::flag(version, &["served"]) {
            errors.push(Error::required(&here, "because otherwise all fields are pruned"));
        }
    }
}

fn has_defaults(spec: &Value) -> bool {
    let mut versions = object::list(spec, &["versions"]).iter();
    versions.any(|version| object::at(version, &["schema"]).is_some_and(pintle_schema::structural::has_defaults))
}

fn version_names(spec: &Value, path: &Path, errors: &mut Errors) {
    let (here, versions) = (path.child("versions"), object::list(spec, &["versions"]));
    let all: Vec<&str> = versions.iter().map(|version| object::text(version, &["name"])).collect();
    let wrong = |detail: &str| Error::invalid(&here, spec.get("versions").cloned().unwrap_or_default(), detail);
    if all.iter().collect::<BTreeSet<_>>().len() < all.len() {
        errors.push(wrong("must contain unique version names"));
    }
    if versions.iter().filter(|version| object::flag(version, &["storage"])).count() != 1 {
        errors.push(wrong("must have exactly one version marked as storage version"));
    }
    // Older clients know the first version as the only one.
    if let Some(first) = all.first().filter(|name| !name.is_empty()) {
        let problems = rules::dns_1035_label(first);
        if !problems.is_empty() {
            errors.push(Error::invalid(&path.child("version"), *first, problems.join(",")));
        }
    }
}
