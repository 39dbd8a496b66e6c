//! The answer that says what went wrong, in the API's own words.

use crate::field;
use crate::names::qualified_resource;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// A failure as the API reports it: an HTTP code, a reason a program can test, a message a person can act on.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    pub code: u16,
    pub reason: Cow<'static, str>,
    pub message: String,
    pub details: Option<Value>,
    /// Seconds after which a retry makes sense.
    pub retry_after: Option<u32>,
}

impl Status {
    pub fn new(code: u16, reason: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Status { code, reason: reason.into(), message: message.into(), details: None, retry_after: None }
    }

    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        Status::new(404, "NotFound", format!("{} {name:?} not found", qualified_resource(group, resource)))
            .with_details(about(name, group, resource))
    }

    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        let whole = qualified_resource(group, resource);
        Status::new(409, "AlreadyExists", format!("{whole} {name:?} already exists"))
            .with_details(about(name, group, resource))
    }

    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let whole = qualified_resource(group, resource);
        Status::new(409, "Conflict", format!("Operation cannot be fulfilled on {whole} {name:?}: {why}"))
            .with_details(about(name, group, resource))
    }

    /// The conflict every retry loop waits for.
    pub fn modified(group: &str, resource: &str, name: &str) -> Self {
        Status::conflict(
            group,
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Status::new(400, "BadRequest", message)
    }

    pub fn unauthorized() -> Self {
        Status::new(401, "Unauthorized", "Unauthorized")
    }

    pub fn method_not_allowed() -> Self {
        Status::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
            .with_details(json!({}))
    }

    /// No such path.
    pub fn no_such_resource() -> Self {
        Status::new(404, "NotFound", "the server could not find the requested resource").with_details(json!({}))
    }

    pub fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        Status::new(500, "InternalError", format!("Internal error occurred: {message}"))
            .with_details(json!({"causes": [{"message": message}]}))
    }

    pub fn gone(message: impl Into<String>) -> Self {
        Status::new(410, "Expired", message)
    }

    pub fn too_large(message: impl Into<String>) -> Self {
        Status::new(413, "RequestEntityTooLarge", message)
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        let mut status = Status::new(503, "ServiceUnavailable", message);
        status.retry_after = Some(1);
        status
    }

    /// What is wrong with an object, field by field.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[field::Error]) -> Self {
        let whole = qualified_resource(group, kind);
        let mut seen: Vec<String> = Vec::new();
        for error in errors {
            let line = error.to_string();
            if !seen.contains(&line) {
                seen.push(line);
            }
        }
        let message = match seen.as_slice() {
            [] => format!("{whole} {name:?} is invalid"),
            [one] => format!("{whole} {name:?} is invalid: {one}"),
            many => format!("{whole} {name:?} is invalid: [{}]", many.join(", ")),
        };
        let causes: Vec<Value> = errors
            .iter()
            .map(|e| json!({"reason": e.reason.cause(), "message": e.body(), "field": e.field.to_string()}))
            .collect();
        let mut details = about(name, group, kind);
        if !causes.is_empty() {
            details["causes"] = Value::Array(causes);
        }
        Status::new(422, "Invalid", message).with_details(details)
    }

    pub fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        if let Some(seconds) = self.retry_after {
            crate::object::set(&mut status, &["details", "retryAfterSeconds"], seconds);
        }
        if self.reason.is_empty() {
            crate::object::remove(&mut status, &["reason"]);
        }
        status
    }
}

/// The `details` that name an object.
pub fn about(name: &str, group: &str, kind: &str) -> Value {
    let mut details = Map::new();
    for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
        if !value.is_empty() {
            details.insert(key.to_owned(), value.into());
        }
    }
    Value::Object(details)
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}
