//! Sets of paths into an object, as `fieldsV1` of a manager writes them.
//!
//! A worked example: the manager that owns the label `app` and the container `a` with its image has
//! `{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:image":{}}}}}`.
//! A path is a member of the set where its step has `{}` or a `.` inside; the other steps only lead there.

use crate::element::Element;
use crate::node::{Kind, NodeId, Schema};
use crate::typed::{self, Atom};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    members: BTreeSet<Element>,
    children: BTreeMap<Element, FieldSet>,
}

impl FieldSet {
    pub fn new() -> Self {
        FieldSet::default()
    }

    /// The set of these paths of field names.
    pub fn from_paths(paths: &[&[&str]]) -> Self {
        let mut set = FieldSet::new();
        for path in paths {
            let path: Vec<Element> = path.iter().map(|name| Element::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(FieldSet::is_empty)
    }

    pub fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => match self.children.get_mut(first) {
                Some(child) => child.insert(rest),
                None => self.children.entry(first.clone()).or_default().insert(rest),
            },
        }
    }

    pub fn contains(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.members.contains(last),
            [first, rest @ ..] => self.children.get(first).is_some_and(|child| child.contains(rest)),
        }
    }

    pub fn has_member(&self, element: &Element) -> bool {
        self.members.contains(element)
    }

    pub fn child(&self, element: &Element) -> Option<&FieldSet> {
        self.children.get(element).filter(|child| !child.is_empty())
    }

    /// Puts one level together: whether the step itself is a member, and what is below it.
    pub(crate) fn put(&mut self, element: Element, is_member: bool, below: FieldSet) {
        if !below.is_empty() {
            self.children.insert(element.clone(), below);
        }
        if is_member {
            self.members.insert(element);
        }
    }

    #[must_use]
    pub fn union(&self, other: &FieldSet) -> FieldSet {
        let mut both = self.clone();
        both.extend(other);
        both
    }

    /// Adds the members of the other.
    pub fn extend(&mut self, other: &FieldSet) {
        self.members.extend(other.members.iter().cloned());
        for (element, theirs) in &other.children {
            match self.children.get_mut(element) {
                Some(ours) => ours.extend(theirs),
                None => {
                    self.children.insert(element.clone(), theirs.clone());
                }
            }
        }
    }

    #[must_use]
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut shared =
            FieldSet { members: self.members.intersection(&other.members).cloned().collect(), ..FieldSet::new() };
        for (element, ours) in &self.children {
            if let Some(theirs) = other.children.get(element) {
                shared.put(element.clone(), false, ours.intersection(theirs));
            }
        }
        shared
    }

    /// Without the members of the other; what is below them stays.
    #[must_use]
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        let mut left =
            FieldSet { members: self.members.difference(&other.members).cloned().collect(), ..FieldSet::new() };
        for (element, ours) in &self.children {
            let below = other.children.get(element).map_or_else(|| ours.clone(), |theirs| ours.difference(theirs));
            left.put(element.clone(), false, below);
        }
        left
    }

    /// Takes away the members of the other; what is below them stays.
    pub fn subtract(&mut self, other: &FieldSet) {
        for member in &other.members {
            self.members.remove(member);
        }
        for (element, theirs) in &other.children {
            if let Some(ours) = self.children.get_mut(element) {
                ours.subtract(theirs);
                if ours.is_empty() {
                    self.children.remove(element);
                }
            }
        }
    }

    /// Without the members of the other and all that is below them.
    #[must_use]
    pub fn recursive_difference(&self, other: &FieldSet) -> FieldSet {
        let mut left =
            FieldSet { members: self.members.difference(&other.members).cloned().collect(), ..FieldSet::new() };
        for (element, ours) in self.children.iter().filter(|(element, _)| !other.members.contains(element)) {
            let below =
                other.children.get(element).map_or_else(|| ours.clone(), |theirs| ours.recursive_difference(theirs));
            left.put(element.clone(), false, below);
        }
        left
    }

    /// All paths: the members of a level, then what is below it.
    pub fn paths(&self) -> Vec<Vec<Element>> {
        let mut paths = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect_paths(&self, prefix: &mut Vec<Element>, paths: &mut Vec<Vec<Element>>) {
        for member in &self.members {
            let mut path = prefix.clone();
            path.push(member.clone());
            paths.push(path);
        }
        for (element, child) in &self.children {
            prefix.push(element.clone());
            child.collect_paths(prefix, paths);
            prefix.pop();
        }
    }

    /// Also owning the structs on the way to what is owned, which sets leave out but removal needs.
    #[must_use]
    pub(crate) fn with_named_fields(&self, schema: &Schema, id: Option<NodeId>) -> FieldSet {
        let mut full = FieldSet { members: self.members.clone(), ..FieldSet::new() };
        for (element, child) in &self.children {
            let below = id.and_then(|id| match element {
                Element::Field(name) => schema.child(id, name),
                _ => schema.items(id),
            });
            let named = match (id, element) {
                (Some(id), Element::Field(name)) => schema.field(id, name).is_some(),
                _ => false,
            };
            full.put(element.clone(), named, child.with_named_fields(schema, below));
        }
        full
    }

    /// Reads `fieldsV1`. Steps of an unknown kind are passed over.
    pub fn parse(value: &Value) -> Result<FieldSet, String> {
        let Value::Object(map) = value else { return Err("fieldsV1 must be an object".to_owned()) };
        let (set, _) = parse_level(map)?;
        Ok(set)
    }

    /// Writes `fieldsV1`.
    pub fn to_value(&self) -> Value {
        Value::Object(self.level(false))
    }

    fn level(&self, itself: bool) -> Map<String, Value> {
        let mut map = Map::new();
        if itself {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for member in &self.members {
            map.insert(member.serialized(), Value::Object(Map::new()));
        }
        for (element, child) in self.children.iter().filter(|(_, child)| !child.is_empty()) {
            map.insert(element.serialized(), Value::Object(child.level(self.members.contains(element))));
        }
        map
    }

    /// Every field that a value mentions, by the rules of its schema.
    pub fn of(schema: &Schema, value: &Value) -> FieldSet {
        collect(schema, schema.root_id(), value).0
    }
}

/// The set below a step, and whether the step itself is a member: it is where nothing is below.
fn parse_level(map: &Map<String, Value>) -> Result<(FieldSet, bool), String> {
    let mut set = FieldSet::new();
    let mut itself = false;
    for (key, value) in map {
        if key == "." {
            itself = true;
            continue;
        }
        let Some(element) = Element::parse(key)? else { continue };
        let Value::Object(below) = value else { return Err(format!("{key} must hold an object")) };
        let (below, is_member) = parse_level(below)?;
        set.put(element, is_member, below);
    }
    let leaf = set.members.is_empty() && set.children.is_empty();
    Ok((set, itself || leaf))
}

fn collect(schema: &Schema, id: NodeId, value: &Value) -> (FieldSet, bool) {
    let node = schema.node(id);
    let mut set = FieldSet::new();
    match typed::atom(node, Some(value)) {
        Atom::Leaf => return (set, true),
        Atom::List => {
            let (Value::Array(list), Some(items)) = (value, schema.items(id)) else { return (set, false) };
            let mut seen = BTreeMap::new();
            for item in list {
                if let Ok(element) = typed::item_element(schema, id, item) {
                    *seen.entry(element).or_insert(0usize) += 1;
                }
            }
            for item in list {
                let Ok(element) = typed::item_element(schema, id, item) else { continue };
                // Items that share a key have one owner as a whole.
                let below = match seen.get(&element) {
                    Some(1) => collect(schema, items, item).0,
                    _ => FieldSet::new(),
                };
                set.put(element, true, below);
            }
        }
        Atom::Map => {
            let Value::Object(map) = value else { return (set, false) };
            for (name, value) in map {
                let declared = matches!(&node.kind, Kind::Object { fields, .. } if fields.contains_key(name.as_str()));
                let (below, leaf) = match schema.child(id, name) {
                    Some(child) => collect(schema, child, value),
                    None => (FieldSet::new(), true),
                };
                let hollow = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                set.put(Element::field(name), leaf || hollow || !declared, below);
            }
        }
    }
    (set, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sets_are_written_as_they_were_read() {
        let cases = [
            json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {"f:replicas": {}}}),
            json!({"f:spec": {"f:ports": {".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}}),
            json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"a/b\"": {}}}}),
            json!({}),
        ];
        for case in cases {
            assert_eq!(FieldSet::parse(&case).map(|set| set.to_value()), Ok(case));
        }
        assert!(FieldSet::parse(&json!({"f:a": 1})).is_err());
        assert!(FieldSet::parse(&json!({"nonsense": {}})).is_err());
    }

    #[test]
    fn an_applied_object_owns_what_it_mentions() {
        let schema = Schema::builtin("apps.v1.Deployment").expect("the table has deployments");
        let object = json!({
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"spec": {"containers": [
                    {"name": "main", "image": "i", "args": ["x"], "ports": [{"containerPort": 80}]},
                ]}},
            },
        });
        let wanted = json!({
            "f:metadata": {"f:labels": {"f:a": {}}},
            "f:spec": {
                "f:selector": {},
                "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {
                    ".": {}, "f:name": {}, "f:image": {}, "f:args": {},
                    "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
                }}}},
            },
        });
        assert_eq!(FieldSet::of(&schema, &object).to_value(), wanted);
    }

    #[test]
    fn taking_a_field_leaves_what_is_below_it_unless_asked() {
        let set = FieldSet::parse(&json!({"f:a": {".": {}, "f:b": {}}})).expect("a sound set");
        let other = FieldSet::from_paths(&[&["a"]]);
        assert_eq!(set.difference(&other).to_value(), json!({"f:a": {"f:b": {}}}));
        assert!(set.recursive_difference(&other).is_empty());
        assert_eq!(set.intersection(&other).to_value(), json!({"f:a": {}}));
    }
}
