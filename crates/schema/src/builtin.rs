//! The API's own types, read once from the fact table into one arena.

use crate::node::{Field, Kind, ListType, Node, NodeId, Patch, Presence, Schema, Tags};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

const TYPES: &str = include_str!("../facts/types.tsv");
const PRESENCE: &str = include_str!("../facts/presence.tsv");

impl Schema {
    /// The schema of a built-in type by its name, such as `core.v1.Pod`.
    pub fn builtin(type_name: &str) -> Option<Schema> {
        let table = table();
        let (_, root) = table.types.get_key_value(type_name)?;
        Some(Schema { arena: Arc::clone(&table.arena), root: *root })
    }
}

/// The names of all built-in types, sorted.
pub fn type_names() -> impl Iterator<Item = &'static str> {
    table().types.keys().copied()
}

/// Whether values of this type stand alone, with apiVersion and kind of their own.
pub fn is_top_level(type_name: &str) -> bool {
    let Some(schema) = Schema::builtin(type_name) else { return false };
    matches!(&schema.root().kind, Kind::Object { fields, .. } if top_level(type_name, fields))
}

/// The nodes of all built-in types.
pub(crate) fn arena() -> &'static [Node] {
    &table().arena
}

/// The root of each built-in type.
pub(crate) fn types() -> &'static BTreeMap<&'static str, NodeId> {
    &table().types
}

struct Table {
    arena: Arc<Vec<Node>>,
    types: BTreeMap<&'static str, NodeId>,
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| Builder::default().build())
}

struct Row {
    type_name: &'static str,
    field: &'static str,
    tags: Tags,
    shape: &'static str,
    required: bool,
    merge_type: &'static str,
    patch: &'static str,
    default: &'static str,
}

fn rows() -> impl Iterator<Item = Row> {
    TYPES.lines().skip(1).filter_map(|line| {
        let mut cells = line.split('\t');
        let type_name = cells.next()?;
        let field = cells.next()?;
        let tags = tags(cells.next()?);
        let shape = cells.next()?;
        let required = cells.next()?;
        let row = Row {
            type_name,
            field,
            tags,
            shape,
            required: required == "required",
            merge_type: cells.next().unwrap_or_default(),
            patch: cells.next().unwrap_or_default(),
            default: cells.next().unwrap_or_default(),
        };
        (required != "protobuf only").then_some(row)
    })
}

#[derive(Default)]
struct Builder {
    arena: Vec<Node>,
    types: BTreeMap<&'static str, NodeId>,
    /// Nodes that say nothing of their own are shared by shape.
    plain: BTreeMap<&'static str, NodeId>,
}

impl Builder {
    fn build(mut self) -> Table {
        let mut fields: BTreeMap<&'static str, BTreeMap<Box<str>, Field>> = BTreeMap::new();
        // Types may name each other in any order, and themselves: all get their place first.
        for row in rows() {
            if !self.types.contains_key(row.type_name) {
                let id = self.push(Node {
                    type_name: Some(row.type_name),
                    ..Node::new(Kind::Object { fields: Arc::default(), additional: None })
                });
                self.types.insert(row.type_name, id);
                fields.insert(row.type_name, BTreeMap::new());
            }
        }
        let presence = presences();
        for row in rows() {
            if row.field == "*" {
                self.whole_type(&row);
                continue;
            }
            let node = self.field_node(&row);
            let presence = match presence.get(&(row.type_name, row.field)) {
                Some(presence) => *presence,
                None if matches!(row.shape, "meta.v1.ObjectMeta" | "meta.v1.ListMeta") => Presence::AlwaysObject,
                None => Presence::OmittedWhenZero,
            };
            if let Some(fields) = fields.get_mut(row.type_name) {
                fields.insert(row.field.into(), Field { node, required: row.required, presence, tags: row.tags });
            }
        }
        let text = self.shape("string");
        for (type_name, mut fields) in fields {
            if top_level(type_name, &fields) {
                for name in ["apiVersion", "kind"] {
                    // In protobuf they stand in the envelope.
                    let presence = Presence::OmittedWhenZero;
                    let field = Field { node: text, required: false, presence, tags: Tags::NONE };
                    fields.entry(name.into()).or_insert(field);
                }
            }
            let Some(id) = self.types.get(type_name) else { continue };
            let slot = &mut self.arena[id.0 as usize];
            if let Kind::Object { fields: of_type, .. } = &mut slot.kind {
                *of_type = Arc::new(fields);
            }
        }
        self.refresh_copies();
        Table { arena: Arc::new(self.arena), types: self.types }
    }

    fn push(&mut self, node: Node) -> NodeId {
        let id = NodeId(u32::try_from(self.arena.len()).unwrap_or(u32::MAX));
        self.arena.push(node);
        id
    }

    fn whole_type(&mut self, row: &Row) {
        let Some(id) = self.types.get(row.type_name) else { return };
        let node = &mut self.arena[id.0 as usize];
        node.atomic = row.merge_type == "atomic";
        let kind = match (row.type_name, row.shape) {
            ("api.resource.Quantity", _) => Kind::Quantity,
            ("meta.v1.Time", _) => Kind::Time,
            ("meta.v1.MicroTime", _) => Kind::MicroTime,
            ("util.intstr.IntOrString", _) => Kind::IntOrString,
            ("meta.v1.FieldsV1" | "runtime.RawExtension" | "meta.v1.Patch", _) | (_, "any") => Kind::Any,
            _ => return,
        };
        if matches!(kind, Kind::Any) {
            node.preserve_unknown = true;
            node.atomic = true;
        }
        node.kind = kind;
    }

