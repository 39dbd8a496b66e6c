//! What changed between two objects of one type.

use super::{Atom, atom, equal, item_element, items_of};
use crate::diff::{Diff, Node};
use crate::element::Element;
use crate::fieldset::FieldSet;
use crate::node::{NodeId, Schema};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// No path stands in two of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    pub added: FieldSet,
    pub modified: FieldSet,
    pub removed: FieldSet,
}

impl Comparison {
    pub fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Without the fields under these paths.
    #[must_use]
    pub fn without(self, paths: &FieldSet) -> Comparison {
        if paths.is_empty() {
            return self;
        }
        Comparison {
            added: self.added.recursive_difference(paths),
            modified: self.modified.recursive_difference(paths),
            removed: self.removed.recursive_difference(paths),
        }
    }
}

pub fn compare(schema: &Schema, before: &Value, after: &Value) -> Comparison {
    compare_within(schema, before, after, None)
}

/// The same; where it is known which members differ, only these are looked at.
pub fn compare_within(schema: &Schema, before: &Value, after: &Value, diff: Option<&Diff>) -> Comparison {
    let mut walk = Walk { schema, path: Vec::new(), comparison: Comparison::default() };
    let within = match diff.map(Diff::root) {
        Some(None) => return walk.comparison,
        Some(Some(node)) => Some(node),
        None => None,
    };
    walk.compare(Some(schema.root_id()), Some(before), Some(after), within);
    walk.comparison
}

struct Walk<'a> {
    schema: &'a Schema,
    path: Vec<Element>,
    comparison: Comparison,
}

impl Walk<'_> {
    fn compare(&mut self, id: Option<NodeId>, before: Option<&Value>, after: Option<&Value>, within: Option<&Node>) {
        let atoms = id.map_or((Atom::Leaf, Atom::Leaf), |id| {
            let node = self.schema.node(id);
            (atom(node, before), atom(node, after))
        });
        let was_leaf = match (id, atoms) {
            (Some(id), (left, _)) if after.is_none() => self.as_atom(id, left, before, after, within),
            (Some(id), (left, right)) if before.is_none() || left == right => {
                self.as_atom(id, right, before, after, within)
            }
            (Some(id), (left, right)) => {
                // The value changed its shape: what it was is gone and what it is now is new.
                self.as_atom(id, left, before, after, within);
                self.as_atom(id, right, before, after, within)
            }
            (None, _) => self.leaf(before, after),
        };
        if !was_leaf {
            match (before, after) {
                (None, Some(_)) => self.comparison.added.insert(&self.path),
                (Some(_), None) => self.comparison.removed.insert(&self.path),
                _ => {}
            }
        }
    }

    fn as_atom(
        &mut self,
        id: NodeId,
        atom: Atom,
        before: Option<&Value>,
        after: Option<&Value>,
        within: Option<&Node>,
    ) -> bool {
        match atom {
            Atom::Leaf => self.leaf(before, after),
            Atom::List => {
                let (before_list, after_list) = (items_of(before), items_of(after));
                // An empty list is a leaf, so that empty and null differ.
                if before_list.is_empty() && after_list.is_empty() {
                    return self.leaf(before, after);
                }
                self.lists(id, before_list, after_list);
                false
            }
            Atom::Map => {
                let empty = Map::new();
                let before_map = before.and_then(Value::as_object).unwrap_or(&empty);
                let after_map = after.and_then(Value::as_object).unwrap_or(&empty);
                if before_map.is_empty() && after_map.is_empty() {
                    return self.leaf(before, after);
                }
                if let Some(Node::Members(members)) = within {
                    for (name, node) in members {
                        self.field(id, name, before_map.get(&**name), after_map.get(&**name), Some(node));
                    }
                    return false;
                }
                for (name, before) in before_map {
                    self.field(id, name, Some(before), after_map.get(name), None);
                }
                for (name, after) in after_map.iter().filter(|(name, _)| !before_map.contains_key(*name)) {
                    self.field(id, name, None, Some(after), None);
                }
                false
            }
        }
    }

    fn field(&mut self, id: NodeId, name: &str, before: Option<&Value>, after: Option<&Value>, within: Option<&Node>) {
        // Most fields of an object that is written again are as they were; what holds others is walked.
        let is_plain = !matches!(before, Some(Value::Object(_) | Value::Array(_)));
        if is_plain && before == after {
            return;
        }
        self.path.push(Element::field(name));
        self.compare(self.schema.child(id, name), before, after, within);
        self.path.pop();
    }

    fn leaf(&mut self, before: Option<&Value>, after: Option<&Value>) -> bool {
        match (before, after) {
            (None, _) => self.comparison.added.insert(&self.path),
            (_, None) => self.comparison.removed.insert(&self.path),
            (Some(before), Some(after)) if !equal(before, after) => self.comparison.modified.insert(&self.path),
            _ => {}
        }
        true
    }

    fn lists(&mut self, id: NodeId, before: &[Value], after: &[Value]) {
        let before = self.by_element(id, before);
        let after = self.by_element(id, after);
        let items = self.schema.items(id);
        let elements: BTreeSet<&Element> = before.keys().chain(after.keys()).collect();
        for element in elements {
            let none = Vec::new();
            let old = before.get(element).unwrap_or(&none);
            let new = after.get(element).unwrap_or(&none);
            self.path.push(element.clone());
            match (old.as_slice(), new.as_slice()) {
                ([] | [_], [] | [_]) => self.compare(items, old.first().copied(), new.first().copied(), None),
                // Items that share a key have one owner as a whole.
                ([_, _, ..], [_, _, ..]) => {
                    let same = old.len() == new.len() && old.iter().zip(new).all(|(old, new)| equal(old, new));
                    if !same {
                        self.comparison.modified.insert(&self.path);
                    }
                }
                ([_, _, ..], new) => {
                    if let Some(new) = new.first() {
                        self.compare(items, None, Some(new), None);
                    }
                    self.comparison.removed.insert(&self.path);
                }
                (old, [_, _, ..]) => {
                    if let Some(old) = old.first() {
                        self.compare(items, Some(old), None, None);
                    }
                    self.comparison.added.insert(&self.path);
                }
            }
            self.path.pop();
        }
    }

    fn by_element<'v>(&self, id: NodeId, list: &'v [Value]) -> BTreeMap<Element, Vec<&'v Value>> {
        let mut items: BTreeMap<Element, Vec<&Value>> = BTreeMap::new();
        for item in list {
            if let Ok(element) = item_element(self.schema, id, item) {
                items.entry(element).or_default().push(item);
            }
        }
        items
    }
}
