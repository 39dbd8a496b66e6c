//! What any schema of a definition must get right, structural or not: known keywords and types, lists that can be merged.

use super::{EMBEDDED, LIST_MAP_KEYS, LIST_TYPE, MAP_TYPE, PRESERVE, Props, Strictness, VALIDATIONS, is_zero};
use pintle_meta::field::{Error, Errors, Path};
use serde_json::Value;
use std::collections::BTreeSet;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// What the root may say where status is written on its own, with the names by which the message knows it.
const ROOT_OF_STATUS: [(&str, &str); 22] = [
    ("description", "Description"),
    ("type", "Type"),
    ("format", "Format"),
    ("title", "Title"),
    ("maximum", "Maximum"),
    ("exclusiveMaximum", "ExclusiveMaximum"),
    ("minimum", "Minimum"),
    ("exclusiveMinimum", "ExclusiveMinimum"),
    ("maxLength", "MaxLength"),
    ("minLength", "MinLength"),
    ("pattern", "Pattern"),
    ("maxItems", "MaxItems"),
    ("minItems", "MinItems"),
    ("uniqueItems", "UniqueItems"),
    ("multipleOf", "MultipleOf"),
    ("required", "Required"),
    ("items", "Items"),
    ("properties", "Properties"),
    ("externalDocs", "ExternalDocs"),
    ("example", "Example"),
    (PRESERVE, "XPreserveUnknownFields"),
    (VALIDATIONS, "XValidations"),
];

/// Where status is written on its own it is checked on its own, so the root must not say anything about it.
pub(super) fn check_root_of_status(schema: Props<'_>, path: &Path) -> Option<Error> {
    let given = schema.text("type");
    if !matches!(given, "" | "object") {
        let detail =
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        return Some(Error::invalid(&path.child("type"), given, detail));
    }
    let allowed = |name: &str| ROOT_OF_STATUS.iter().any(|(key, _)| *key == name);
    schema.0.iter().find(|(name, value)| !allowed(name) && !is_zero(value)).map(|_| {
        let names = ROOT_OF_STATUS.map(|(_, name)| name).join(" ");
        let detail =
            format!("only [{names}] fields are allowed at the root of the schema if the status subresource is enabled");
        Error::invalid(path, Value::Object(schema.0.clone()), detail)
    })
}

pub(super) fn check(schema: Props<'_>, strictness: Strictness, path: &Path) -> Errors {
    let mut checker = Checker { strictness, errors: Errors::new() };
    checker.schema(schema, Place { is_root: true, ..Place::default() }, path);
    checker.errors
}

/// Where a schema stands.
#[derive(Clone, Default)]
struct Place {
    is_root: bool,
    /// In apiVersion, kind or metadata of a resource.
    in_resource_fields: bool,
    /// Why defaults are forbidden here.
    no_defaults: Option<String>,
}

struct Checker {
    strictness: Strictness,
    errors: Errors,
}

impl Checker {
    fn forbid(&mut self, path: &Path, detail: impl Into<String>) {
        self.errors.push(Error::forbidden(path, detail));
    }

    fn schema(&mut self, schema: Props<'_>, place: Place, path: &Path) {
        self.keywords(schema, &place, path);
        self.below(schema, &place, path);
        if schema.0.get(PRESERVE) == Some(&Value::Bool(false)) {
            self.errors.push(Error::invalid(&path.child(PRESERVE), false, "must be true or undefined"));
        }
        self.merging(schema, path);
        if schema.text(LIST_TYPE) == "map" {
            self.map_list(schema, path);
        }
        if self.strictness.keys_of_map_lists {
            self.errors.extend(loose_keys(schema, path));
        }
        self.validations(schema, path);
    }

