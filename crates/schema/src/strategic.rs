//! Strategic merge patch: lists merge by key, as the schema of the type says.
//!
//! Directives in a patch:
//! - `$patch: delete | replace` in an object or a list item
//! - `$retainKeys: [..]` drops all other fields of the object
//! - `$setElementOrder/<list>: [..]` orders the merged list
//! - `$deleteFromPrimitiveList/<list>: [..]` takes scalars out of the list
//!
//! Where the type is not known, objects merge and lists are replaced.

use crate::node::{NodeId, Schema};
use crate::order;
use crate::patch::PatchError;
use serde_json::{Map, Value};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";

pub fn apply(schema: &Schema, object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let (Value::Object(original), Value::Object(changes)) = (object, patch) else {
        return Err(PatchError::bad_request("invalid JSON document"));
    };
    let mut merged = original.clone();
    merge_object(schema, Some(schema.root), &mut merged, changes.clone())?;
    Ok(Value::Object(merged))
}

type Object = Map<String, Value>;

/// Merges in place: each level of an object costs one frame of the stack, and objects may be deep.
fn merge_object(schema: &Schema, id: Option<NodeId>, merged: &mut Object, mut patch: Object) -> Result<(), PatchError> {
    if patch.contains_key(DIRECTIVE) {
        *merged = whole_object(patch)?;
        return Ok(());
    }
    retain_keys(merged, &mut patch)?;
    merge_ordered_lists(schema, id, merged, &mut patch)?;
    for (name, change) in patch {
        let (name, deleting) = list_to_delete_from(name)?;
        let child = id.and_then(|id| schema.child(id, &name));
        let replace = child.is_some_and(|child| schema.node(child).patch.replace);
        match (merged.get_mut(&name), change) {
            (Some(Value::Object(original)), Value::Object(change)) if !replace => {
                merge_object(schema, child, original, change)?;
            }
            (_, change) => merge_other(schema, child, merged, name, change, deleting)?,
        }
    }
    Ok(())
}

/// Merges a field whose old and new values are not both objects.
fn merge_other(
    schema: &Schema,
    child: Option<NodeId>,
    merged: &mut Object,
    name: String,
    change: Value,
    deleting: bool,
) -> Result<(), PatchError> {
    let value = match (merged.remove(&name), change) {
        (_, Value::Null) => None,
        // Replaced as a whole, by the field's own rule.
        (Some(Value::Object(_)), Value::Object(change)) => Some(Value::Object(change)),
        (Some(Value::Array(original)), Value::Array(change)) => {
            Some(Value::Array(merge_list(schema, child, original, change, deleting)?))
        }
        (original, _) if deleting => original,
        (_, change) => without_directives(change),
    };
    if let Some(value) = value {
        merged.insert(name, value);
    }
    Ok(())
}

/// The field that a key of the patch speaks of, and whether it takes scalars out of it.
fn list_to_delete_from(name: String) -> Result<(String, bool), PatchError> {
    match name.strip_prefix(DELETE_FROM_LIST) {
        None => Ok((name, false)),
        Some(rest) => match rest.strip_prefix('/') {
            Some(list) => Ok((list.to_owned(), true)),
            None => Err(PatchError::bad_request("invalid patch format of primitive list")),
        },
    }
}

/// What an object with a `$patch` directive becomes.
fn whole_object(mut patch: Object) -> Result<Object, PatchError> {
    match patch.get(DIRECTIVE).and_then(Value::as_str) {
        Some("replace") => {
            patch.remove(DIRECTIVE);
            Ok(patch)
        }
        Some("delete") => Ok(Map::new()),
        _ => Err(unknown_directive(&Value::Object(patch))),
    }
}

fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), PatchError> {
    let Some(kept) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let refused = || PatchError::bad_request("invalid patch format of retainKeys");
    let kept = kept.as_array().ok_or_else(refused)?;
    let kept: Vec<&str> = kept.iter().filter_map(Value::as_str).collect();
    let is_directive = |name: &str| name.starts_with(DELETE_FROM_LIST) || name.starts_with(ELEMENT_ORDER);
    let stray =
        |(name, value): (&String, &Value)| !value.is_null() && !is_directive(name) && !kept.contains(&name.as_str());
    if patch.iter().any(stray) {
        return Err(refused());
    }
    original.retain(|name, _| kept.contains(&name.as_str()));
    Ok(())
}

