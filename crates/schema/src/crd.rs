//! Compiles the OpenAPI schema of a CustomResourceDefinition. Whether it may be defined so is asked in [`crate::structural`].

mod rules;

use crate::node::{Field, Kind, ListType, Node, NodeId, Presence, Schema, Tags};
use pintle_meta::field::{Error, Errors, Path};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Schema {
    /// Compiles `openAPIV3Schema` of one version. It refuses what no server should carry: patterns that cannot be read, schemas
    /// without end, defaults out of proportion. What is merely forbidden is compiled as well as may be, because a definition
    /// that was stored before it was forbidden is served on. Errors stand under `base`.
    ///
    /// Where `preserve_unknown_fields` is set on the definition, nothing is pruned. apiVersion, kind and metadata are
    /// always there, whether the schema declares them or not.
    pub fn from_crd(open_api_v3_schema: &Value, preserve_unknown_fields: bool, base: &Path) -> Result<Schema, Errors> {
        let mut compiler = Compiler { arena: Vec::new(), errors: Vec::new() };
        let root = compiler.structural(open_api_v3_schema, base, 0);
        compiler.add_resource_fields(root, true);
        if preserve_unknown_fields {
            let kind = compiler.arena[root.0 as usize].kind.clone();
            let kind = compiler.keeping_unknown(kind);
            let root = &mut compiler.arena[root.0 as usize];
            (root.kind, root.preserve_unknown) = (kind, true);
        }
        if compiler.errors.is_empty() {
            Ok(Schema { arena: Arc::new(compiler.arena), root })
        } else {
            Err(compiler.errors)
        }
    }
}

/// A larger default is refused: every object that leaves the field out gets a copy of it.
const MAX_DEFAULT_BYTES: usize = 64 * 1024;

/// Deeper schemas are refused: their depth bounds every walk.
const DEEPEST: usize = 200;

/// How that is told.
pub(crate) const TOO_DEEP: &str = "is nested too deeply";

struct Compiler {
    arena: Vec<Node>,
    errors: Errors,
}

impl Compiler {
    fn push(&mut self, node: Node) -> NodeId {
        let id = NodeId(u32::try_from(self.arena.len()).unwrap_or(u32::MAX));
        self.arena.push(node);
        id
    }

    fn structural(&mut self, schema: &Value, path: &Path, depth: usize) -> NodeId {
        if depth > DEEPEST || !schema.is_object() {
            let detail = if schema.is_object() { TOO_DEEP } else { "must be an object" };
            self.errors.push(Error::invalid(path, Value::Null, detail));
            return self.push(Node::new(Kind::Any));
        }
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or(false);
        let int_or_string = flag("x-kubernetes-int-or-string");
        let preserve_unknown = flag("x-kubernetes-preserve-unknown-fields");
        let declared = schema.get("type").and_then(Value::as_str).unwrap_or_default();
        let default = self.default(schema, path);
        let kind = match declared {
            _ if int_or_string => Kind::IntOrString,
            "object" => self.object(schema, path, depth),
            "array" => self.list(schema, path, depth),
            "string" => Kind::String,
            "integer" => Kind::Integer,
            "number" => Kind::Number,
            "boolean" => Kind::Bool,
            _ if schema.get("properties").is_some() => self.object(schema, path, depth),
            _ => Kind::Any,
        };
        let kind = if preserve_unknown { self.keeping_unknown(kind) } else { kind };
        let node = Node {
            list_type: list_type(schema),
            atomic: schema.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic"),
            nullable: flag("nullable"),
            default,
            preserve_unknown,
            embedded_resource: flag("x-kubernetes-embedded-resource"),
            rules: self.rules(schema, path, depth),
            validations: schema.get("x-kubernetes-validations").cloned(),
            ..Node::new(kind)
        };
        let embedded = node.embedded_resource;
        let id = self.push(node);
        if embedded {
            self.add_resource_fields(id, false);
        }
        id
    }

    fn default(&mut self, schema: &Value, path: &Path) -> Option<Value> {
        let default = schema.get("default").filter(|default| !default.is_null())?;
        if default.to_string().len() > MAX_DEFAULT_BYTES {
            self.errors.push(Error::too_long(&path.child("default"), MAX_DEFAULT_BYTES));
            return None;
        }
        Some(default.clone())
    }

    /// What an object keeps without knowing it is tracked field by field.
    fn keeping_unknown(&mut self, kind: Kind) -> Kind {
        match kind {
            Kind::Object { fields, additional: None } => {
                let unknown = self.push(Node { preserve_unknown: true, ..Node::new(Kind::Any) });
                Kind::Object { fields, additional: Some(unknown) }
            }
            other => other,
        }
    }

