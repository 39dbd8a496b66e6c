//! Where two objects differ: made once a write, and used by everything that asks what changed.
//!
//! Lists count as a whole; what they hold is compared by those who know their keys. `null` and absence differ.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The parts that differ, as a tree of members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff(Option<Node>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// All of it: a plain value, a list, or a value on one side only.
    Whole,
    /// These members of an object.
    Members(BTreeMap<Box<str>, Node>),
}

impl Diff {
    pub fn of(old: &Value, new: &Value) -> Self {
        Diff(node(old, new))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub fn root(&self) -> Option<&Node> {
        self.0.as_ref()
    }

    /// What differs at a path, if anything.
    pub fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self.0.as_ref()?, |node, name| node.member(name))
    }

    /// The members of the object itself that differ.
    pub fn members(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.0.iter().flat_map(Node::members)
    }

    /// Leaves out the part at a path.
    pub fn forget(&mut self, path: &[&str]) {
        if self.0.as_mut().is_some_and(|node| node.forget(path)) {
            self.0 = None;
        }
    }
}

impl Node {
    /// What of a member differs: all of it where all of this differs.
    pub fn member(&self, name: &str) -> Option<&Node> {
        match self {
            Node::Whole => Some(&Node::Whole),
            Node::Members(members) => members.get(name),
        }
    }

    pub fn members(&self) -> impl Iterator<Item = (&str, &Node)> {
        let members = match self {
            Node::Whole => None,
            Node::Members(members) => Some(members),
        };
        members.into_iter().flatten().map(|(name, node)| (&**name, node))
    }

    /// True if nothing is left.
    fn forget(&mut self, path: &[&str]) -> bool {
        let (Node::Members(members), Some((name, rest))) = (self, path.split_first()) else { return path.is_empty() };
        if members.get_mut(*name).is_some_and(|node| node.forget(rest)) {
            members.remove(*name);
        }
        members.is_empty()
    }
}

fn node(old: &Value, new: &Value) -> Option<Node> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let members = members(old, new);
            (!members.is_empty()).then_some(Node::Members(members))
        }
        _ => (old != new).then_some(Node::Whole),
    }
}

fn members(old: &Map<String, Value>, new: &Map<String, Value>) -> BTreeMap<Box<str>, Node> {
    let mut members = BTreeMap::new();
    let mut kept = 0;
    for (name, value) in new {
        let differs = match old.get(name) {
            Some(before) => {
                kept += 1;
                node(before, value)
            }
            None => Some(Node::Whole),
        };
        if let Some(node) = differs {
            members.insert(name.as_str().into(), node);
        }
    }
    if kept < old.len() {
        let gone = old.keys().filter(|name| !new.contains_key(*name));
        members.extend(gone.map(|name| (name.as_str().into(), Node::Whole)));
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_differs_is_found_and_nothing_else() {
        let old =
            json!({"metadata": {"name": "a", "labels": {"x": "1", "gone": ""}}, "spec": {"list": [1, 2], "n": null}});
        let new = json!({"metadata": {"name": "a", "labels": {"x": "2"}}, "spec": {"list": [2, 1]}});
        let mut diff = Diff::of(&old, &new);
        assert!(Diff::of(&old, &old).is_empty());
        assert_eq!(diff.at(&["metadata", "labels", "x"]), Some(&Node::Whole));
        assert_eq!(diff.at(&["metadata", "name"]), None);
        assert_eq!(diff.at(&["spec", "list", "below"]), Some(&Node::Whole));
        let names = |path: &[&str], diff: &Diff| -> Vec<String> {
            diff.at(path).into_iter().flat_map(Node::members).map(|(name, _)| name.to_owned()).collect()
        };
        assert_eq!(names(&["metadata", "labels"], &diff), ["gone", "x"]);
        assert_eq!(names(&["spec"], &diff), ["list", "n"]);
        diff.forget(&["metadata", "labels", "x"]);
        diff.forget(&["metadata", "labels", "gone"]);
        assert_eq!(diff.members().map(|(name, _)| name).collect::<Vec<_>>(), ["spec"]);
        diff.forget(&["spec"]);
        assert!(diff.is_empty());
    }
}
