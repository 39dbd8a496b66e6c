//! Kubernetes' protobuf in both directions, driven by the fact table: one codec for every built-in type.
//!
//! - [`encode`](fn@encode) goes from JSON bytes, as they are stored, to the message of a type; nothing is built in between.
//! - [`decode`](fn@decode) goes from a message to the JSON value it stands for.
//! - `plan` is what both look things up in: each type's fields by name and by tag, compiled from the schema.
//! - `special` has the types whose JSON is not an object of their fields (times, quantities, embedded JSON, ...).
//! - [`envelope`] is what stands around a message in bodies (`k8s\0`), lists and watch streams.
//! - `wire` knows varints, tags and lengths.
//!
//! Which zero values are written follows the API's own code: a field that is a plain value is always written, a
//! pointer only if it is set, lists and maps only if they have items. The order of fields in a message is free in
//! protobuf; here it is the order of the JSON.

mod decode;
mod encode;
pub mod envelope;
mod plan;
mod special;
mod wire;

#[cfg(test)]
mod tests;

pub use decode::decode;
pub use encode::encode;
pub use envelope::{Envelope, open};
pub use plan::has_message;

/// Deeper messages than this are refused: no type of the API is.
const MAX_NESTING: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    #[error("the body does not begin as a Kubernetes protobuf message does")]
    NoMagic,
    #[error("the protobuf message ends early or is malformed{}", at(path))]
    Malformed { path: String },
    #[error("the protobuf message is nested too deeply")]
    TooDeep,
    #[error("no type {0:?} is known in protobuf")]
    UnknownType(String),
    #[error("the object does not fit its protobuf message: {0}")]
    Misfit(String),
}

impl ProtobufError {
    const MALFORMED: ProtobufError = ProtobufError::Malformed { path: String::new() };

    /// The same error, seen from the message that has the field.
    fn under(self, field: &str) -> Self {
        match self {
            ProtobufError::Malformed { path } if path.is_empty() => ProtobufError::Malformed { path: field.to_owned() },
            ProtobufError::Malformed { path } => ProtobufError::Malformed { path: format!("{field}.{path}") },
            other => other,
        }
    }
}

fn at(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!(" at {path}") }
}
