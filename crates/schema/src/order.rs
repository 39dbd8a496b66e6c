//! The order of a merged list: what the patch says first, then what the object had.

use serde_json::Value;
use std::collections::BTreeMap;

/// What identifies an item: the value of its merge key, or the item itself in a list of scalars.
///
/// Written out, so that lists are indexed and a long patch of a long list does not cost their product.
pub(crate) fn identity(item: &Value, key: Option<&str>) -> Option<String> {
    match key {
        Some(key) => item.get(key).map(Value::to_string),
        None => Some(item.to_string()),
    }
}

/// Where each identity first stands.
pub(crate) fn positions(list: &[Value], key: Option<&str>) -> BTreeMap<String, usize> {
    let mut positions = BTreeMap::new();
    for (index, item) in list.iter().enumerate() {
        if let Some(identity) = identity(item, key) {
            positions.entry(identity).or_insert(index);
        }
    }
    positions
}

/// Puts the items that `wanted` names into its order, and weaves the others between them as `live` had them.
pub(crate) fn arrange(merged: Vec<Value>, wanted: &[Value], live: &[Value], key: Option<&str>) -> Vec<Value> {
    let (wanted, live) = (positions(wanted, key), positions(live, key));
    let place = |order: &BTreeMap<String, usize>, item: &Value| {
        identity(item, key).and_then(|identity| order.get(&identity).copied())
    };
    let (mut named, mut others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| place(&wanted, item).is_some());
    named.sort_by_key(|item| place(&wanted, item));
    others.sort_by_key(|item| place(&live, item).unwrap_or(usize::MAX));

    let mut arranged = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let other_first = match (others.peek(), named.peek()) {
            (None, None) => return arranged,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            // An item that the object did not have is never held back.
            (Some(other), Some(name)) => {
                matches!((place(&live, other), place(&live, name)), (Some(other), Some(name)) if other < name)
            }
        };
        arranged.extend(if other_first { others.next() } else { named.next() });
    }
}
