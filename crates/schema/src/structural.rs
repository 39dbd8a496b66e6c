//! Whether the OpenAPI schema of a CustomResourceDefinition may be defined so: structural, with lists that can be merged and
//! defaults that fit. The errors are the API's, in its words and order.
//!
//! A structural schema says the shape of every value outside of `allOf`, `anyOf`, `oneOf` and `not`; these may only narrow
//! what is there ([`nested`]). Everything else rests on that: pruning, defaults, ownership of fields.
//!
//! An update does not ask of a definition what the stored one lacks ([`Strictness`]).

mod declared;
mod defaults;
mod field_path;
mod invariants;
mod nested;

pub use field_path::{FieldPathError, Found, at_field_path};

use crate::node::Schema;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::{Map, Value};

/// What is asked of a definition's schemas. A new one is asked everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a demand of its own, as the API makes them")]
pub struct Strictness {
    pub structural: bool,
    pub known_types: bool,
    pub pruned_defaults: bool,
    pub atomic_set_items: bool,
    pub keys_of_map_lists: bool,
}

impl Strictness {
    pub const EVERYTHING: Strictness = Strictness {
        structural: true,
        known_types: true,
        pruned_defaults: true,
        atomic_set_items: true,
        keys_of_map_lists: true,
    };

    /// What these schemas, which are stored, have already.
    pub fn of_stored<'a>(schemas: impl Iterator<Item = &'a Value> + Clone) -> Self {
        let each = |asked: fn(&Value) -> bool| schemas.clone().all(asked);
        let any_node =
            |schema: &Value, wrong: &dyn Fn(Props<'_>) -> bool| Props::of(schema).is_some_and(|props| props.any(wrong));
        Strictness {
            structural: each(is_structural),
            known_types: !schemas.clone().any(|schema| any_node(schema, &declared::has_unknown_type)),
            pruned_defaults: each(defaults::are_pruned),
            atomic_set_items: !schemas.clone().any(|schema| any_node(schema, &declared::is_set_of_granular_items)),
            keys_of_map_lists: !schemas.clone().any(|schema| any_node(schema, &declared::has_loose_keys)),
        }
    }
}

/// All that is wrong with `openAPIV3Schema` of one version, which stands at `path`.
pub fn check(schema: &Value, has_status: bool, strictness: Strictness, path: &Path) -> Errors {
    let Some(props) = Props::of(schema) else {
        return vec![Error::invalid(path, schema.clone(), "must be an object")];
    };
    // How deep it is bounds every walk that follows.
    if object::nests_deeper_than(schema, object::MAX_NESTING) {
        return vec![Error::invalid(path, Value::Null, crate::crd::TOO_DEEP)];
    }
    let (compiled, limits) = match Schema::from_crd(schema, false, path) {
        Ok(compiled) => (Some(compiled), Errors::new()),
        Err(errors) => (None, errors),
    };
    let mut errors = Errors::new();
    if has_status {
        errors.extend(declared::check_root_of_status(props, path));
    }
    if props.flag("nullable") {
        errors.push(Error::forbidden(&path.child("nullable"), "nullable cannot be true at the root"));
    }
    let unsupported = strictness.structural.then(|| unsupported(props)).flatten();
    if strictness.structural && unsupported.is_none() {
        let mut found = invariants::check(props, path);
        found.extend(limits);
        found.sort_by_cached_key(ToString::to_string);
        if found.is_empty()
            && let Some(compiled) = &compiled
        {
            found = defaults::check(props, compiled, strictness.pruned_defaults, path);
        }
        errors.extend(found);
    } else {
        errors.extend(limits);
    }
    errors.extend(declared::check(props, strictness, path));
    if let Some(detail) = unsupported.filter(|_| errors.is_empty()) {
        errors.push(Error::invalid(path, "", detail));
    }
    errors
}

/// Whether a schema is structural.
pub fn is_structural(schema: &Value) -> bool {
    violations(schema, &Path::root()).is_ok_and(|errors| errors.is_empty())
}

/// Where a schema is not structural, or why that cannot be told.
pub fn violations(schema: &Value, path: &Path) -> Result<Errors, String> {
    let Some(props) = Props::of(schema) else { return Ok(Errors::new()) };
    match unsupported(props) {
        Some(detail) => Err(detail),
        None => Ok(invariants::check(props, path)),
    }
}

/// Whether any schema of a version has a default. `validation` is what holds `openAPIV3Schema`.
pub fn has_defaults(validation: &Value) -> bool {
    any_node(validation, &|props| props.default().is_some())
}

/// Whether any schema of a version says something that only a structural schema can mean.
pub fn has_extensions(validation: &Value) -> bool {
    any_node(validation, &|props| {
        props.flag(EMBEDDED)
            || props.flag(INT_OR_STRING)
            || [PRESERVE, LIST_TYPE].into_iter().any(|name| props.has(name))
            || [LIST_MAP_KEYS, VALIDATIONS].into_iter().any(|name| !props.list(name).is_empty())
    })
}

