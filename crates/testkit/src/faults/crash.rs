//! Losing the process around a write: before it is sent, or after it has committed and before the answer comes.

use super::{Faults, Life};
use std::time::Duration;

/// A loop that is to be ended and, perhaps, started again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crash {
    pub agent: String,
    /// `None`: it stays down until someone starts it.
    pub restart_after: Option<Duration>,
}

/// Ends the caller's life: nothing it asks is answered from here on, and the owner of its tasks is told to end them.
pub(super) async fn crash(faults: &Faults, life: &Life, crash: &Crash) -> std::convert::Infallible {
    life.end();
    faults.order(crash.clone());
    std::future::pending().await
}
