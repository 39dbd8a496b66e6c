//! The names of a custom resource: what a client may call it.

use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::{object, rules};
use serde_json::Value;

/// A definition has these; its status may lack them.
const REQUIRED: [&str; 4] = ["plural", "singular", "kind", "listKind"];

pub(super) fn check_required(names: &Value, path: &Path, errors: &mut Errors) {
    for key in REQUIRED.iter().filter(|key| object::text(names, &[key]).is_empty()) {
        errors.push(Error::required(&path.child(key), ""));
    }
}

pub(super) fn check(names: &Value, path: &Path, errors: &mut Errors) {
    let text = |key: &str| object::text(names, &[key]);
    for key in REQUIRED.into_iter().filter(|key| !text(key).is_empty()) {
        let mixed = matches!(key, "kind" | "listKind");
        let problems = match mixed {
            true => rules::dns_1035_label(&text(key).to_lowercase()),
            false => rules::dns_1035_label(text(key)),
        };
        if !problems.is_empty() {
            let lead = if mixed { "may have mixed case, but should otherwise match: " } else { "" };
            errors.push(Error::invalid(&path.child(key), text(key), format!("{lead}{}", problems.join(","))));
        }
    }
    labels(names, "shortNames", path, errors);
    if !text("kind").is_empty() && text("kind") == text("listKind") {
        let detail = "kind and listKind may not be the same";
        errors.push(Error::invalid(&path.child("listKind"), text("listKind"), detail));
    }
    labels(names, "categories", path, errors);
}

fn labels(names: &Value, key: &str, path: &Path, errors: &mut Errors) {
    for (index, name) in object::list(names, &[key]).iter().filter_map(Value::as_str).enumerate() {
        let problems = rules::dns_1035_label(name);
        if !problems.is_empty() {
            errors.push(Error::invalid(&path.child(key).index(index), name, problems.join(",")));
        }
    }
}