    fn keywords(&mut self, schema: Props<'_>, place: &Place, path: &Path) {
        let given = schema.text("type");
        if self.strictness.known_types && has_unknown_type(schema) {
            self.errors.push(Error::not_supported(&path.child("type"), given, &TYPES));
        }
        if let Some(reason) = place.no_defaults.as_ref().filter(|_| schema.default().is_some()) {
            self.forbid(&path.child("default"), format!("must not be set {reason}"));
        }
        let set = |name: &str| match name {
            "id" => !schema.text(name).is_empty(),
            "patternProperties" | "definitions" => schema.0.get(name).is_some_and(|value| !is_zero(value)),
            _ => schema.has(name),
        };
        for name in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
            if set(name) {
                self.forbid(&path.child(name), format!("{name} is not supported"));
            }
        }
        if given == "null" {
            self.forbid(&path.child("type"), "type cannot be set to null, use nullable as an alternative");
        }
        if !schema.item_list().is_empty() {
            self.forbid(&path.child("items"), "items must be a schema object and not an array");
        }
        if place.in_resource_fields && schema.flag(EMBEDDED) {
            self.forbid(&path.child(EMBEDDED), "must not be used inside of resource meta");
        }
        if schema.flag("uniqueItems") {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.forbid(&path.child("uniqueItems"), detail);
        }
        let additional = schema.0.get("additionalProperties").filter(|value| !value.is_null());
        if additional.is_some_and(|value| *value != Value::Bool(true)) && schema.properties().next().is_some() {
            let detail = "additionalProperties and properties are mutual exclusive";
            self.forbid(&path.child("additionalProperties"), detail);
        }
    }

    fn below(&mut self, schema: Props<'_>, place: &Place, path: &Path) {
        let inner = Place { is_root: false, ..place.clone() };
        if let Some(additional) = schema.schema("additionalProperties") {
            let mut inner = inner.clone();
            if place.in_resource_fields {
                // Without a value, what pruning would leave of the default cannot be told.
                inner.no_defaults = Some("inside additionalProperties applying to object metadata".to_owned());
            }
            self.schema(additional, inner, &path.child("additionalProperties"));
        }
        for (name, property) in schema.properties() {
            let mut inner = inner.clone();
            if (place.is_root || schema.flag(EMBEDDED)) && matches!(name, "metadata" | "kind" | "apiVersion") {
                inner.in_resource_fields = true;
                if place.is_root {
                    inner.no_defaults = Some(format!("in top-level {name}"));
                }
            }
            self.schema(property, inner, &path.child("properties").key(name));
        }
        if let Some(not) = schema.schema("not") {
            self.schema(not, inner.clone(), &path.child("not"));
        }
        for name in ["allOf", "oneOf", "anyOf"] {
            for (index, branch) in schema.branches(name) {
                self.schema(branch, inner.clone(), &path.child(name).index(index));
            }
        }
        for (name, definition) in schema.schemas("definitions") {
            self.schema(definition, inner.clone(), &path.child("definitions").key(name));
        }
        if let Some(items) = schema.schema("items") {
            self.schema(items, inner.clone(), &path.child("items"));
        }
        for (index, items) in schema.branches("items") {
            self.schema(items, inner.clone(), &path.child("items").index(index));
        }
        for (name, dependency) in schema.schemas("dependencies") {
            self.schema(dependency, inner.clone(), &path.child("dependencies").key(name));
        }
    }

    /// How server-side apply is told to merge a map or a list.
    fn merging(&mut self, schema: Props<'_>, path: &Path) {
        let mut demand = |key: &str, wanted: &str, supported: &[&str]| {
            if !schema.has(key) {
                return;
            }
            let detail = format!("must be {wanted} if {key} is specified");
            let here = path.child("type");
            match schema.text("type") {
                given if given == wanted => {}
                "" => self.errors.push(Error::required(&here, detail)),
                given => self.errors.push(Error::invalid(&here, given, detail)),
            }
            if !supported.contains(&schema.text(key)) {
                self.errors.push(Error::not_supported(&path.child(key), schema.text(key), supported));
            }
        };
        demand(MAP_TYPE, "object", &["atomic", "granular"]);
        demand(LIST_TYPE, "array", &["atomic", "set", "map"]);
        if self.strictness.atomic_set_items
            && is_set_of_granular_items(schema)
            && let Some(items) = schema.schema("items")
        {
            let key = if items.has_type("array") { LIST_TYPE } else { MAP_TYPE };
            let given = items.0.get(LIST_TYPE).cloned().unwrap_or_default();
            let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
            self.errors.push(Error::invalid(&path.child("items").child(key), given, detail));
        }
        if !schema.list(LIST_MAP_KEYS).is_empty() {
            let (here, detail) = (path.child(LIST_TYPE), "must be map if x-kubernetes-list-map-keys is non-empty");
            match schema.text(LIST_TYPE) {
                "map" => {}
                "" => self.errors.push(Error::required(&here, detail)),
                given => self.errors.push(Error::invalid(&here, given, detail)),
            }
        }
    }

    fn map_list(&mut self, schema: Props<'_>, path: &Path) {
        let (items_path, keys_path) = (path.child("items"), path.child(LIST_MAP_KEYS));
        let keys: Vec<&str> = schema.texts(LIST_MAP_KEYS).collect();
        if keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            self.errors.push(Error::required(&keys_path, detail));
        }
        let Some(items) = schema.schema("items") else {
            self.errors.push(match schema.0.get("items").filter(|items| !items.is_null()) {
                None => Error::required(&items_path, "must have a schema if x-kubernetes-list-type is map"),
                Some(items) => {
                    let detail = "must only have a single schema if x-kubernetes-list-type is map";
                    Error::invalid(&items_path, items.clone(), detail)
                }
            });
            return;
        };
        if !items.has_type("object") {
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            self.errors.push(Error::invalid(&items_path.child("type"), items.text("type"), detail));
            return;
        }
        let mut seen = BTreeSet::new();
        for key in &keys {
            let wrong = |detail: &str| Error::invalid(&keys_path, schema.list(LIST_MAP_KEYS).to_vec(), detail);
            match items.property(key) {
                None => self.errors.push(wrong("entries must all be names of item properties")),
                Some(property) if property.has_type("array") || property.has_type("object") => {
                    let here = items_path.child("properties").key(key).child("type");
                    let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    self.errors.push(Error::invalid(&here, items.text("type"), detail));
                }
                Some(_) => {}
            }
            if !seen.insert(key) {
                self.errors.push(wrong("must not contain duplicate entries"));
            }
        }
    }

    /// How rules are written down; what they say is checked where they are compiled.
    fn validations(&mut self, schema: Props<'_>, path: &Path) {
        const REASONS: [&str; 4] =
            ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
        for (index, rule) in schema.branches(VALIDATIONS) {
            let here = |name: &str| path.child(VALIDATIONS).index(index).child(name);
            let blank = |name: &str| !rule.text(name).is_empty() && rule.text(name).trim().is_empty();
            let broken = |name: &str| rule.text(name).trim().contains(['\n', '\r']);
            let message = rule.text("message");
            if rule.text("rule").trim().is_empty() {
                self.errors.push(Error::required(&here("rule"), "rule is not specified"));
            } else if blank("message") {
                self.errors.push(Error::invalid(&here("message"), message, "must be non-empty if specified"));
            } else if broken("message") {
                self.errors.push(Error::invalid(&here("message"), message, "must not contain line breaks"));
            } else if broken("rule") && message.is_empty() {
                let detail = "message must be specified if rule contains line breaks";
                self.errors.push(Error::required(&here("message"), detail));
            }
            if blank("messageExpression") {
                let detail = "messageExpression must be non-empty if specified";
                self.errors.push(Error::required(&here("messageExpression"), detail));
            }
            if rule.has("reason") && !REASONS.contains(&rule.text("reason")) {
                self.errors.push(Error::not_supported(&here("reason"), rule.text("reason"), &REASONS));
            }
            let field_path = rule.text("fieldPath");
            if blank("fieldPath") {
                self.errors.push(Error::invalid(&here("fieldPath"), field_path, "must be non-empty if specified"));
            }
            if field_path.contains(['\n', '\r']) {
                self.errors.push(Error::invalid(&here("fieldPath"), field_path, "must not contain line breaks"));
            }
            if !field_path.is_empty() && super::field_path::find(schema, field_path, true).is_err() {
                self.errors.push(Error::invalid(&here("fieldPath"), field_path, "must be a valid path"));
            }
        }
    }
}

