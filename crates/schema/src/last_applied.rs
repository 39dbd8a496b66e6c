//! What `kubectl apply` wrote into an annotation before it applied on the server, so that a user can move over.
//!
//! Fields that still have the value of the annotation were set by kubectl, whatever manager they were tracked under;
//! applying them anew as `kubectl` is no conflict. While the annotation is there, it is kept up to date.

use crate::fieldset::FieldSet;
use crate::node::Schema;
use crate::typed;
use serde_json::{Map, Value};

pub(crate) const MANAGER: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// All annotations of an object together may not be larger.
const LARGEST_ANNOTATIONS: usize = 256 * 1024;

/// The fields that kubectl may take from any manager.
pub(crate) fn still_applied(schema: &Schema, live: &Value, api_version: &str) -> Option<FieldSet> {
    let text = live.pointer("/metadata/annotations")?.get(ANNOTATION)?.as_str()?;
    let last: Value = serde_json::from_str(text).ok()?;
    if last.get("apiVersion").and_then(Value::as_str) != Some(api_version) {
        return None;
    }
    let changed = typed::compare(schema, &last, live);
    let fields = FieldSet::of(schema, &last);
    Some(fields.difference(&changed.modified).difference(&changed.added).difference(&changed.removed))
}

/// Writes what was applied into the annotation, if there is one.
pub(crate) fn refresh(object: &mut Value, applied: &Value) {
    let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") else { return };
    if annotations.get(ANNOTATION).and_then(Value::as_str).is_none_or(str::is_empty) {
        return;
    }
    let mut applied = applied.clone();
    if let Some(Value::Object(annotations)) = applied.pointer_mut("/metadata/annotations") {
        annotations.remove(ANNOTATION);
    }
    annotations.insert(ANNOTATION.to_owned(), Value::from(format!("{applied}\n")));
    if size(annotations) > LARGEST_ANNOTATIONS {
        annotations.remove(ANNOTATION);
    }
}

fn size(annotations: &Map<String, Value>) -> usize {
    annotations.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum()
}
