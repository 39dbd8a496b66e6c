//! What a patch can fail with, whatever its kind.

/// Which answer the API gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchErrorKind {
    /// 400, with the message.
    BadRequest,
    /// 422 with the API's general message: the patch is well formed but does not fit the object.
    Invalid,
    /// 413, with the message.
    TooLarge,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PatchError {
    pub kind: PatchErrorKind,
    pub message: String,
}

impl PatchError {
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        PatchError { kind: PatchErrorKind::BadRequest, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        PatchError { kind: PatchErrorKind::Invalid, message: message.into() }
    }
}
