//! What becomes of a key whose reconcile failed.

use std::sync::Arc;
use std::time::Duration;

use crate::attempt::Attempt;
use crate::error::Error;

/// What an error makes of a key.
pub(super) type Decide = Arc<dyn Fn(&Error, &Attempt) -> OnError + Send + Sync>;

/// What becomes of a key whose reconcile failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// It is tried again, after a while that grows with each failure.
    Backoff,
    /// It is tried again after this time.
    After(Duration),
    /// It is left alone until something changes.
    Leave,
}

impl OnError {
    pub(super) fn usual(error: &Error, _: &Attempt) -> Self {
        if matches!(error, Error::Terminal(_)) { OnError::Leave } else { OnError::Backoff }
    }
}
