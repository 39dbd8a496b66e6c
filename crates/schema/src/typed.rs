//! Walks over objects by schema: what differs, what two objects give together, an object without some fields.

mod compare;
mod merge;
mod remove;
mod verify;

pub use compare::{Comparison, compare, compare_within};
pub use merge::merge;
pub use remove::remove;
pub use verify::verify;

use crate::element::{self, Element};
use crate::node::{Kind, ListType, Node, NodeId, Schema};
use serde_json::{Map, Value};

/// How a value is owned: as a whole, item by item, or field by field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Atom {
    Leaf,
    List,
    Map,
}

pub(crate) fn atom(node: &Node, value: Option<&Value>) -> Atom {
    match &node.kind {
        Kind::Object { .. } if node.atomic => Atom::Leaf,
        Kind::Object { .. } => match value {
            Some(Value::Object(_) | Value::Null) | None => Atom::Map,
            // A custom object may hold anything until it is validated.
            Some(_) => Atom::Leaf,
        },
        Kind::List { .. } if node.list_type.is_atomic() => Atom::Leaf,
        Kind::List { .. } => match value {
            Some(Value::Array(_) | Value::Null) | None => Atom::List,
            Some(_) => Atom::Leaf,
        },
        Kind::Any if node.atomic => Atom::Leaf,
        Kind::Any => match value {
            Some(Value::Object(_) | Value::Null) | None => Atom::Map,
            Some(_) => Atom::Leaf,
        },
        _ => Atom::Leaf,
    }
}

/// Equal as values: `1` and `1.0` are the same number.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    element::compare(left, right).is_eq()
}

/// The items of a list; a missing list or `null` has none.
fn items_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// What identifies an item of an associative list: its keys, with their defaults, or its value.
pub(crate) fn item_element(schema: &Schema, list: NodeId, item: &Value) -> Result<Element, String> {
    let ListType::Map(keys) = &schema.node(list).list_type else {
        return match item {
            Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
            scalar => Ok(Element::Value(scalar.clone())),
        };
    };
    let map = match item {
        Value::Object(map) => map,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let mut found = Map::new();
    for key in keys.iter() {
        let default = || {
            let items = schema.items(list)?;
            schema.node(schema.field(items, key)?.node).default.clone()
        };
        if let Some(value) = map.get(&**key).cloned().or_else(default) {
            found.insert(key.to_string(), value);
        }
    }
    if found.is_empty() {
        let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            keys.join(" ")
        ));
    }
    Ok(Element::Key(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fieldset::FieldSet;
    use crate::{decode, default, merge_patch, prune, strategic};
    use serde_json::json;

    #[test]
    fn an_object_as_deep_as_may_come_in_does_not_exhaust_the_stack() {
        let schema = Schema::untyped();
        let deep = |leaf: Value| (0..1000).fold(leaf, |inner, _| json!({"a": inner}));
        let (one, two) = (deep(json!(1)), deep(json!(2)));
        let fields = FieldSet::of(&schema, &one);
        assert_eq!(FieldSet::parse(&fields.to_value()), Ok(fields.clone()));
        assert_eq!(fields.union(&fields).difference(&fields), FieldSet::new());
        assert_eq!(compare(&schema, &one, &two).modified.paths().len(), 1);
        assert_eq!(merge(&schema, &one, &two), two);
        assert_eq!(remove(&schema, &one, &compare(&schema, &one, &two).modified), json!({}));
        assert_eq!(merge_patch::apply(&one, &two), Ok(two.clone()));
        assert_eq!(strategic::apply(&schema, &one, &two), Ok(two.clone()));
        let nested = (0..990).fold(json!({}), |inner, _| json!({"not": inner}));
        let properties = Schema::builtin("apiextensions.v1.JSONSchemaProps").expect("the table has definitions");
        assert!(decode::decode(&properties, nested.clone()).is_err());
        assert_eq!(default::default(&properties, &mut nested.clone()), Ok(()));
        assert!(prune::prune(&schema, &mut one.clone()).is_empty());
    }

    #[test]
    fn the_order_of_a_list_follows_whoever_applies_it() {
        let schema = Schema::builtin("core.v1.PodSpec").expect("the table has pods");
        let names = |names: &[&str]| -> Value {
            json!({"containers": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()})
        };
        let cases: [(&[&str], &[&str], &[&str]); 5] = [
            (&["a", "b", "c"], &["b"], &["a", "b", "c"]),
            (&["a", "b", "c"], &["c", "a"], &["b", "c", "a"]),
            (&["a", "b"], &["x", "a"], &["x", "a", "b"]),
            (&["a", "b"], &["a", "x"], &["a", "b", "x"]),
            (&[], &["b", "a"], &["b", "a"]),
        ];
        for (live, applied, wanted) in cases {
            assert_eq!(merge(&schema, &names(live), &names(applied)), names(wanted), "{live:?} {applied:?}");
        }
    }
}