    fn object(&mut self, schema: &Value, path: &Path, depth: usize) -> Kind {
        let mut fields = BTreeMap::new();
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let node = self.structural(property, &path.child("properties").key(name), depth + 1);
            fields.insert(
                name.as_str().into(),
                Field { node, required: false, presence: Presence::AsGiven, tags: Tags::NONE },
            );
        }
        let additional = match schema.get("additionalProperties") {
            Some(Value::Bool(_)) => Some(self.push(Node::new(Kind::Any))),
            Some(item @ Value::Object(_)) => {
                Some(self.structural(item, &path.child("additionalProperties"), depth + 1))
            }
            _ => None,
        };
        Kind::Object { fields: Arc::new(fields), additional }
    }

    fn list(&mut self, schema: &Value, path: &Path, depth: usize) -> Kind {
        let items = match schema.get("items") {
            Some(items @ Value::Object(_)) => self.structural(items, &path.child("items"), depth + 1),
            _ => self.push(Node::new(Kind::Any)),
        };
        Kind::List { items }
    }

    /// Gives an object what every resource has: apiVersion, kind and metadata of the API's own type.
    fn add_resource_fields(&mut self, id: NodeId, is_root: bool) {
        let text = self.push(Node::new(Kind::String));
        let Kind::Object { fields, additional } = &self.arena[id.0 as usize].kind else { return };
        let (mut fields, additional) = (BTreeMap::clone(fields), *additional);
        for name in ["apiVersion", "kind"] {
            let field = Field { node: text, required: !is_root, presence: Presence::AsGiven, tags: Tags::NONE };
            fields.entry(name.into()).or_insert(field);
        }
        let declared = fields.get("metadata").map(|field| field.node);
        if let Some(metadata) = self.import_metadata(declared) {
            let field = Field { node: metadata, required: false, presence: Presence::AsGiven, tags: Tags::NONE };
            fields.insert("metadata".into(), field);
        }
        self.arena[id.0 as usize].kind = Kind::Object { fields: Arc::new(fields), additional };
    }

    /// Copies the API's ObjectMeta into this arena, with the rules that the definition declares for names.
    fn import_metadata(&mut self, declared: Option<NodeId>) -> Option<NodeId> {
        let source = Schema::builtin("meta.v1.ObjectMeta")?;
        let id = self.import(&source, source.root, 0);
        let Kind::Object { fields, .. } = self.arena[id.0 as usize].kind.clone() else { return Some(id) };
        let declared = declared.and_then(|declared| match &self.arena[declared.0 as usize].kind {
            Kind::Object { fields, .. } => Some(Arc::clone(fields)),
            _ => None,
        });
        let mut fields = BTreeMap::clone(&fields);
        for (name, field) in declared.iter().flat_map(|fields| fields.iter()) {
            if matches!(&**name, "name" | "generateName") {
                fields.insert(name.clone(), field.clone());
            }
        }
        self.arena[id.0 as usize].kind = Kind::Object { fields: Arc::new(fields), additional: None };
        Some(id)
    }

    fn import(&mut self, source: &Schema, id: NodeId, depth: usize) -> NodeId {
        let mut node = source.node(id).clone();
        // ObjectMeta is not recursive; the bound only guards the table.
        if depth > 16 {
            return self.push(Node { preserve_unknown: true, ..Node::new(Kind::Any) });
        }
        match &mut node.kind {
            Kind::Object { fields, additional } => {
                let copied = fields.iter().map(|(name, field)| {
                    let node = self.import(source, field.node, depth + 1);
                    (name.clone(), Field { node, ..field.clone() })
                });
                *fields = Arc::new(copied.collect());
                *additional = additional.map(|item| self.import(source, item, depth + 1));
            }
            Kind::List { items } => *items = self.import(source, *items, depth + 1),
            _ => {}
        }
        self.push(node)
    }
}

fn list_type(schema: &Value) -> ListType {
    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        None => ListType::Unspecified,
        Some("set") => ListType::Set,
        Some("map") => {
            let keys: Arc<[Box<str>]> = keys.into_iter().flatten().filter_map(Value::as_str).map(Box::from).collect();
            if keys.is_empty() { ListType::Atomic } else { ListType::Map(keys) }
        }
        Some(_) => ListType::Atomic,
    }
}

#[cfg(test)]
mod tests;