/// Merges the lists whose order the patch gives, and takes them out of the patch.
fn merge_ordered_lists(
    schema: &Schema,
    id: Option<NodeId>,
    original: &mut Object,
    patch: &mut Object,
) -> Result<(), PatchError> {
    let refused = || PatchError::bad_request("invalid patch format of setElementOrder list");
    let directives: Vec<String> = patch.keys().filter(|name| name.starts_with(ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let Some(Value::Array(wanted)) = patch.remove(&directive) else { return Err(refused()) };
        let name = directive.strip_prefix(ELEMENT_ORDER).and_then(|rest| rest.strip_prefix('/')).ok_or_else(refused)?;
        let child = id.and_then(|id| schema.child(id, name));
        let key = child.and_then(|child| schema.node(child).patch.key.as_deref());
        let live = match original.remove(name) {
            None => None,
            Some(Value::Array(list)) => Some(list),
            Some(_) => return Err(refused()),
        };
        let change = match patch.remove(name) {
            None | Some(Value::Null) => None,
            Some(Value::Array(list)) => Some(list),
            Some(_) => return Err(refused()),
        };
        if let Some(change) = &change {
            check_order(change, &wanted, key)?;
        }
        let before = live.clone().unwrap_or_default();
        let merged = match (live, change) {
            (None, None) => continue,
            (Some(live), None) => live,
            (None, Some(change)) => change.into_iter().filter_map(without_directives).collect(),
            (Some(live), Some(change)) => merge_list(schema, child, live, change, false)?,
        };
        original.insert(name.to_owned(), Value::Array(order::arrange(merged, &wanted, &before, key)));
    }
    Ok(())
}

/// Every item of the patch stands in the order list, and in that order.
fn check_order(change: &[Value], wanted: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    if wanted.is_empty() {
        return Ok(());
    }
    let mut wanted_items = wanted.iter().map(|item| order::identity(item, key));
    for item in change.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        let identity = order::identity(item, key).ok_or_else(|| no_merge_key(item, key.unwrap_or_default()))?;
        if !wanted_items.any(|wanted| wanted.as_ref() == Some(&identity)) {
            let (change, wanted) = (Value::from(change.to_vec()), Value::from(wanted.to_vec()));
            let message =
                format!("The order in patch list:\n{change}\n doesn't match {ELEMENT_ORDER} list:\n{wanted}\n");
            return Err(PatchError::bad_request(message));
        }
    }
    Ok(())
}

fn merge_list(
    schema: &Schema,
    id: Option<NodeId>,
    original: Vec<Value>,
    patch: Vec<Value>,
    deleting: bool,
) -> Result<Vec<Value>, PatchError> {
    let rule = id.map(|id| &schema.node(id).patch);
    if !deleting && !rule.is_some_and(|rule| rule.merge) {
        return Ok(patch);
    }
    if original.iter().chain(&patch).any(Value::is_array) {
        return Err(PatchError::invalid("lists of lists are not supported"));
    }
    let objects = original.iter().chain(&patch).filter(|item| item.is_object()).count();
    if objects == 0 {
        return Ok(merge_scalars(original, patch, deleting));
    }
    if objects < original.len() + patch.len() {
        return Err(PatchError::bad_request("list element types are not identical"));
    }
    let Some(key) = rule.and_then(|rule| rule.key.as_deref()) else {
        return Err(PatchError::bad_request("cannot merge lists without merge key"));
    };
    let items = id.and_then(|id| schema.items(id));
    let (original, patch) = apply_item_directives(original, patch, key)?;
    let mut merged = original.clone();
    let mut places = order::positions(&merged, Some(key));
    for item in &patch {
        let identity = order::identity(item, Some(key)).ok_or_else(|| no_merge_key(item, key))?;
        match places.get(&identity) {
            Some(place) => {
                let (Value::Object(before), Value::Object(change)) = (&mut merged[*place], item.clone()) else {
                    continue;
                };
                merge_object(schema, items, before, change)?;
            }
            None => {
                places.insert(identity, merged.len());
                merged.extend(without_directives(item.clone()));
            }
        }
    }
    Ok(order::arrange(merged, &patch, &original, Some(key)))
}

fn merge_scalars(original: Vec<Value>, patch: Vec<Value>, deleting: bool) -> Vec<Value> {
    if deleting {
        let deleted = order::positions(&patch, None);
        return original.into_iter().filter(|item| !deleted.contains_key(&item.to_string())).collect();
    }
    let mut seen = std::collections::BTreeSet::new();
    let both = original.iter().chain(&patch).filter(|item| seen.insert(item.to_string())).cloned().collect();
    order::arrange(both, &patch, &original, None)
}

/// Carries out `$patch` in list items; what is left of the patch are plain items.
fn apply_item_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut plain = Vec::new();
    let mut deleted = std::collections::BTreeSet::new();
    let mut replace = false;
    for item in patch {
        match item.get(DIRECTIVE) {
            None => plain.push(item),
            Some(directive) => match directive.as_str() {
                Some("delete") => {
                    deleted.insert(order::identity(&item, Some(key)).ok_or_else(|| no_merge_key(&item, key))?);
                }
                Some("replace") => replace = true,
                Some("merge") => {
                    return Err(PatchError::bad_request("merging lists cannot yet be specified in the patch"));
                }
                _ => return Err(unknown_directive(&item)),
            },
        }
    }
    if replace {
        return Ok((plain, Vec::new()));
    }
    original.retain(|item| order::identity(item, Some(key)).is_none_or(|identity| !deleted.contains(&identity)));
    Ok((original, plain))
}

fn unknown_directive(item: &Value) -> PatchError {
    let directive = item.get(DIRECTIVE).unwrap_or(&Value::Null);
    let shown = directive.as_str().map_or_else(|| directive.to_string(), str::to_owned);
    PatchError::bad_request(format!("unknown patch type: {shown} in map: {item}"))
}

fn no_merge_key(item: &Value, key: &str) -> PatchError {
    PatchError::bad_request(format!("map: {item} does not contain declared merge key: {key}"))
}

/// What a new value looks like in the object: without directives and without nulls.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, value)| !value.is_null());
            Some(Value::Object(kept.filter_map(|(name, value)| Some((name, without_directives(value)?))).collect()))
        }
        Value::Array(list) => Some(Value::Array(list.into_iter().filter_map(without_directives).collect())),
        scalar => Some(scalar),
    }
}

#[cfg(test)]
mod tests;
