//! The shape of a structural schema: every value has a type, and what resources have in common stays theirs.

use super::{EMBEDDED, INT_OR_STRING, PRESERVE, Props, is_zero, nested};
use pintle_meta::field::{Error, Errors, Path};
use serde_json::Value;

/// Where a schema stands; a missing type is told by it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Where the schema is not structural.
pub(super) fn check(schema: Props<'_>, path: &Path) -> Errors {
    let mut errors = Errors::new();
    shape(schema, Level::Root, path, &mut errors);
    nested::check_completeness(schema, path, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

fn shape(schema: Props<'_>, level: Level, path: &Path, errors: &mut Errors) {
    match schema.schema("items") {
        Some(items) => shape(items, Level::Item, &path.child("items"), errors),
        None if schema.has_type("array") => errors.push(Error::required(&path.child("items"), "must be specified")),
        None => {}
    }
    for (name, property) in schema.properties() {
        shape(property, Level::Field, &path.child("properties").key(name), errors);
    }
    if schema.has("additionalProperties") {
        let here = path.child("additionalProperties");
        if level == Level::Root {
            errors.push(Error::forbidden(&here, "must not be used at the root"));
        }
        if schema.flag(EMBEDDED) {
            errors.push(Error::forbidden(&here, "must not be used if x-kubernetes-embedded-resource is set"));
        }
        if let Some(additional) = schema.schema("additionalProperties") {
            shape(additional, Level::Field, &here, errors);
        }
    }
    if schema.flag(INT_OR_STRING) {
        for name in [PRESERVE, EMBEDDED] {
            if schema.flag(name) {
                let detail = "must be false if x-kubernetes-int-or-string is true";
                errors.push(Error::invalid(&path.child(name), true, detail));
            }
        }
    }
    nested::check(schema, path, errors);
    value_type(schema, level, path, errors);
    resource_fields(schema, level, path, errors);
}

fn value_type(schema: Props<'_>, level: Level, path: &Path, errors: &mut Errors) {
    let (here, given) = (path.child("type"), schema.text("type"));
    if schema.flag(EMBEDDED) && given != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match given {
            "" => Error::required(&here, detail),
            _ => Error::invalid(&here, given, detail),
        });
    } else if given.is_empty() && !schema.flag(INT_OR_STRING) && !schema.flag(PRESERVE) {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(Error::required(&here, detail));
    }
    if level == Level::Root && !matches!(given, "" | "object") {
        errors.push(Error::invalid(&here, given, "must be object at the root"));
    }
    if schema.flag(EMBEDDED) && !schema.flag(PRESERVE) && schema.properties().next().is_none() {
        let detail =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(Error::required(&path.child("properties"), detail));
    }
}

/// apiVersion, kind and metadata of a resource have the API's own types. At the root only names may be narrowed.
fn resource_fields(schema: Props<'_>, level: Level, path: &Path, errors: &mut Errors) {
    let is_resource = level == Level::Root || schema.flag(EMBEDDED);
    let here = |name: &str| path.child("properties").key(name);
    let mut demand = |name: &str, wanted: &str| {
        if let Some(given) = schema.property(name).filter(|property| is_resource && !property.has_type(wanted)) {
            let detail = format!("must be {wanted}");
            errors.push(Error::invalid(&here(name).child("type"), given.text("type"), detail));
        }
    };
    demand("kind", "string");
    demand("apiVersion", "string");
    demand("metadata", "object");
    if let Some(metadata) = schema.property("metadata").filter(|_| level == Level::Root)
        && !narrows_names_only(metadata)
    {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(Error::forbidden(&here("metadata"), detail));
    }
}

fn narrows_names_only(metadata: Props<'_>) -> bool {
    metadata.0.iter().all(|(key, value)| match (key.as_str(), value) {
        ("type" | "default", _) => true,
        ("properties", Value::Object(properties)) => {
            properties.keys().all(|name| matches!(name.as_str(), "name" | "generateName"))
        }
        (_, value) => is_zero(value),
    })
}
