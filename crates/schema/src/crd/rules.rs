//! The value rules of a custom type: what stands next to its shape, and what may stand in `not` and `anyOf`.

use super::{Compiler, DEEPEST, TOO_DEEP};
use crate::format::is_recognized;
use crate::node::{Field, Kind, Node, NodeId, Presence, Rules, Tags};
use pintle_meta::field::{Error, Path};
use regex::RegexBuilder;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A pattern that compiles to more than this is refused: a definition must not cost the server its memory.
const LARGEST_PATTERN: usize = 1 << 20;

impl Compiler {
    /// The rules next to a shape.
    pub(super) fn rules(&mut self, schema: &Value, path: &Path, depth: usize) -> Option<Box<Rules>> {
        let number = |name: &str| schema.get(name).and_then(Value::as_f64);
        let count = |name: &str| schema.get(name).and_then(Value::as_u64);
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or(false);
        let text = |name: &str| schema.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(Box::from);
        let required = schema.get("required").and_then(Value::as_array);
        let rules = Rules {
            value_type: text("type").filter(|_| !flag("x-kubernetes-int-or-string")),
            enumeration: schema.get("enum").and_then(Value::as_array).cloned(),
            pattern: self.pattern(schema, path),
            format: format(schema),
            minimum: number("minimum"),
            exclusive_minimum: flag("exclusiveMinimum"),
            maximum: number("maximum"),
            exclusive_maximum: flag("exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            unique_items: flag("uniqueItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            closed: schema.get("additionalProperties") == Some(&Value::Bool(false)),
            required: required.into_iter().flatten().filter_map(Value::as_str).map(Box::from).collect(),
            not: schema.get("not").map(|not| self.value_only(not, &path.child("not"), depth + 1)),
            all_of: self.each(schema, "allOf", path, depth),
            any_of: self.each(schema, "anyOf", path, depth),
            one_of: self.each(schema, "oneOf", path, depth),
        };
        Some(Box::new(rules))
    }

    fn each(&mut self, schema: &Value, name: &str, path: &Path, depth: usize) -> Vec<NodeId> {
        let branches = schema.get(name).and_then(Value::as_array).into_iter().flatten().enumerate();
        branches.map(|(index, branch)| self.value_only(branch, &path.child(name).index(index), depth + 1)).collect()
    }

    /// A schema inside a logical junctor: rules without a shape of its own.
    fn value_only(&mut self, schema: &Value, path: &Path, depth: usize) -> NodeId {
        if depth > DEEPEST {
            self.errors.push(Error::invalid(path, Value::Null, TOO_DEEP));
            return self.push(Node::new(Kind::Any));
        }
        let mut fields = BTreeMap::new();
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let node = self.value_only(property, &path.child("properties").key(name), depth + 1);
            fields.insert(
                name.as_str().into(),
                Field { node, required: false, presence: Presence::AsGiven, tags: Tags::NONE },
            );
        }
        let kind = match schema.get("items") {
            Some(items @ Value::Object(_)) => {
                Kind::List { items: self.value_only(items, &path.child("items"), depth + 1) }
            }
            _ if fields.is_empty() => Kind::Any,
            _ => Kind::Object { fields: Arc::new(fields), additional: None },
        };
        let rules = self.rules(schema, path, depth);
        self.push(Node { rules, preserve_unknown: true, ..Node::new(kind) })
    }

    fn pattern(&mut self, schema: &Value, path: &Path) -> Option<(Box<str>, regex::Regex)> {
        let pattern = schema.get("pattern").and_then(Value::as_str).filter(|pattern| !pattern.is_empty())?;
        match RegexBuilder::new(pattern).size_limit(LARGEST_PATTERN).build() {
            Ok(regex) => Some((pattern.into(), regex)),
            Err(error) => {
                let detail = format!("must be a valid regular expression, but isn't: {error}");
                self.errors.push(Error::invalid(&path.child("pattern"), pattern, detail));
                None
            }
        }
    }
}

/// The format, if it means something for the type. A value that may be an integer or a string has none.
fn format(schema: &Value) -> Option<Box<str>> {
    let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
    let int_or_string = schema.get("x-kubernetes-int-or-string").and_then(Value::as_bool).unwrap_or(false);
    let value_type = if int_or_string { "" } else { text("type") };
    is_recognized(value_type, text("format")).then(|| text("format").into())
}
