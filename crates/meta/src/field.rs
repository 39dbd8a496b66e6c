//! Paths into an object, and what is wrong there: each error names the field, the reason and the value.

use serde_json::Value;
use std::fmt;

/// Where in an object: `spec.containers[0].image`, `data[key]`. Cheap to extend; built only where needed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(String);

impl Path {
    pub fn root() -> Self {
        Path::default()
    }

    pub fn new(name: &str) -> Self {
        Path(name.to_owned())
    }

    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Path(name.to_owned()) } else { Path(format!("{}.{name}", self.0)) }
    }

    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Path(format!("{}[{index}]", self.0))
    }

    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Path(format!("{}[{key}]", self.0))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "<nil>" } else { &self.0 })
    }
}

/// Why a field is refused. `reason` and the words of the message are the API's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    Internal,
    TypeInvalid,
}

impl Reason {
    pub fn cause(self) -> &'static str {
        match self {
            Reason::NotFound => "FieldValueNotFound",
            Reason::Required => "FieldValueRequired",
            Reason::Duplicate => "FieldValueDuplicate",
            Reason::Invalid => "FieldValueInvalid",
            Reason::NotSupported => "FieldValueNotSupported",
            Reason::Forbidden => "FieldValueForbidden",
            Reason::TooLong => "FieldValueTooLong",
            Reason::TooMany => "FieldValueTooMany",
            Reason::Internal => "InternalError",
            Reason::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Reason::NotFound => "Not found",
            Reason::Required => "Required value",
            Reason::Duplicate => "Duplicate value",
            Reason::Invalid | Reason::TypeInvalid => "Invalid value",
            Reason::NotSupported => "Unsupported value",
            Reason::Forbidden => "Forbidden",
            Reason::TooLong => "Too long",
            Reason::TooMany => "Too many",
            Reason::Internal => "Internal error",
        }
    }
}

/// One thing wrong with one field.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    pub reason: Reason,
    pub field: Path,
    /// What stands there; shown for the reasons that show a value.
    pub value: Value,
    pub detail: String,
}

pub type Errors = Vec<Error>;

impl Error {
    pub fn new(reason: Reason, field: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Error { reason, field: field.clone(), value: value.into(), detail: detail.into() }
    }

    pub fn required(field: &Path, detail: impl Into<String>) -> Self {
        Error::new(Reason::Required, field, Value::Null, detail)
    }

    pub fn invalid(field: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Error::new(Reason::Invalid, field, value, detail)
    }

    pub fn forbidden(field: &Path, detail: impl Into<String>) -> Self {
        Error::new(Reason::Forbidden, field, Value::Null, detail)
    }

    pub fn duplicate(field: &Path, value: impl Into<Value>) -> Self {
        Error::new(Reason::Duplicate, field, value, "")
    }

    pub fn not_found(field: &Path, value: impl Into<Value>) -> Self {
        Error::new(Reason::NotFound, field, value, "")
    }

    /// The supported values are shown sorted, each in quotes.
    pub fn not_supported(field: &Path, value: impl Into<Value>, supported: &[&str]) -> Self {
        let mut sorted = supported.to_vec();
        sorted.sort_unstable();
        let shown: Vec<String> = sorted.iter().map(|s| format!("{s:?}")).collect();
        let detail = if shown.is_empty() { String::new() } else { format!("supported values: {}", shown.join(", ")) };
        Error::new(Reason::NotSupported, field, value, detail)
    }

    pub fn too_long(field: &Path, limit: usize) -> Self {
        let unit = if limit == 1 { "byte" } else { "bytes" };
        Error::new(Reason::TooLong, field, Value::Null, format!("may not be more than {limit} {unit}"))
    }

    pub fn too_many(field: &Path, actual: usize, limit: usize) -> Self {
        let unit = if limit == 1 { "item" } else { "items" };
        Error::new(Reason::TooMany, field, actual, format!("must have at most {limit} {unit}"))
    }

    /// The message without the field, as a Status cause carries it.
    pub fn body(&self) -> String {
        let words = self.reason.words();
        let head = match self.reason {
            Reason::Required | Reason::Forbidden | Reason::TooLong | Reason::Internal => words.to_owned(),
            _ => format!("{words}: {}", shown(&self.value)),
        };
        if self.detail.is_empty() { head } else { format!("{head}: {}", self.detail) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => format!("{text:?}"),
        // A number without a fraction is shown without one.
        Value::Number(number) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_as_kubernetes_writes_them() {
        let path = Path::new("spec").child("containers").index(0).child("image");
        assert_eq!(Error::required(&path, "").to_string(), "spec.containers[0].image: Required value");
        assert_eq!(
            Error::invalid(&Path::new("metadata").child("name"), "A", "must be lower case").to_string(),
            "metadata.name: Invalid value: \"A\": must be lower case"
        );
        assert_eq!(
            Error::invalid(&Path::new("spec").child("share"), 150.0, "is too much").to_string(),
            "spec.share: Invalid value: 150: is too much"
        );
        assert_eq!(
            Error::not_supported(&Path::new("spec").child("type"), "x", &["b", "a"]).to_string(),
            "spec.type: Unsupported value: \"x\": supported values: \"a\", \"b\""
        );
    }
}
