//! The real program and the real kubectl, each test with its own cluster in a directory of its own.

pub mod kubectl;
pub mod program;

use std::time::Duration;
use tokio::time::Instant;

/// How long a condition may take before the test gives up on it; on an idle machine it takes milliseconds.
pub const PATIENCE: Duration = Duration::from_secs(60);

const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Looks until there is something, or fails with what was seen last.
pub async fn eventually<T>(what: &str, look: impl AsyncFnMut() -> Result<T, String>) -> T {
    eventually_within(PATIENCE, what, look).await
}

/// The same for what takes its time by design.
pub async fn eventually_within<T>(
    patience: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let deadline = Instant::now() + patience;
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) if Instant::now() > deadline => panic!("waited {patience:?} until {what}; at last:\n{seen}"),
            Err(_) => tokio::time::sleep(BETWEEN_LOOKS).await,
        }
    }
}
