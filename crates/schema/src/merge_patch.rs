//! Merge patch (RFC 7396).

use crate::patch::PatchError;
use serde_json::Value;

/// Merges an object patch into an object: `null` removes, objects merge, all else replaces.
pub fn apply(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    if !patch.is_object() {
        return Err(PatchError::bad_request("Invalid JSON Patch"));
    }
    let mut merged = object.clone();
    merge(&mut merged, patch);
    Ok(merged)
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(map) = target else { return };
    for (name, change) in changes {
        if change.is_null() {
            map.remove(name);
        } else {
            merge(map.entry(name.as_str()).or_insert(Value::Null), change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn null_removes_and_objects_merge() {
        let object = json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "data": [1, 2]});
        let patch = json!({"metadata": {"labels": {"a": null, "c": "3"}}, "data": [3], "new": {"x": null, "y": 1}});
        let wanted = json!({"metadata": {"labels": {"b": "2", "c": "3"}}, "data": [3], "new": {"y": 1}});
        assert_eq!(apply(&object, &patch), Ok(wanted));
        assert!(apply(&object, &json!([])).is_err());
    }
}
