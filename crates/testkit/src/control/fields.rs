//! The body of a control request, field by field; what is wrong is answered with the field's name.

use jiff::SignedDuration;
use pintle_meta::Status;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// What has not been read yet.
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    /// An empty body is an empty object.
    pub(super) fn read(body: &[u8]) -> Result<Self, Status> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Fields(Map::new()));
        }
        match serde_json::from_slice(body) {
            Ok(Value::Object(fields)) => Ok(Fields(fields)),
            Ok(_) => Err(Status::bad_request("the body is no JSON object; send one such as {\"by\": \"1h\"}")),
            Err(error) => Err(Status::bad_request(format!("the body is no JSON: {error}"))),
        }
    }

    pub(super) fn text(&mut self, field: &str) -> Result<Option<String>, Status> {
        match self.0.remove(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(field, format!("{other} is no text"))),
        }
    }

    pub(super) fn flag(&mut self, field: &str) -> Result<bool, Status> {
        match self.0.remove(field) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(wrong(field, format!("{other} is neither true nor false"))),
        }
    }

    /// A count, from 1.
    pub(super) fn count(&mut self, field: &str) -> Result<Option<u64>, Status> {
        match self.0.remove(field) {
            None => Ok(None),
            Some(value) => match value.as_u64() {
                Some(count) if count > 0 => Ok(Some(count)),
                _ => Err(wrong(field, format!("{value} is no whole number from 1"))),
            },
        }
    }

    pub(super) fn duration(&mut self, field: &str) -> Result<Option<Duration>, Status> {
        let Some(text) = self.text(field)? else { return Ok(None) };
        let parsed = text.parse::<SignedDuration>().ok().and_then(|signed| Duration::try_from(signed).ok());
        let advice = || format!("{text:?} is no duration; write it like \"24h\", \"1h30m\", \"90s\" or \"200ms\"");
        parsed.map(Some).ok_or_else(|| wrong(field, advice()))
    }

    /// Nobody read these: a misspelt field must not be silently without effect.
    pub(super) fn end(self) -> Result<(), Status> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(field) => Err(wrong(field, "no such field here; docs/control.md lists them".to_owned())),
        }
    }
}

/// 422 with the field's name.
pub(super) fn wrong(field: &str, why: String) -> Status {
    Status::new(422, "Invalid", format!("{field}: {why}"))
        .with_details(json!({"causes": [{"reason": "FieldValueInvalid", "field": field, "message": why}]}))
}

pub(super) fn missing(field: &str, example: &str) -> Status {
    wrong(field, format!("missing; write it like {example}"))
}
