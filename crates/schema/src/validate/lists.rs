//! Sets hold each value once, and map lists each key once.

use crate::node::{Kind, ListType, NodeId, Schema};
use pintle_meta::field::{Error, Errors, Path};
use serde_json::Value;
use std::collections::BTreeMap;

/// What is there twice. An object whose lists were wrong before is not refused for them.
pub(super) fn unique_items(schema: &Schema, value: &Value, old: Option<&Value>) -> Errors {
    let found = |value: &Value| {
        let mut errors = Errors::new();
        check(schema, schema.root, &Path::root(), value, &mut errors);
        errors
    };
    let errors = found(value);
    if errors.is_empty() || old.is_some_and(|old| !found(old).is_empty()) { Errors::new() } else { errors }
}

fn check(schema: &Schema, id: NodeId, path: &Path, value: &Value, errors: &mut Errors) {
    match (value, &schema.node(id).kind) {
        (Value::Object(map), Kind::Object { fields, .. }) => {
            for (name, value) in map {
                let Some(child) = schema.child(id, name) else { continue };
                let path = if fields.contains_key(name.as_str()) { path.child(name) } else { path.key(name) };
                check(schema, child, &path, value, errors);
            }
        }
        (Value::Array(list), Kind::List { items }) => {
            match &schema.node(id).list_type {
                ListType::Unspecified | ListType::Atomic => {}
                ListType::Set => {
                    for index in duplicates(list.iter()) {
                        errors.push(Error::duplicate(&path.index(index), list[index].clone()));
                    }
                }
                ListType::Map(keys) => check_keys(list, keys, path, errors),
            }
            for (index, item) in list.iter().enumerate() {
                check(schema, *items, &path.index(index), item, errors);
            }
        }
        _ => {}
    }
}

fn check_keys(list: &[Value], keys: &[Box<str>], path: &Path, errors: &mut Errors) {
    if let Some(index) = list.iter().position(|item| !item.is_object() && !item.is_null()) {
        let detail = "must be an object for an array of list-type map";
        errors.push(Error::invalid(&path.index(index), list[index].clone(), detail));
        return;
    }
    let keys: Vec<Value> = list.iter().map(|item| key_of(item, keys)).collect();
    for index in duplicates(keys.iter()) {
        errors.push(Error::duplicate(&path.index(index), keys[index].clone()));
    }
}

/// The items of a map list by their keys.
pub(super) struct ByKey<'a> {
    keys: &'a [Box<str>],
    items: BTreeMap<String, &'a Value>,
}

pub(super) fn by_key<'a>(list_type: &'a ListType, list: Option<&'a Value>) -> Option<ByKey<'a>> {
    let ListType::Map(keys) = list_type else { return None };
    let list = list?.as_array()?;
    Some(ByKey { keys, items: list.iter().map(|item| (key_of(item, keys).to_string(), item)).collect() })
}

impl<'a> ByKey<'a> {
    /// The item that has the keys of this one.
    pub(super) fn get(&self, item: &Value) -> Option<&'a Value> {
        self.items.get(&key_of(item, self.keys).to_string()).copied()
    }
}

fn key_of(item: &Value, keys: &[Box<str>]) -> Value {
    let pairs = keys.iter().filter_map(|key| Some((key.to_string(), item.get(&**key)?.clone())));
    Value::Object(pairs.collect())
}

/// The places of second appearances; a third is not told again.
pub(super) fn duplicates<'a>(values: impl Iterator<Item = &'a Value>) -> Vec<usize> {
    let mut seen = BTreeMap::new();
    let mut repeated = Vec::new();
    for (index, value) in values.enumerate() {
        let times = seen.entry(value.to_string()).or_insert(0usize);
        *times += 1;
        if *times == 2 {
            repeated.push(index);
        }
    }
    repeated
}
