//! The defaults of a schema: each has the fields that its schema has, and is a value that its schema takes.

use super::{EMBEDDED, Props};
use crate::node::{NodeId, Schema};
use crate::prune::prune;
use crate::validate;
use pintle_meta::field::{Error, Errors, Path};
use serde_json::{Value, json};
use std::sync::Arc;

/// `compiled` is the same schema. Defaults in `additionalProperties` are not looked at, as nothing is.
pub(super) fn check(schema: Props<'_>, compiled: &Schema, pruned: bool, path: &Path) -> Errors {
    walk(schema, compiled, pruned, path).errors
}

fn walk<'a>(schema: Props<'_>, compiled: &'a Schema, pruned: bool, path: &Path) -> Checker<'a> {
    let mut checker = Checker { compiled, pruned, has_unknown_fields: false, errors: Errors::new() };
    checker.schema(schema, compiled.root, &mut Vec::new(), path);
    checker
}

/// Whether no default has a field that its schema does not have. What is not structural cannot be asked.
pub(super) fn are_pruned(schema: &Value) -> bool {
    let Some(props) = Props::of(schema) else { return true };
    let Ok(compiled) = Schema::from_crd(schema, false, &Path::root()) else { return true };
    !props.any(&|props| props.default().is_some())
        || !super::is_structural(schema)
        || !walk(props, &compiled, true, &Path::root()).has_unknown_fields
}

struct Checker<'a> {
    compiled: &'a Schema,
    pruned: bool,
    /// Has any default a field that its schema does not have?
    has_unknown_fields: bool,
    errors: Errors,
}

/// The way from a resource to a field of its apiVersion, kind or metadata; empty elsewhere.
type Inside = Vec<Option<String>>;

impl Checker<'_> {
    fn schema(&mut self, schema: Props<'_>, id: NodeId, inside: &mut Inside, path: &Path) {
        let is_resource = id == self.compiled.root || schema.flag(EMBEDDED);
        if let Some(default) = schema.default() {
            self.default(default, id, if is_resource { &[] } else { inside }, &path.child("default"));
        }
        let known = self.compiled.items(id);
        if let Some((items, id)) = schema.schema("items").zip(known) {
            self.step(inside, None, |checker, inside| checker.schema(items, id, inside, &path.child("items")));
        }
        for (name, property) in schema.properties() {
            let Some(id) = self.compiled.field(id, name).map(|field| field.node) else { continue };
            let here = path.child("properties").key(name);
            if is_resource {
                let of_resource = matches!(name, "metadata" | "kind" | "apiVersion");
                let mut inside = if of_resource { vec![Some(name.to_owned())] } else { Vec::new() };
                self.schema(property, id, &mut inside, &here);
            } else {
                self.step(inside, Some(name), |checker, inside| checker.schema(property, id, inside, &here));
            }
        }
    }

    /// One step further inside of a resource's own fields; outside of them there is no way to keep.
    fn step(&mut self, inside: &mut Inside, name: Option<&str>, visit: impl FnOnce(&mut Self, &mut Inside)) {
        let within = !inside.is_empty();
        if within {
            inside.push(name.map(str::to_owned));
        }
        visit(self, inside);
        if within {
            inside.pop();
        }
    }

    fn default(&mut self, default: &Value, id: NodeId, inside: &[Option<String>], path: &Path) {
        let schema = Schema { arena: Arc::clone(&self.compiled.arena), root: id };
        if inside.is_empty() {
            let mut kept = default.clone();
            if self.pruned && !prune(&schema, &mut kept).is_empty() {
                self.has_unknown_fields = true;
                self.errors.push(Error::invalid(path, default.clone(), "must not have unknown fields"));
            }
            let embedded = validate::check_below(&schema, path, default);
            if !embedded.is_empty() {
                self.errors.extend(embedded);
                return;
            }
        } else {
            let problems = in_resource(default, inside);
            if !problems.is_empty() {
                let detail = format!("must result in valid metadata: {}", aggregate(&problems));
                self.errors.push(Error::invalid(path, default.clone(), detail));
                return;
            }
        }
        self.errors.extend(validate::values(&schema, path, default, None));
    }
}

/// What is wrong with a resource that has nothing but this default.
fn in_resource(default: &Value, inside: &[Option<String>]) -> Errors {
    let value = inside.iter().skip(1).rev().fold(default.clone(), |below, step| match step {
        Some(name) => json!({name: below}),
        None => json!([below]),
    });
    let mut resource = json!({"apiVersion": "validation/v1", "kind": "Validation"});
    let mut errors = Errors::new();
    if let (Value::Object(map), Some(Some(name))) = (&mut resource, inside.first()) {
        map.insert(name.clone(), value);
        validate::check_resource(map, &Path::root(), &mut errors);
    }
    errors
}

fn aggregate(errors: &Errors) -> String {
    let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
    if let [only] = all.as_slice() { only.clone() } else { format!("[{}]", all.join(", ")) }
}
