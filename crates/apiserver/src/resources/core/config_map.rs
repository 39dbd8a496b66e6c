//! A ConfigMap: settings as text or bytes, which may be sealed.

use crate::resources::check::{self, same};
use crate::resources::print::{AGE, NAME, text};
use crate::strategy::{Printed, Strategy};
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use serde_json::Value;

/// All values together, of a ConfigMap and of a Secret.
pub const LARGEST: usize = 1024 * 1024;
pub const SEALED: &str = "field is immutable when `immutable` is set";

const COLUMNS: &[Printed] = &[
    NAME,
    text("Data", "core.v1.ConfigMap.data", |map, _| {
        let count = |key: &str| map.get(key).and_then(Value::as_object).map_or(0, serde_json::Map::len);
        (count("data") + count("binaryData")).into()
    }),
    AGE,
];

pub struct ConfigMap;

impl Strategy for ConfigMap {
    fn validate(&self, map: &Value, _old: Option<&Value>, errors: &mut Errors) {
        let mut size = 0;
        for field in ["data", "binaryData"] {
            for (key, value) in map.get(field).and_then(Value::as_object).into_iter().flatten() {
                let here = Path::new(field).key(key);
                check::text(key, &here, rules::config_key, errors);
                if field == "binaryData" && object::at(map, &["data", key]).is_some() {
                    errors.push(Error::invalid(&here, key.as_str(), "duplicate of key present in data"));
                }
                size += value.as_str().map_or(0, |v| if field == "data" { v.len() } else { decoded_length(v) });
            }
        }
        if size > LARGEST {
            errors.push(Error::too_long(&Path::new("[]"), LARGEST));
        }
    }

    fn validate_update(&self, map: &Value, old: &Value, _subresource: &str, errors: &mut Errors) {
        check_sealed(map, old, &["data", "binaryData"], errors);
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}

/// What is sealed stays sealed and stays the same.
pub fn check_sealed(map: &Value, old: &Value, fields: &[&str], errors: &mut Errors) {
    if !object::flag(old, &["immutable"]) {
        return;
    }
    if !object::flag(map, &["immutable"]) {
        errors.push(Error::forbidden(&Path::new("immutable"), SEALED));
    }
    for field in fields {
        let at = |value: &Value| value.get(field).cloned().unwrap_or_default();
        if !same(&at(map), &at(old)) {
            errors.push(Error::forbidden(&Path::new(field), SEALED));
        }
    }
}

/// How many bytes a base64 text stands for.
pub fn decoded_length(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|b| *b == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_sealed_config_map_does_not_change() {
        let old = json!({"immutable": true, "data": {"a": "1"}});
        for (new, refused) in [
            (json!({"immutable": true, "data": {"a": "1"}}), 0),
            (json!({"immutable": true, "data": {"a": "2"}}), 1),
            (json!({"data": {"a": "1"}}), 1),
        ] {
            let mut errors = Errors::new();
            ConfigMap.validate_update(&new, &old, "", &mut errors);
            assert_eq!(errors.len(), refused);
        }
    }

    #[test]
    fn a_config_map_is_not_a_place_for_files() {
        let mut errors = Errors::new();
        ConfigMap.validate(&json!({"data": {"a": "x".repeat(LARGEST + 1)}}), None, &mut errors);
        assert_eq!(errors[0].to_string(), "[]: Too long: may not be more than 1048576 bytes");
    }
}
