//! What a schema says: an arena of nodes, each with its shape, how it merges and which values it takes.
//!
//! A worked example: `spec.ports` of a Service is a `List` node with `list_type: Map([port, protocol])` and
//! `patch: merge on port`; its items are the `Object` node of ServicePort, whose `protocol` field is a `String` node
//! with the default `"TCP"`.

use regex::Regex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A schema of one type. Cloning shares the arena.
#[derive(Clone, Debug)]
pub struct Schema {
    pub(crate) arena: Arc<Vec<Node>>,
    pub(crate) root: NodeId,
}

/// The place of a node in its arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u32);

impl Schema {
    /// Whether any field has a default.
    pub fn has_defaults(&self) -> bool {
        self.arena.iter().any(|node| node.default.is_some())
    }

    /// A schema that keeps everything: granular maps, atomic lists, as an object of an unknown type is tracked.
    pub fn untyped() -> Schema {
        let node = Node { preserve_unknown: true, ..Node::new(Kind::Any) };
        Schema { arena: Arc::new(vec![node]), root: NodeId(0) }
    }

    pub fn root(&self) -> &Node {
        self.node(self.root)
    }

    pub fn root_id(&self) -> NodeId {
        self.root
    }

    /// The node with this id. An id from another arena gives the root: wrong, but never a panic.
    pub fn node(&self, id: NodeId) -> &Node {
        self.arena.get(id.0 as usize).unwrap_or_else(|| &self.arena[self.root.0 as usize])
    }

    /// The schema of the value at this path of field names, through lists and maps (`[]` is any item).
    pub fn at(&self, path: &[&str]) -> Option<Schema> {
        let mut id = self.root;
        for name in path {
            id = if *name == "[]" { self.items(id)? } else { self.child(id, name)? };
        }
        Some(Schema { arena: Arc::clone(&self.arena), root: id })
    }

    /// The schema of a declared field.
    pub fn declared(&self, name: &str) -> Option<Schema> {
        self.field(self.root, name).map(|field| Schema { arena: Arc::clone(&self.arena), root: field.node })
    }

    /// The node under a key of an object: its declared field, or what other keys take.
    pub fn child(&self, id: NodeId, name: &str) -> Option<NodeId> {
        match &self.node(id).kind {
            Kind::Object { fields, additional } => fields.get(name).map(|field| field.node).or(*additional),
            Kind::Any => Some(id),
            _ => None,
        }
    }

    pub fn items(&self, id: NodeId) -> Option<NodeId> {
        match &self.node(id).kind {
            Kind::List { items } => Some(*items),
            Kind::Any => Some(id),
            _ => None,
        }
    }

    pub fn field(&self, id: NodeId, name: &str) -> Option<&Field> {
        match &self.node(id).kind {
            Kind::Object { fields, .. } => fields.get(name),
            _ => None,
        }
    }
}

/// One place in a type.
#[derive(Clone, Debug)]
pub struct Node {
    pub kind: Kind,
    /// The API's name of the type, for built-in structs: `core.v1.PodSpec`.
    pub type_name: Option<&'static str>,
    pub list_type: ListType,
    /// A map or struct that has one owner as a whole.
    pub atomic: bool,
    pub patch: Patch,
    pub nullable: bool,
    pub default: Option<Value>,
    pub preserve_unknown: bool,
    pub embedded_resource: bool,
    pub rules: Option<Box<Rules>>,
    /// `x-kubernetes-validations` as written.
    pub validations: Option<Value>,
}

impl Node {
    pub fn new(kind: Kind) -> Node {
        Node {
            kind,
            type_name: None,
            list_type: ListType::Unspecified,
            atomic: false,
            patch: Patch::default(),
            nullable: false,
            default: None,
            preserve_unknown: false,
            embedded_resource: false,
            rules: None,
            validations: None,
        }
    }
}

#[derive(Clone, Debug)]
pub enum Kind {
    Object {
        fields: Arc<BTreeMap<Box<str>, Field>>,
        additional: Option<NodeId>,
    },
    List {
        items: NodeId,
    },
    String,
    Int32,
    Int64,
    /// An integer of a custom type, of any size that JSON carries.
    Integer,
    Number,
    Bool,
    Bytes,
    IntOrString,
    Quantity,
    Time,
    MicroTime,
    Duration,
    Any,
}

/// A declared field of an object.
#[derive(Clone, Debug)]
pub struct Field {
    pub node: NodeId,
    pub required: bool,
    /// How the API writes the field when nothing was said.
    pub presence: Presence,
    /// Where the field travels in protobuf.
    pub tags: Tags,
}

/// The number of a field in its protobuf message; with more than one, field 4 of the message in field 2 is `[2, 4, 0]`.
/// Custom types have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tags(pub(crate) [u16; 3]);

impl Tags {
    pub const NONE: Tags = Tags([0; 3]);

    /// The numbers on the way to the field, outermost first.
    pub(crate) fn path(&self) -> &[u16] {
        let length = self.0.iter().take_while(|tag| **tag != 0).count();
        &self.0[..length]
    }
}

/// How a field behaves at its zero value, which is a fact of each field and not of its shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// Left out when zero: `""`, `0`, `false`, an empty list.
    #[default]
    OmittedWhenZero,
    /// Kept as given, zero or not, and left out when not given.
    AsGiven,
    /// Written even when nothing was given, as its zero value; a list or map as `null`.
    AlwaysWritten,
    /// Written even when nothing was given, as `null`: a pointer.
    NullWhenAbsent,
    /// A struct that always stands there, if only as `{}`.
    AlwaysObject,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListType {
    /// Nothing is declared; the list has one owner as a whole.
    Unspecified,
    Atomic,
    Set,
    Map(Arc<[Box<str>]>),
}

impl ListType {
    /// Whether the list has one owner as a whole.
    pub fn is_atomic(&self) -> bool {
        matches!(self, ListType::Unspecified | ListType::Atomic)
    }
}

/// How a strategic merge patch treats the field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    pub merge: bool,
    pub replace: bool,
    pub retain_keys: bool,
    pub key: Option<Box<str>>,
}

/// What values a custom type takes, beyond their shape.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The JSON type that was declared; none means any.
    pub value_type: Option<Box<str>>,
    pub enumeration: Option<Vec<Value>>,
    pub pattern: Option<(Box<str>, Regex)>,
    /// Only a format that means something for the type.
    pub format: Option<Box<str>>,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<f64>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub unique_items: bool,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
    /// `additionalProperties: false`: no key but the declared ones.
    pub closed: bool,
    pub required: Vec<Box<str>>,
    pub not: Option<NodeId>,
    pub all_of: Vec<NodeId>,
    pub any_of: Vec<NodeId>,
    pub one_of: Vec<NodeId>,
}
