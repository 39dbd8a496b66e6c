//! Why an operation does not apply, in the words that Kubernetes' JSON patches use.

use json_patch::PatchOperation;
use json_patch::jsonptr::{Pointer, PointerBuf};
use serde_json::Value;

/// What is wrong with an operation that could not be applied to this object.
pub(super) fn failure(object: &Value, operation: &PatchOperation) -> String {
    match operation {
        PatchOperation::Add(add) => {
            let missing = |path: &Pointer| {
                format!("add operation does not apply: doc is missing path: \"{path}\": missing value")
            };
            at(object, &add.path, "add", missing)
        }
        PatchOperation::Remove(remove) => {
            let missing = |path: &Pointer| {
                format!("remove operation does not apply: doc is missing path: \"{path}\": missing value")
            };
            at(object, &remove.path, "remove", missing)
        }
        PatchOperation::Replace(replace) => {
            let path = &replace.path;
            let what = if holder(object, path).is_some() { "key" } else { "path" };
            format!("replace operation does not apply: doc is missing {what}: {path}: missing value")
        }
        PatchOperation::Move(moved) => between("move", object, &moved.from, &moved.path),
        PatchOperation::Copy(copy) => between("copy", object, &copy.from, &copy.path),
        PatchOperation::Test(test) => match holder(object, &test.path) {
            Some(_) => format!("testing value {} failed: test failed", test.path),
            None => format!("test operation does not apply: is missing path: {}: missing value", test.path),
        },
    }
}

/// The object or list in which the last step of a path is taken.
fn holder<'a>(object: &'a Value, path: &PointerBuf) -> Option<&'a Value> {
    let parent = path.parent()?;
    parent.resolve(object).ok().filter(|value| value.is_object() || value.is_array())
}

fn at(object: &Value, path: &PointerBuf, operation: &str, missing: impl Fn(&Pointer) -> String) -> String {
    let key = path.last().map(|token| token.decoded().into_owned()).unwrap_or_default();
    match holder(object, path) {
        None => missing(path),
        Some(Value::Object(_)) => {
            format!("error in {operation} for path: '{path}': Unable to remove nonexistent key: {key}: missing value")
        }
        Some(_) if key.parse::<i64>().is_ok() => {
            format!(
                "error in {operation} for path: '{path}': Unable to access invalid index: {key}: invalid index referenced"
            )
        }
        Some(_) => format!("error in {operation} for path: '{path}': value was not a proper array index: '{key}'"),
    }
}

fn between(operation: &str, object: &Value, from: &PointerBuf, path: &PointerBuf) -> String {
    match from.resolve(object) {
        Err(_) => format!("{operation} operation does not apply: doc is missing from path: {from}: missing value"),
        Ok(_) => {
            format!("{operation} operation does not apply: doc is missing destination path: {path}: missing value")
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::json_patch::apply;
    use serde_json::json;

    #[test]
    fn an_operation_that_does_not_apply_says_what_it_misses() {
        let object = json!({"a": {"b": [1]}});
        for (operation, why) in [
            (
                json!({"op": "remove", "path": "/nope/at/all"}),
                "remove operation does not apply: doc is missing path: \"/nope/at/all\": missing value",
            ),
            (
                json!({"op": "remove", "path": "/a/x"}),
                "error in remove for path: '/a/x': Unable to remove nonexistent key: x: missing value",
            ),
            (
                json!({"op": "add", "path": "/x/y", "value": 1}),
                "add operation does not apply: doc is missing path: \"/x/y\": missing value",
            ),
            (
                json!({"op": "add", "path": "/a/b/7", "value": 1}),
                "error in add for path: '/a/b/7': Unable to access invalid index: 7: invalid index referenced",
            ),
            (
                json!({"op": "replace", "path": "/a/x", "value": 1}),
                "replace operation does not apply: doc is missing key: /a/x: missing value",
            ),
            (json!({"op": "test", "path": "/a/b/0", "value": 2}), "testing value /a/b/0 failed: test failed"),
            (
                json!({"op": "copy", "from": "/x", "path": "/y"}),
                "copy operation does not apply: doc is missing from path: /x: missing value",
            ),
        ] {
            let error = apply(&object, &json!([operation])).unwrap_err();
            assert_eq!(error.message, why);
        }
    }
}
