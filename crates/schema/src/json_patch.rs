//! JSON patch (RFC 6902), with the limits and errors of the API.

mod words;

use crate::patch::{PatchError, PatchErrorKind};
use json_patch::PatchOperation;
use serde_json::Value;

/// More operations than this in one patch are refused.
pub const MOST_OPERATIONS: usize = 10_000;

/// A patch may grow the object by copying parts of it, but not by more than this.
const LARGEST_COPY: usize = 3 * 1024 * 1024;

/// Deeper than any object may come in; the exact limit is checked on the result.
const DEEPEST: usize = 2 * pintle_meta::object::MAX_NESTING;

/// How many values all operations together may look at.
const MOST_VISITED: usize = 10_000_000;

/// How many items of lists all operations together may move: an item that is put in or taken out moves all behind it.
const MAX_MOVED_ITEMS: usize = 64_000_000;

/// A patch as somebody wrote it.
pub fn read(text: &[u8]) -> Result<Value, PatchError> {
    let invalid = |error: serde_json::Error| PatchError::bad_request(go_words(text, &error));
    let patch: Value = serde_json::from_slice(text).map_err(invalid)?;
    match &patch {
        Value::Array(_) | Value::Null => Ok(patch),
        other => Err(not_a_patch(other)),
    }
}

/// What Go's parser says of the first thing that it cannot read.
fn go_words(text: &[u8], error: &serde_json::Error) -> String {
    let letter = |at: usize| text.get(at).map(|byte| char::from(*byte));
    let first = text.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(0);
    let literal = ["true", "false", "null"].into_iter().find(|word| letter(first) == word.chars().next());
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    if let Some(word) = literal {
        for (offset, expected) in word.chars().enumerate() {
            match letter(first + offset) {
                Some(found) if found != expected => {
                    return format!("invalid character {found:?} in literal {word} (expecting {expected:?})");
                }
                _ => {}
            }
        }
    }
    match letter(first) {
        Some(found) if !matches!(found, '[' | '{' | '"' | '-' | '0'..='9') => {
            format!("invalid character {found:?} looking for beginning of value")
        }
        _ => error.to_string(),
    }
}

fn not_a_patch(patch: &Value) -> PatchError {
    let given = match patch {
        Value::Object(_) => "object",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        Value::Array(_) => "array",
        Value::Null => "null",
    };
    PatchError::bad_request(format!("json: cannot unmarshal {given} into Go value of type jsonpatch.Patch"))
}

/// Applies the operations in order; all or nothing.
pub fn apply(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Value::Array(operations) = patch else {
        return if patch.is_null() { Ok(object.clone()) } else { Err(not_a_patch(patch)) };
    };
    if operations.len() > MOST_OPERATIONS {
        let message =
            format!("The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {}", operations.len());
        return Err(PatchError { kind: PatchErrorKind::TooLarge, message });
    }
    let mut patched = object.clone();
    let mut limits = Limits { copied: 0, visited: 0, moved: 0 };
    for operation in operations {
        let operation: PatchOperation = serde_json::from_value(operation.clone())
            .map_err(|error| PatchError::invalid(format!("Unexpected kind: {error}")))?;
        limits.check(&patched, &operation)?;
        json_patch::patch_unsafe(&mut patched, std::slice::from_ref(&operation))
            .map_err(|_| PatchError::invalid(words::failure(&patched, &operation)))?;
    }
    Ok(patched)
}

/// Keeps a small patch from making a large or deep object, or much work.
struct Limits {
    copied: usize,
    visited: usize,
    moved: usize,
}

impl Limits {
    fn check(&mut self, object: &Value, operation: &PatchOperation) -> Result<(), PatchError> {
        match operation {
            PatchOperation::Add(add) => self.shift(object, &add.path),
            PatchOperation::Copy(copy) => self.shift(object, &copy.path),
            PatchOperation::Remove(remove) => self.shift(object, &remove.path),
            PatchOperation::Move(moved) => {
                self.shift(object, &moved.from);
                self.shift(object, &moved.path);
            }
            PatchOperation::Replace(_) | PatchOperation::Test(_) => {}
        }
        if self.moved > MAX_MOVED_ITEMS {
            let message = format!(
                "The operations of the JSON patch move more than {MAX_MOVED_ITEMS} list items: replace the list instead"
            );
            return Err(PatchError { kind: PatchErrorKind::TooLarge, message });
        }
        let (place, depth) = match operation {
            PatchOperation::Add(add) => (&add.path, self.depth(&add.value)),
            PatchOperation::Replace(replace) => (&replace.path, self.depth(&replace.value)),
            PatchOperation::Move(moved) => {
                (&moved.path, moved.from.resolve(object).map_or(0, |value| self.depth(value)))
            }
            PatchOperation::Copy(copy) => {
                let value = copy.from.resolve(object).unwrap_or(&Value::Null);
                // Copies double; the sum of what was copied bounds the result before it is built.
                self.copied += value.to_string().len();
                (&copy.path, self.depth(value))
            }
            PatchOperation::Remove(_) | PatchOperation::Test(_) => return Ok(()),
        };
        if self.copied > LARGEST_COPY {
            let message = format!(
                "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit {LARGEST_COPY}",
                self.copied
            );
            return Err(PatchError::invalid(message));
        }
        if place.tokens().count() + depth > DEEPEST || self.visited > MOST_VISITED {
            return Err(PatchError::invalid("the patch makes the object too deep or moves too much"));
        }
        Ok(())
    }

