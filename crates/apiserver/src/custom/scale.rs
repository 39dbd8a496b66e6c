//! The replicas of a custom object, where its definition says that they are: counts that a Scale can carry.

use crate::strategy::ScalePaths;
use pintle_meta::field::{Error, Errors, Path};
use serde_json::Value;

/// What is wrong with them; of a write through `/status` only what it writes is looked at.
pub(super) fn check(paths: &ScalePaths, value: &Value, with_spec: bool) -> Errors {
    let mut errors = Errors::new();
    if with_spec {
        errors.extend(count(&paths.replicas, value));
    }
    errors.extend(count(&paths.status_replicas, value));
    if let Some(path) = &paths.selector {
        let problem = match find(path, value) {
            Ok(None | Some(Value::String(_))) => None,
            Ok(Some(other)) => Some(accessor_error(path, other, "string")),
            Err(error) => Some(error),
        };
        errors.extend(problem.map(|detail| Error::invalid(&shown(path), "", detail)));
    }
    errors
}

fn count(path: &str, value: &Value) -> Option<Error> {
    let count = match find(path, value) {
        Ok(None) => return None,
        Ok(Some(found)) => found.as_i64().ok_or_else(|| accessor_error(path, found, "int64")),
        Err(error) => Err(error),
    };
    let (count, detail) = match count {
        Err(detail) => (0, detail),
        Ok(count) if count < 0 => (count, "should be a non-negative integer".to_owned()),
        Ok(count) if count > i64::from(i32::MAX) => (count, format!("should be less than or equal to {}", i32::MAX)),
        Ok(_) => return None,
    };
    Some(Error::invalid(&shown(path), count, detail))
}

/// The API names these with the point in front that definitions write.
fn shown(path: &str) -> Path {
    Path::new(&format!(".{path}"))
}

/// The value at a path; absent where anything on the way is.
fn find<'a>(path: &str, value: &'a Value) -> Result<Option<&'a Value>, String> {
    let mut here = value;
    let mut walked = String::new();
    for name in path.split('.') {
        let Value::Object(map) = here else {
            return Err(accessor_error(&walked, here, "map[string]interface{}"));
        };
        walked.push('.');
        walked.push_str(name);
        match map.get(name) {
            None => return Ok(None),
            Some(below) => here = below,
        }
    }
    Ok(Some(here))
}

fn accessor_error(path: &str, found: &Value, wanted: &str) -> String {
    let path = path.trim_start_matches('.');
    let (shown, kind) = match found {
        Value::Null => ("<nil>".to_owned(), "<nil>"),
        Value::Bool(_) => (found.to_string(), "bool"),
        Value::Number(number) if number.is_i64() => (found.to_string(), "int64"),
        Value::Number(_) => (found.to_string(), "float64"),
        Value::String(text) => (text.clone(), "string"),
        Value::Array(_) => (found.to_string(), "[]interface {}"),
        Value::Object(_) => (found.to_string(), "map[string]interface {}"),
    };
    format!(".{path} accessor error: {shown} is of the type {kind}, expected {wanted}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn replicas_that_no_scale_can_carry_are_refused() {
        let paths = ScalePaths {
            replicas: "spec.masts".into(),
            status_replicas: "status.masts".into(),
            selector: Some("status.selector".into()),
        };
        let told =
            |value: Value| -> Vec<String> { check(&paths, &value, true).iter().map(ToString::to_string).collect() };
        assert!(told(json!({"spec": {"masts": 3}, "status": {"selector": "a=b"}})).is_empty());
        assert!(told(json!({})).is_empty());
        assert_eq!(
            told(json!({"spec": {"masts": -1}})),
            [".spec.masts: Invalid value: -1: should be a non-negative integer"]
        );
        assert_eq!(
            told(json!({"status": {"masts": 3_000_000_000_i64}})),
            [".status.masts: Invalid value: 3000000000: should be less than or equal to 2147483647"]
        );
        assert_eq!(
            told(json!({"spec": {"masts": "two"}})),
            [".spec.masts: Invalid value: 0: .spec.masts accessor error: two is of the type string, expected int64"]
        );
    }
}
