//! The parts of a version that versions may share: schema, subresources, printed columns and selectable fields.

use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use pintle_schema::structural::{self, Strictness};
use serde_json::Value;
use std::cell::OnceCell;
use std::collections::BTreeSet;

const MAX_SELECTABLE_FIELDS: usize = 8;

/// What an update is not asked for because the stored definition lacks it. Found only when something is wrong.
pub(super) struct Ratchets<'a> {
    old: Option<&'a Value>,
    stored: OnceCell<Strictness>,
    /// Whether pruning or an extension of the schema rests on its being structural.
    needs_structure: bool,
}

impl<'a> Ratchets<'a> {
    pub(super) fn new(spec: &Value, old: Option<&'a Value>) -> Self {
        let needs_structure = !object::flag(spec, &["preserveUnknownFields"])
            || object::list(spec, &["versions"]).iter().any(|version| {
                let schema = object::at(version, &["schema"]);
                schema.is_some_and(|schema| structural::has_defaults(schema) || structural::has_extensions(schema))
            });
        Ratchets { old, stored: OnceCell::new(), needs_structure }
    }

    fn check_schema(&self, schema: &Value, has_status: bool, path: &Path) -> Errors {
        let errors = structural::check(schema, has_status, Strictness::EVERYTHING, path);
        match self.old.filter(|_| !errors.is_empty()) {
            None => errors,
            Some(old) => structural::check(schema, has_status, self.strictness(old), path),
        }
    }

    fn strictness(&self, old: &Value) -> Strictness {
        let stored = self.stored.get_or_init(|| {
            let versions = object::list(old, &["versions"]).iter();
            Strictness::of_stored(versions.filter_map(|version| object::at(version, &["schema", "openAPIV3Schema"])))
        });
        Strictness { structural: stored.structural || self.needs_structure, ..*stored }
    }

    /// Whether a version had too many selectable fields before, and has the same.
    fn had_too_many(&self, fields: &Value, version: Option<&str>) -> bool {
        let versions = self.old.map(|old| object::list(old, &["versions"])).unwrap_or_default();
        let is_meant = |old: &&Value| version.is_none_or(|name| object::text(old, &["name"]) == name);
        versions.iter().find(is_meant).and_then(|old| old.get("selectableFields")).is_some_and(|old| {
            old == fields && old.as_array().is_some_and(|fields| fields.len() > MAX_SELECTABLE_FIELDS)
        })
    }
}

/// Whether all versions have the same in this part.
fn is_shared(spec: &Value, part: &str) -> bool {
    let versions = object::list(spec, &["versions"]);
    let first = versions.first().and_then(|version| version.get(part));
    versions.iter().all(|version| version.get(part) == first)
}

/// What each version has for itself.
pub(super) fn check_versions(spec: &Value, ratchets: &Ratchets<'_>, path: &Path, errors: &mut Errors) {
    let own = |version: &'static str| !is_shared(spec, version);
    let (schema, subresources) = (own("schema"), own("subresources"));
    let (columns, fields) = (own("additionalPrinterColumns"), own("selectableFields"));
    for (index, version) in object::list(spec, &["versions"]).iter().enumerate() {
        let here = path.child("versions").index(index);
        let name = object::text(version, &["name"]);
        let problems = rules::dns_1035_label(name);
        if !problems.is_empty() {
            errors.push(Error::invalid(&here.child("name"), name, problems.join(",")));
        }
        deprecation(version, &here.child("deprecationWarning"), errors);
        let has_status = object::at(version, &["subresources", "status"]).is_some();
        if schema && let Some(given) = object::at(version, &["schema", "openAPIV3Schema"]) {
            let here = here.child("schema").child("openAPIV3Schema");
            errors.extend(ratchets.check_schema(given, has_status, &here));
        }
        if subresources && let Some(given) = version.get("subresources") {
            scale(given, &here.child("subresources"), errors);
        }
        if columns {
            printer_columns(version, &here, errors);
        }
        if let Some(given) = version.get("selectableFields").filter(|given| fields && has_items(given)) {
            let here = here.child("selectableFields");
            match object::at(version, &["schema", "openAPIV3Schema"]).filter(|_| schema) {
                Some(schema) => selectable_fields(given, schema, (ratchets, Some(name)), &here, errors),
                None => {
                    let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
                    errors.push(Error::invalid(&here, "", detail));
                }
            }
        }
    }
}

/// What all versions have in common.
pub(super) fn check_shared(spec: &Value, ratchets: &Ratchets<'_>, path: &Path, errors: &mut Errors) {
    let versions = object::list(spec, &["versions"]);
    let Some(first) = versions.first() else { return };
    let shared = |part: &str| first.get(part).filter(|_| is_shared(spec, part));
    let schema = shared("schema").and_then(|schema| schema.get("openAPIV3Schema"));
    if let Some(schema) = schema {
        let has_status = versions.iter().any(|version| object::at(version, &["subresources", "status"]).is_some());
        let here = path.child("validation").child("openAPIV3Schema");
        errors.extend(ratchets.check_schema(schema, has_status, &here));
    }
    if let Some(subresources) = shared("subresources") {
        scale(subresources, &path.child("subresources"), errors);
    }
    if shared("additionalPrinterColumns").is_some() {
        printer_columns(first, path, errors);
    }
    if let Some(fields) = shared("selectableFields").filter(|fields| has_items(fields)) {
        let here = path.child("selectableFields");
        match schema {
            Some(schema) => selectable_fields(fields, schema, (ratchets, None), &here, errors),
            None => {
                let detail = "may only be set when validations.schema is included";
                errors.push(Error::invalid(&here, "", detail));
            }
        }
    }
}

