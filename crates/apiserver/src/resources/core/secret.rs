//! A Secret: settings that are nobody's business, of a type that says which keys it has.

use super::config_map::{LARGEST, check_sealed, decoded_length};
use crate::resources::check;
use crate::resources::print::{AGE, NAME, length, text};
use crate::strategy::{Printed, Strategy};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use serde_json::Value;

const COLUMNS: &[Printed] = &[
    NAME,
    text("Type", "core.v1.Secret.type", |secret, _| object::text(secret, &["type"]).into()),
    text("Data", "core.v1.Secret.data", |secret, _| length(secret, &["data"])),
    AGE,
];

/// The keys without which a Secret of this type is of no use.
const KEYS: [(&str, &[&str]); 4] = [
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
];
const ACCOUNT: &str = "kubernetes.io/service-account.name";

pub struct Secret;

impl Strategy for Secret {
    /// What is written as text is kept as bytes.
    fn default(&self, secret: &mut Value) {
        let Some(Value::Object(texts)) = object::remove(secret, &["stringData"]) else { return };
        let data = object::map_at(secret, "data");
        for (key, text) in texts {
            data.insert(key, BASE64_STANDARD.encode(text.as_str().unwrap_or_default()).into());
        }
    }

    fn validate(&self, secret: &Value, _old: Option<&Value>, errors: &mut Errors) {
        let path = Path::new("data");
        let mut size = 0;
        for (key, value) in secret.get("data").and_then(Value::as_object).into_iter().flatten() {
            check::text(key, &path.key(key), rules::config_key, errors);
            size += value.as_str().map_or(0, decoded_length);
        }
        if size > LARGEST {
            errors.push(Error::too_long(&path, LARGEST));
        }
        let kind = object::text(secret, &["type"]);
        let has = |key: &str| object::at(secret, &["data", key]).is_some();
        for key in KEYS.iter().find(|(k, _)| *k == kind).map(|(_, keys)| *keys).unwrap_or_default() {
            if !has(key) {
                errors.push(Error::required(&path.key(key), ""));
            } else if key.starts_with(".docker") {
                check_json(secret, key, &path, errors);
            }
        }
        match kind {
            "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
                errors.push(Error::required(&path.key("username"), ""));
                errors.push(Error::required(&path.key("password"), ""));
            }
            "kubernetes.io/service-account-token"
                if object::text(secret, &["metadata", "annotations", ACCOUNT]).is_empty() =>
            {
                errors.push(Error::required(&Path::new("metadata").child("annotations").key(ACCOUNT), ""));
            }
            _ => {}
        }
    }

    fn validate_update(&self, secret: &Value, old: &Value, _subresource: &str, errors: &mut Errors) {
        check::immutable(secret, old, &["type"], errors);
        check_sealed(secret, old, &["data"], errors);
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["type"]
    }

    fn printed(&self) -> &'static [Printed] {
        COLUMNS
    }
}

fn check_json(secret: &Value, key: &str, path: &Path, errors: &mut Errors) {
    let bytes = BASE64_STANDARD.decode(object::text(secret, &["data", key])).unwrap_or_default();
    if let Err(error) = serde_json::from_slice::<Value>(&bytes) {
        errors.push(Error::invalid(&path.key(key), "<secret contents redacted>", error.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_in_a_secret_is_kept_as_bytes() {
        let mut secret = json!({"stringData": {"user": "u"}, "data": {"pass": "cA=="}});
        Secret.default(&mut secret);
        assert_eq!(secret, json!({"data": {"pass": "cA==", "user": "dQ=="}}));
    }

    #[test]
    fn a_certificate_without_its_key_is_refused() {
        let mut errors = Errors::new();
        Secret.validate(&json!({"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}), None, &mut errors);
        assert_eq!(errors[0].to_string(), "data[tls.key]: Required value");
    }
}