    /// Counts the items behind a place in a list.
    fn shift(&mut self, object: &Value, place: &json_patch::jsonptr::Pointer) {
        let Some((list, index)) = place.split_back() else { return };
        if let Ok(Value::Array(items)) = list.resolve(object) {
            let index: usize = index.decoded().parse().unwrap_or(items.len());
            self.moved += items.len().saturating_sub(index);
        }
    }

    /// Both objects and patches come in with a bounded depth, so this cannot run away.
    fn depth(&mut self, value: &Value) -> usize {
        self.visited += 1;
        if self.visited > MOST_VISITED {
            return 0;
        }
        match value {
            Value::Array(list) => 1 + list.iter().map(|item| self.depth(item)).max().unwrap_or(0),
            Value::Object(map) => 1 + map.values().map(|item| self.depth(item)).max().unwrap_or(0),
            _ => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn operations_apply_in_order() {
        let object = json!({"metadata": {"labels": {"a": "b"}}});
        let patch = json!([
            {"op": "test", "path": "/metadata/labels/a", "value": "b"},
            {"op": "add", "path": "/metadata/labels/q", "value": "1"},
            {"op": "remove", "path": "/metadata/labels/a"},
        ]);
        assert_eq!(apply(&object, &patch), Ok(json!({"metadata": {"labels": {"q": "1"}}})));
    }

    #[test]
    fn a_failed_test_changes_nothing_and_is_unprocessable() {
        let object = json!({"a": 1});
        let patch = json!([{"op": "replace", "path": "/a", "value": 2}, {"op": "test", "path": "/a", "value": 3}]);
        let error = apply(&object, &patch).expect_err("the test fails");
        assert_eq!(error.kind, PatchErrorKind::Invalid);
    }

    #[test]
    fn a_patch_without_end_is_refused() {
        let patch = Value::Array(vec![json!({"op": "test", "path": "", "value": {}}); MOST_OPERATIONS + 1]);
        let error = apply(&json!({}), &patch).expect_err("too many operations");
        assert_eq!(error.kind, PatchErrorKind::TooLarge);
        assert_eq!(error.message, "The allowed maximum operations in a JSON patch is 10000, got 10001");
    }

    #[test]
    fn a_list_is_not_taken_apart_item_by_item_without_end() {
        let list = |length: usize| json!({"list": vec![0; length]});
        let patch = Value::Array(vec![json!({"op": "remove", "path": "/list/0"}); 9_999]);
        assert_eq!(apply(&list(10_000), &patch), Ok(list(1)));
        let error = apply(&list(300_000), &patch).expect_err("three billion items would be moved");
        assert_eq!(error.kind, PatchErrorKind::TooLarge);
    }

    #[test]
    fn copies_cannot_double_without_end() {
        let mut operations = vec![json!({"op": "add", "path": "/a", "value": "x".repeat(1000)})];
        for index in 0..40 {
            operations.push(json!({"op": "copy", "from": "", "path": format!("/b{index}")}));
        }
        let error = apply(&json!({}), &Value::Array(operations)).map_err(|error| error.kind);
        assert_eq!(error, Err(PatchErrorKind::Invalid));
    }

    #[test]
    fn a_patch_cannot_dig_a_hole_without_bottom() {
        let deep = (0..90).fold(json!(1), |inner, _| json!({"a": inner}));
        let path = "/a".repeat(90);
        let operations = json!([
            {"op": "add", "path": "", "value": deep},
            {"op": "add", "path": path, "value": deep},
            {"op": "add", "path": path.repeat(2), "value": deep},
        ]);
        let error = apply(&json!({}), &operations).map_err(|error| error.kind);
        assert_eq!(error, Err(PatchErrorKind::Invalid));
    }
}