    fn field_node(&mut self, row: &Row) -> NodeId {
        let plain = self.shape(row.shape);
        if row.merge_type.is_empty() && row.patch.is_empty() && row.default.is_empty() {
            return plain;
        }
        let mut node = self.arena[plain.0 as usize].clone();
        let is_list = matches!(node.kind, Kind::List { .. });
        match row.merge_type {
            "" => {}
            "set" => node.list_type = ListType::Set,
            "atomic" if is_list => node.list_type = ListType::Atomic,
            "atomic" => node.atomic = true,
            "granular" => node.atomic = false,
            other => {
                let keys = other.strip_prefix("map(").and_then(|keys| keys.strip_suffix(')')).unwrap_or_default();
                node.list_type = ListType::Map(keys.split(',').map(Box::from).collect());
            }
        }
        node.patch = patch(row.patch);
        if !row.default.is_empty() {
            node.default = serde_json::from_str::<Value>(row.default).ok();
        }
        self.push(node)
    }

    fn shape(&mut self, shape: &'static str) -> NodeId {
        if let Some(id) = self.types.get(shape).or_else(|| self.plain.get(shape)) {
            return *id;
        }
        let kind = if let Some(inner) = shape.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Kind::List { items: self.shape(inner) }
        } else if let Some(inner) = shape.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            Kind::Object { fields: Arc::default(), additional: Some(self.shape(inner)) }
        } else {
            match shape {
                "string" => Kind::String,
                "int32" => Kind::Int32,
                "int64" => Kind::Int64,
                "double" => Kind::Number,
                "bool" => Kind::Bool,
                "bytes" => Kind::Bytes,
                _ => Kind::Any,
            }
        };
        let preserve_unknown = matches!(kind, Kind::Any);
        let id = self.push(Node { preserve_unknown, ..Node::new(kind) });
        self.plain.insert(shape, id);
        id
    }

    /// A field that differs from its type copied the type's node before the type's own fields were known.
    fn refresh_copies(&mut self) {
        for index in 0..self.arena.len() {
            let Some(type_name) = self.arena[index].type_name else { continue };
            let Some(id) = self.types.get(type_name) else { continue };
            let kind = self.arena[id.0 as usize].kind.clone();
            self.arena[index].kind = kind;
        }
    }
}

fn presences() -> BTreeMap<(&'static str, &'static str), Presence> {
    let lines = PRESENCE.lines().skip(1).filter_map(|line| {
        let mut cells = line.split('\t');
        let key = (cells.next()?, cells.next()?);
        let presence = match cells.next()? {
            "always" => Presence::AlwaysObject,
            "given" => Presence::AsGiven,
            "written" => Presence::AlwaysWritten,
            "null" => Presence::NullWhenAbsent,
            _ => Presence::OmittedWhenZero,
        };
        Some((key, presence))
    });
    lines.collect()
}

/// `2.4` is field 4 of the message in field 2.
fn tags(cell: &str) -> Tags {
    let mut tags = Tags::NONE;
    for (place, tag) in tags.0.iter_mut().zip(cell.split('.')) {
        *place = tag.parse().unwrap_or_default();
    }
    tags
}

fn patch(cell: &str) -> Patch {
    let (words, key) = match cell.split_once('(') {
        Some((words, key)) => (words, key.strip_suffix(')').map(Box::from)),
        None => (cell, None),
    };
    let has = |word: &str| words.split(',').any(|part| part == word);
    Patch { merge: has("merge"), replace: has("replace"), retain_keys: has("retainKeys"), key }
}

/// Metadata marks a type that stands alone, but for the templates, which have metadata and no kind.
fn top_level(type_name: &str, fields: &BTreeMap<Box<str>, Field>) -> bool {
    const TEMPLATES: [&str; 4] =
        ["PodTemplateSpec", "JobTemplateSpec", "PersistentVolumeClaimTemplate", "ResourceClaimTemplateSpec"];
    const WITHOUT_METADATA: [&str; 5] = [
        "meta.v1.DeleteOptions",
        "meta.v1.APIGroup",
        "meta.v1.APIGroupList",
        "meta.v1.APIResourceList",
        "meta.v1.APIVersions",
    ];
    let name = type_name.rsplit('.').next().unwrap_or(type_name);
    WITHOUT_METADATA.contains(&type_name) || (fields.contains_key("metadata") && !TEMPLATES.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_has_its_fields_and_how_they_merge() {
        let pod = Schema::builtin("core.v1.Pod").expect("the table has pods");
        let containers = pod.at(&["spec", "containers"]).expect("pods have containers");
        assert_eq!(containers.root().list_type, ListType::Map(["name".into()].into()));
        assert_eq!(containers.root().patch.key.as_deref(), Some("name"));
        assert!(pod.at(&["kind"]).is_some());
        assert!(pod.at(&["spec", "nonsense"]).is_none());
        let protocol = containers.at(&["[]", "ports", "[]", "protocol"]).expect("ports have a protocol");
        assert_eq!(protocol.root().default, Some(Value::from("TCP")));
        assert!(Schema::builtin("core.v1.PodTemplateSpec").is_some_and(|spec| spec.at(&["kind"]).is_none()));
    }

    #[test]
    fn a_claim_reference_is_tracked_field_by_field_though_its_type_is_atomic() {
        let volume = Schema::builtin("core.v1.PersistentVolume").expect("the table has volumes");
        let claim = volume.at(&["spec", "claimRef"]).expect("volumes have a claim");
        assert!(!claim.root().atomic);
        assert!(claim.at(&["name"]).is_some());
    }

    #[test]
    fn every_field_of_the_table_has_a_type() {
        for node in table().arena.iter().filter(|node| matches!(node.kind, Kind::Any)) {
            assert!(node.type_name.is_some(), "a shape that names no type: {node:?}");
        }
        for name in type_names() {
            assert!(Schema::builtin(name).is_some(), "{name}");
        }
    }
}
