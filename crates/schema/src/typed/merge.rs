//! What an object becomes when another is applied onto it.

use super::{Atom, atom, item_element, items_of};
use crate::element::Element;
use crate::node::{NodeId, Schema};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Merges `applied` into `live`: nothing is removed, leaves are taken from `applied`, list items keep the order of
/// `live` unless `applied` orders the items they share.
pub fn merge(schema: &Schema, live: &Value, applied: &Value) -> Value {
    merged(schema, Some(schema.root_id()), Some(live), Some(applied)).unwrap_or_else(|| Value::Object(Map::new()))
}

fn merged(schema: &Schema, id: Option<NodeId>, live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    let node = id.map(|id| schema.node(id));
    let shape = node.map_or(Atom::Leaf, |node| match applied {
        None => atom(node, live),
        applied => atom(node, applied),
    });
    let leaf = || applied.or(live).cloned();
    match (shape, id) {
        (Atom::List, Some(id)) => {
            let (live_list, applied_list) = (items_of(live), items_of(applied));
            if live_list.is_empty() && applied_list.is_empty() {
                return leaf();
            }
            let items = merge_lists(schema, id, live_list, applied_list);
            (!items.is_empty()).then_some(Value::Array(items))
        }
        (Atom::Map, Some(id)) => {
            let empty = Map::new();
            let live_map = live.and_then(Value::as_object).unwrap_or(&empty);
            let applied_map = applied.and_then(Value::as_object).unwrap_or(&empty);
            if live_map.is_empty() && applied_map.is_empty() {
                return leaf();
            }
            // A plain loop: each level of an object costs one frame of the stack, and objects may be deep.
            let mut fields = Map::new();
            for name in live_map.keys().chain(applied_map.keys().filter(|name| !live_map.contains_key(*name))) {
                let value = merged(schema, schema.child(id, name), live_map.get(name), applied_map.get(name));
                if let Some(value) = value {
                    fields.insert(name.clone(), value);
                }
            }
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        _ => leaf(),
    }
}

fn merge_lists(schema: &Schema, id: NodeId, live: &[Value], applied: &[Value]) -> Vec<Value> {
    let items = schema.items(id);
    let elements = |list: &[Value]| -> Vec<(Element, usize)> {
        let found = list.iter().enumerate();
        found.filter_map(|(index, item)| Some((item_element(schema, id, item).ok()?, index))).collect()
    };
    let (live_elements, applied_elements) = (elements(live), elements(applied));
    // A key that the live list has twice is merged with neither of its items.
    let mut in_live: BTreeMap<&Element, Option<usize>> = BTreeMap::new();
    for (element, index) in &live_elements {
        in_live.entry(element).and_modify(|place| *place = None).or_insert(Some(*index));
    }
    let in_applied: BTreeSet<&Element> = applied_elements.iter().map(|(element, _)| element).collect();
    let join = |element: &Element, index: usize| {
        let before = in_live.get(element).copied().flatten().and_then(|index| live.get(index));
        merged(schema, items, before, applied.get(index))
    };

    let mut result = Vec::with_capacity(live.len().max(applied.len()));
    let mut shared =
        applied_elements.iter().map(|(element, _)| element).filter(|element| in_live.contains_key(element));
    let mut next_shared = shared.next();
    let mut done: BTreeSet<&Element> = BTreeSet::new();
    let (mut left, mut right) = (live_elements.iter().peekable(), applied_elements.iter().peekable());
    loop {
        if let (Some((ours, _)), Some((theirs, index))) = (left.peek(), right.peek()) {
            if ours == theirs {
                done.insert(theirs);
                result.extend(join(theirs, *index));
                left.next();
                right.next();
                next_shared = shared.next();
                continue;
            }
            // Shared, but its turn has not come: the applied order decides.
            if in_applied.contains(ours) && next_shared.is_some_and(|next| next != ours) {
                left.next();
                continue;
            }
        }
        if let Some((ours, index)) = left.peek() {
            if !in_applied.contains(ours) {
                result.extend(merged(schema, items, live.get(*index), None));
                left.next();
                continue;
            }
            if done.contains(ours) {
                left.next();
            }
        }
        match right.next() {
            Some((theirs, index)) => {
                done.insert(theirs);
                result.extend(join(theirs, *index));
                if next_shared == Some(theirs) {
                    next_shared = shared.next();
                }
            }
            // Nothing more is applied, so what is left of the live list is either done or live only.
            None if left.peek().is_none() => return result,
            None => {
                if left.peek().is_some_and(|(ours, _)| in_applied.contains(ours)) {
                    left.next();
                }
            }
        }
    }
}