fn has_items(list: &Value) -> bool {
    list.as_array().is_some_and(|list| !list.is_empty())
}

fn deprecation(version: &Value, path: &Path, errors: &mut Errors) {
    const LONGEST_BYTES: usize = 256;
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else { return };
    let mut refuse = |detail: String| errors.push(Error::invalid(path, warning, detail));
    if !object::flag(version, &["deprecated"]) {
        refuse("can only be set for deprecated versions".to_owned());
        return;
    }
    if warning.len() > LONGEST_BYTES {
        refuse(format!("must be <= {LONGEST_BYTES} characters long"));
    }
    if warning.is_empty() {
        refuse("must not be an empty string".to_owned());
    }
    // Of white space only the plain blank is printed as it is.
    if let Some((at, _)) = warning.char_indices().find(|(_, c)| c.is_control() || (c.is_whitespace() && *c != ' ')) {
        let rule = "must only contain printable UTF-8 characters";
        refuse(format!("{rule}; non-printable character found at index {at}"));
    }
}

fn scale(subresources: &Value, path: &Path, errors: &mut Errors) {
    let Some(scale) = subresources.get("scale").filter(|scale| scale.is_object()) else { return };
    for (key, below, optional) in [
        ("specReplicasPath", &[".spec."][..], false),
        ("statusReplicasPath", &[".status."], false),
        ("labelSelectorPath", &[".spec.", ".status."], true),
    ] {
        let (given, here) = (object::text(scale, &[key]), path.child("scale").child(key));
        if given.is_empty() && optional {
            continue;
        } else if given.is_empty() {
            errors.push(Error::required(&here, ""));
        } else if !given.starts_with('.') {
            errors.push(Error::invalid(&here, given, "must be a simple json path starting with ."));
        } else if !below.iter().any(|below| given.starts_with(below)) {
            let names: Vec<&str> = below.iter().map(|below| below.trim_end_matches('.')).collect();
            let either = if names.len() > 1 { "either " } else { "" };
            let detail = format!("should be a json path under {either}{}", names.join(" or "));
            errors.push(Error::invalid(&here, given, detail));
        }
    }
}

fn printer_columns(holder: &Value, path: &Path, errors: &mut Errors) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    for (index, column) in object::list(holder, &["additionalPrinterColumns"]).iter().enumerate() {
        let here = path.child("additionalPrinterColumns").index(index);
        let text = |key: &str| object::text(column, &[key]);
        if text("name").is_empty() {
            errors.push(Error::required(&here.child("name"), ""));
        }
        let one_of = |names: &[&str]| format!("must be one of {}", names.join(","));
        match text("type") {
            "" => errors.push(Error::required(&here.child("type"), one_of(&TYPES))),
            given if TYPES.contains(&given) => {}
            given => errors.push(Error::invalid(&here.child("type"), given, one_of(&TYPES))),
        }
        let format = text("format");
        if !format.is_empty() && !FORMATS.contains(&format) {
            errors.push(Error::invalid(&here.child("format"), format, one_of(&FORMATS)));
        }
        match text("jsonPath") {
            "" => errors.push(Error::required(&here.child("JSONPath"), "")),
            given if given.starts_with('.') => {}
            given => {
                let detail = "must be a simple json path starting with .";
                errors.push(Error::invalid(&here.child("JSONPath"), given, detail));
            }
        }
    }
}

fn selectable_fields(
    fields: &Value,
    schema: &Value,
    (ratchets, version): (&Ratchets<'_>, Option<&str>),
    path: &Path,
    errors: &mut Errors,
) {
    let mut distinct = BTreeSet::new();
    for (index, field) in fields.as_array().into_iter().flatten().enumerate() {
        let (given, here) = (object::text(field, &["jsonPath"]), path.index(index).child("jsonPath"));
        if given.is_empty() {
            errors.push(Error::required(&here, ""));
            continue;
        }
        let found = match structural::at_field_path(schema, given) {
            Ok(found) => found,
            Err(error) => {
                errors.push(Error::invalid(&here, given, format!("is an invalid path: {error}")));
                continue;
            }
        };
        if found.names.first().is_some_and(|first| first == "metadata") {
            errors.push(Error::invalid(&here, given, "must not point to fields in metadata"));
        }
        if !matches!(found.value_type, "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(Error::invalid(&here, given, detail));
        }
        if !distinct.insert(found.names) {
            errors.push(Error::duplicate(&here, given));
        }
    }
    if distinct.len() > MAX_SELECTABLE_FIELDS && !ratchets.had_too_many(fields, version) {
        errors.push(Error::too_many(path, distinct.len(), MAX_SELECTABLE_FIELDS));
    }
}
