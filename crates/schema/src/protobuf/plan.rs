//! What the codec looks things up in: each built-in type's fields by name and by tag, compiled once from the schema.
//!
//! A worked example: `core.v1.Volume` has `name` (tag 1) and, of the embedded VolumeSource (tag 2), `emptyDir` (`2.2`
//! in the fact table). Its message has two groups: the message itself, and the one in its field 2. `emptyDir` is a
//! field of the JSON object, and field 2 of the second group.

use super::encode;
use super::special::Special;
use crate::builtin;
use crate::node::{Kind, Node, NodeId, Presence, Tags};
use std::collections::HashMap;
use std::sync::OnceLock;

/// Whether values of this type can be written as protobuf.
pub fn has_message(type_name: &str) -> bool {
    plan().by_name.contains_key(type_name)
}

/// The place of a type among the plan's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageId(u32);

/// All built-in types.
pub(super) struct Plan {
    messages: Vec<Message>,
    by_name: HashMap<&'static str, MessageId>,
}

impl Plan {
    pub fn of_type(&self, type_name: &str) -> Option<&Message> {
        self.by_name.get(type_name).map(|id| self.message(*id))
    }

    pub fn message(&self, id: MessageId) -> &Message {
        &self.messages[id.0 as usize]
    }
}

/// A type's fields.
#[derive(Debug, Default)]
pub(super) struct Message {
    /// By name, sorted.
    pub fields: Vec<Slot>,
    /// The message itself, then the messages whose fields stand in its JSON object. A group stands after its parent.
    pub groups: Vec<Group>,
}

impl Message {
    /// The field of this name. Stored JSON is mostly sorted too: the field is often the one at `guess`.
    pub fn find(&self, name: &str, guess: usize) -> Option<usize> {
        match self.fields.get(guess) {
            Some(slot) if slot.name == name => Some(guess),
            _ => self.fields.binary_search_by(|slot| slot.name.cmp(name)).ok(),
        }
    }
}

/// A field of the JSON object.
#[derive(Debug)]
pub(super) struct Slot {
    pub name: &'static str,
    pub tag: u32,
    /// Which of the groups has the tag.
    pub group: usize,
    pub shape: Shape,
    pub presence: Presence,
    /// What is written if the object does not have the field; nothing for pointers, lists and maps.
    pub zero: Vec<u8>,
}

/// A message by its tags.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub parent: usize,
    pub tag: u32,
    /// Sorted by tag.
    by_tag: Vec<(u32, Target)>,
}

impl Group {
    pub fn find(&self, tag: u32) -> Option<Target> {
        self.by_tag.binary_search_by_key(&tag, |(tag, _)| *tag).ok().map(|index| self.by_tag[index].1)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    Field(usize),
    Group(usize),
}

/// How a value travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    String,
    Int32,
    Int64,
    Double,
    Bool,
    Bytes,
    Message(MessageId),
    Special(Special),
    List(Box<Shape>),
    Map(Box<Shape>),
}

pub(super) fn plan() -> &'static Plan {
    static PLAN: OnceLock<Plan> = OnceLock::new();
    PLAN.get_or_init(build)
}

fn build() -> Plan {
    let ids: HashMap<&'static str, MessageId> = builtin::types().keys().copied().zip((0..).map(MessageId)).collect();
    let messages = builtin::types().values().map(|root| message(*root, &ids)).collect();
    let mut plan = Plan { messages, by_name: ids };
    let all: Vec<MessageId> = plan.by_name.values().copied().collect();
    let mut filled = vec![false; plan.messages.len()];
    for id in all {
        fill_zeros(&mut plan, id, &mut filled);
    }
    // Types without any tag, such as the server's version, are JSON only.
    plan.by_name.retain(|name, _| builtin::types().get(name).is_some_and(|root| travels(node(*root))));
    plan
}

fn node(id: NodeId) -> &'static Node {
    &builtin::arena()[id.0 as usize]
}

fn travels(root: &Node) -> bool {
    match &root.kind {
        Kind::Object { fields, .. } => fields.is_empty() || fields.values().any(|field| field.tags != Tags::NONE),
        _ => false,
    }
}

fn message(root: NodeId, ids: &HashMap<&'static str, MessageId>) -> Message {
    let mut message = Message { fields: Vec::new(), groups: vec![Group::default()] };
    let Kind::Object { fields, .. } = &node(root).kind else { return message };
    for (name, field) in fields.iter() {
        let Some((tag, outer)) = field.tags.path().split_last() else { continue };
        let group = outer.iter().fold(0, |parent, tag| message.group(parent, u32::from(*tag)));
        let (index, tag) = (message.fields.len(), u32::from(*tag));
        let Some(shape) = shape(node(field.node), ids) else { continue };
        message.fields.push(Slot { name, tag, group, shape, presence: field.presence, zero: Vec::new() });
        message.groups[group].add(tag, Target::Field(index));
    }
    message
}

impl Message {
    /// The group in this field of another; it is added if it is new.
    fn group(&mut self, parent: usize, tag: u32) -> usize {
        if let Some(Target::Group(group)) = self.groups[parent].find(tag) {
            return group;
        }
        let group = self.groups.len();
        self.groups.push(Group { parent, tag, by_tag: Vec::new() });
        self.groups[parent].add(tag, Target::Group(group));
        group
    }
}

impl Group {
    fn add(&mut self, tag: u32, target: Target) {
        let place = self.by_tag.partition_point(|(other, _)| *other < tag);
        self.by_tag.insert(place, (tag, target));
    }
}

fn shape(node: &'static Node, ids: &HashMap<&'static str, MessageId>) -> Option<Shape> {
    Some(match &node.kind {
        Kind::Object { additional: Some(item), .. } => Shape::Map(Box::new(shape(self::node(*item), ids)?)),
        Kind::Object { additional: None, .. } => Shape::Message(*ids.get(node.type_name?)?),
        Kind::List { items } => Shape::List(Box::new(shape(self::node(*items), ids)?)),
        Kind::String => Shape::String,
        Kind::Int32 => Shape::Int32,
        Kind::Int64 => Shape::Int64,
        Kind::Number => Shape::Double,
        Kind::Bool => Shape::Bool,
        Kind::Bytes => Shape::Bytes,
        kind => Shape::Special(Special::of(kind, node.type_name?, |name| ids.get(name).copied())?),
    })
}

/// Notes what is written for fields that an object does not have, first of the structs inside. No type holds itself
/// by value.
fn fill_zeros(plan: &mut Plan, id: MessageId, filled: &mut [bool]) {
    if std::mem::replace(&mut filled[id.0 as usize], true) {
        return;
    }
    for index in 0..plan.message(id).fields.len() {
        let slot = &plan.message(id).fields[index];
        let tag = slot.tag;
        let is_pointer = matches!(slot.presence, Presence::AsGiven | Presence::NullWhenAbsent);
        let zero = match slot.shape {
            _ if is_pointer => Vec::new(),
            Shape::Message(inner) if slot.presence == Presence::AlwaysObject => {
                fill_zeros(plan, inner, filled);
                encode::zero(plan, &Shape::Message(inner), tag)
            }
            Shape::Message(_) | Shape::List(_) | Shape::Map(_) | Shape::Bytes => Vec::new(),
            _ => encode::zero(plan, &slot.shape, tag),
        };
        plan.messages[id.0 as usize].fields[index].zero = zero;
    }
}