fn any_node(validation: &Value, wanted: &dyn Fn(Props<'_>) -> bool) -> bool {
    validation.get("openAPIV3Schema").and_then(Props::of).is_some_and(|props| props.any(wanted))
}

/// The formats that a schema names and that mean nothing, in the order in which they stand there.
pub fn unrecognized_formats(schema: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    if let Some(props) = Props::of(schema) {
        props.each(&mut |props| {
            let format = props.text("format");
            if !format.is_empty() && !crate::format::is_recognized(props.text("type"), format) {
                found.push(format);
            }
        });
    }
    found
}

/// What a structural schema cannot have at all.
fn unsupported(schema: Props<'_>) -> Option<String> {
    let mut found = None;
    schema.each(&mut |props| {
        let set = |name: &str| !props.text(name).is_empty();
        let filled = |name: &str| props.0.get(name).is_some_and(|value| !is_zero(value));
        let name = match () {
            () if set("id") => "id",
            () if set("$schema") => "schema",
            () if set("$ref") => "$ref",
            () if filled("patternProperties") => "patternProperties",
            () if filled("dependencies") => "dependencies",
            () if props.has("additionalItems") => "additionalItems",
            () if filled("definitions") => "definitions",
            () if !props.item_list().is_empty() => {
                found.get_or_insert_with(|| "OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
                return;
            }
            () if props.0.get(PRESERVE) == Some(&Value::Bool(false)) => {
                found.get_or_insert_with(|| format!("internal error: '{PRESERVE}' must be true or undefined"));
                return;
            }
            () => return,
        };
        found.get_or_insert_with(|| format!("OpenAPIV3Schema '{name}' is not supported"));
    });
    found
}

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const LIST_TYPE: &str = "x-kubernetes-list-type";
const LIST_MAP_KEYS: &str = "x-kubernetes-list-map-keys";
const MAP_TYPE: &str = "x-kubernetes-map-type";
const VALIDATIONS: &str = "x-kubernetes-validations";

/// One schema as it was written. What has the wrong JSON type counts as absent.
#[derive(Clone, Copy)]
struct Props<'a>(&'a Map<String, Value>);

impl<'a> Props<'a> {
    fn of(value: &'a Value) -> Option<Self> {
        value.as_object().map(Props)
    }

    fn text(self, name: &str) -> &'a str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn flag(self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    fn has(self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !value.is_null())
    }

    fn has_type(self, value_type: &str) -> bool {
        self.text("type") == value_type
    }

    fn properties(self) -> impl Iterator<Item = (&'a str, Props<'a>)> {
        self.schemas("properties")
    }

    fn property(self, name: &str) -> Option<Props<'a>> {
        Props::of(self.0.get("properties")?.get(name)?)
    }

    /// A map of schemas.
    fn schemas(self, name: &str) -> impl Iterator<Item = (&'a str, Props<'a>)> {
        let all = self.0.get(name).and_then(Value::as_object).into_iter().flatten();
        all.filter_map(|(name, schema)| Some((name.as_str(), Props::of(schema)?)))
    }

    /// A schema in a field of its own: `items`, `not`, `additionalProperties`.
    fn schema(self, name: &str) -> Option<Props<'a>> {
        Props::of(self.0.get(name)?)
    }

    /// `items` as a list, which no structural schema has.
    fn item_list(self) -> &'a [Value] {
        self.list("items")
    }

    fn list(self, name: &str) -> &'a [Value] {
        self.0.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    /// The schemas of `allOf` and its siblings.
    fn branches(self, name: &str) -> impl Iterator<Item = (usize, Props<'a>)> {
        self.list(name).iter().enumerate().filter_map(|(index, schema)| Some((index, Props::of(schema)?)))
    }

    fn texts(self, name: &str) -> impl Iterator<Item = &'a str> {
        self.list(name).iter().filter_map(Value::as_str)
    }

    fn default(self) -> Option<&'a Value> {
        self.0.get("default").filter(|default| !default.is_null())
    }

    fn any(self, wanted: &dyn Fn(Props<'_>) -> bool) -> bool {
        let mut found = false;
        self.each(&mut |props| found |= wanted(props));
        found
    }

    /// This schema and all below it, wherever they stand.
    fn each(self, visit: &mut dyn FnMut(Props<'a>)) {
        visit(self);
        for name in ["items", "not", "additionalProperties", "additionalItems"] {
            if let Some(schema) = self.schema(name) {
                schema.each(visit);
            }
        }
        for name in ["items", "allOf", "anyOf", "oneOf"] {
            for (_, schema) in self.branches(name) {
                schema.each(visit);
            }
        }
        for name in ["properties", "patternProperties", "definitions", "dependencies"] {
            for (_, schema) in self.schemas(name) {
                schema.each(visit);
            }
        }
    }
}

/// What a decoder would not tell from absence.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests;
