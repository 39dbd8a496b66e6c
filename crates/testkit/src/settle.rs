//! Waiting until everything that can happen has happened, and waiting for one thing to happen.

use crate::Cluster;
use std::time::Duration;

/// Nothing was written for this long, in virtual time: longer than any first retry, shorter than any resync.
const QUIET: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(50);
/// A loop that is still writing after this much virtual time will never stop.
const LONGEST: Duration = Duration::from_secs(600);

impl Cluster {
    /// Returns when nothing has been written for a while. Leases and events do not count: they never end.
    ///
    /// # Panics
    ///
    /// When the cluster does not come to rest; the message names what keeps changing.
    pub async fn settle(&self) {
        let started = tokio::time::Instant::now();
        let mut seen = self.writes();
        let mut quiet = Duration::ZERO;
        while quiet < QUIET {
            tokio::time::sleep(STEP).await;
            let now = self.writes();
            if now == seen {
                quiet += STEP;
            } else {
                (seen, quiet) = (now, Duration::ZERO);
            }
            assert!(started.elapsed() < LONGEST, "the cluster does not settle; still changing: {}", self.hottest());
        }
    }

    /// Moves timers and clocks forward; everything due in between happens in order.
    pub async fn advance(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Waits until `check` gives a value.
    ///
    /// # Panics
    ///
    /// When it does not within ten minutes of virtual time.
    pub async fn eventually<T, F>(&self, what: &str, mut check: impl FnMut() -> F) -> T
    where
        F: Future<Output = Option<T>>,
    {
        let started = tokio::time::Instant::now();
        loop {
            if let Some(value) = check().await {
                return value;
            }
            assert!(started.elapsed() < LONGEST, "waited in vain: {what}");
            tokio::time::sleep(STEP).await;
        }
    }
}
