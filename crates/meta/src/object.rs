//! Reading and writing the metadata of a dynamic object, so that no one indexes into JSON by hand.

use serde_json::{Map, Value};

/// How deep an object may nest when it comes in, in every notation. Parsers of JSON commonly stop at 128 levels: this leaves room
/// for what holds an object (a list, a watch event, a review) and for its managed fields, which repeat its nesting.
pub const MAX_NESTING: usize = 100;

/// How deep a stored object may nest, with all that the server adds.
pub const MAX_STORED_NESTING: usize = 120;

/// The string at a path of keys, or `""`: an absent string and an empty one mean the same in the API.
pub fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

pub fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(key))
}

pub fn at_mut<'a>(object: &'a mut Value, path: &[&str]) -> Option<&'a mut Value> {
    path.iter().try_fold(object, |value, key| value.get_mut(key))
}

/// The list at a path, or an empty one.
pub fn list<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

pub fn integer(object: &Value, path: &[&str]) -> Option<i64> {
    at(object, path).and_then(Value::as_i64)
}

pub fn flag(object: &Value, path: &[&str]) -> bool {
    at(object, path).and_then(Value::as_bool).unwrap_or_default()
}

pub fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"])
}

pub fn namespace(object: &Value) -> &str {
    text(object, &["metadata", "namespace"])
}

pub fn uid(object: &Value) -> &str {
    text(object, &["metadata", "uid"])
}

pub fn resource_version(object: &Value) -> &str {
    text(object, &["metadata", "resourceVersion"])
}

pub fn kind(object: &Value) -> &str {
    text(object, &["kind"])
}

pub fn is_being_deleted(object: &Value) -> bool {
    at(object, &["metadata", "deletionTimestamp"]).is_some_and(|t| !t.is_null())
}

pub fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    list(object, &["metadata", "finalizers"]).iter().filter_map(Value::as_str)
}

/// Whether lists and maps stand in each other more than `limit` times. Looks no deeper than that.
pub fn nests_deeper_than(value: &Value, limit: usize) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) if limit == 0 => true,
        Value::Array(list) => list.iter().any(|item| nests_deeper_than(item, limit - 1)),
        Value::Object(map) => map.values().any(|item| nests_deeper_than(item, limit - 1)),
        _ => false,
    }
}

/// The map at a key, made if it is absent or not a map.
pub fn map_at<'a>(object: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    let whole = as_map(object);
    as_map(whole.entry(key).or_insert_with(|| Value::Object(Map::new())))
}

/// `metadata`, made if absent.
pub fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    map_at(object, "metadata")
}

/// This value as a map; anything else becomes an empty one.
pub fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

/// Sets a key where it is absent or null: how defaults are filled in.
pub fn fill(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    let slot = map.entry(key).or_insert(Value::Null);
    if slot.is_null() {
        *slot = value.into();
    }
}

/// Sets the value at a path of keys, making maps on the way.
pub fn set(object: &mut Value, path: &[&str], value: impl Into<Value>) {
    if let Some((last, way)) = path.split_last() {
        let mut here = object;
        for key in way {
            here = as_map(here).entry(*key).or_insert_with(|| Value::Object(Map::new()));
        }
        as_map(here).insert((*last).to_owned(), value.into());
    }
}

/// Removes the value at a path; leaves its parents.
pub fn remove(object: &mut Value, path: &[&str]) -> Option<Value> {
    let (last, way) = path.split_last()?;
    at_mut(object, way)?.as_object_mut()?.remove(*last)
}