pub(super) fn has_unknown_type(schema: Props<'_>) -> bool {
    let given = schema.text("type");
    !given.is_empty() && !TYPES.contains(&given)
}

/// A set compares its items as wholes, so no item may have owners inside. Lists are atomic unless they say otherwise, maps
/// are not.
pub(super) fn is_set_of_granular_items(schema: Props<'_>) -> bool {
    if schema.text(LIST_TYPE) != "set" || !schema.has_type("array") {
        return false;
    }
    schema.schema("items").is_some_and(|items| match items.text("type") {
        "array" => items.has(LIST_TYPE) && items.text(LIST_TYPE) != "atomic",
        "object" => items.text(MAP_TYPE) != "atomic",
        _ => false,
    })
}

pub(super) fn has_loose_keys(schema: Props<'_>) -> bool {
    !loose_keys(schema, &Path::root()).is_empty()
}

/// Refuses items and keys that may be null or absent, because two of those look the same.
fn loose_keys(schema: Props<'_>, path: &Path) -> Errors {
    let mut errors = Errors::new();
    let list_type = schema.text(LIST_TYPE);
    let Some(items) = schema.schema("items").filter(|_| matches!(list_type, "set" | "map")) else { return errors };
    let here = path.child("items");
    if items.flag("nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(Error::forbidden(&here.child("nullable"), detail));
    }
    let required: BTreeSet<&str> = items.texts("required").collect();
    let keys = schema.texts(LIST_MAP_KEYS).filter(|_| list_type == "map");
    for (key, property) in keys.filter_map(|key| Some((key, items.property(key)?))) {
        let here = here.child("properties").key(key);
        if !required.contains(key) && property.default().is_none() {
            let detail =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(Error::required(&here.child("default"), detail));
        }
        if property.flag("nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(Error::forbidden(&here.child("nullable"), detail));
        }
    }
    errors
}
