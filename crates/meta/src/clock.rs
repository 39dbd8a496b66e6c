//! The time, passed in: the one place that asks the operating system for it.
//!
//! - [`Clock::system`] tells the machine's time.
//! - [`Clock::virtual_from`] starts at a given moment and moves with tokio's timers, so that a paused runtime
//!   moves clock and timers together: `advance(24h)` advances both.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// What time it is. Cheap to clone; hand it down, never reach for another.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Virtual { epoch: Timestamp, started: Instant },
}

impl Clock {
    pub fn system() -> Self {
        Clock(Source::System)
    }

    /// A clock that reads `epoch` now and follows tokio's time from here. Call it inside a runtime.
    pub fn virtual_from(epoch: Timestamp) -> Self {
        Clock(Source::Virtual { epoch, started: Instant::now() })
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks for the time")]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => Timestamp::now(),
            Source::Virtual { epoch, started } => {
                let passed = SignedDuration::try_from(started.elapsed()).unwrap_or(SignedDuration::ZERO);
                epoch.checked_add(passed).unwrap_or(*epoch)
            }
        }
    }

    /// Unix milliseconds, the form in which the store keeps moments.
    pub fn now_millis(&self) -> i64 {
        self.now().as_millisecond()
    }

    /// `2026-11-15T21:37:00Z`, as the API writes times.
    pub fn now_rfc3339(&self) -> String {
        rfc3339(self.now())
    }
}

/// A moment in whole seconds, as the API writes times.
pub fn rfc3339(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A moment in microseconds, as leases and events write times.
pub fn rfc3339_micro(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_the_api_writes_them() {
        let moment = Timestamp::from_microsecond(1_763_242_620_123_456).unwrap();
        assert_eq!(rfc3339(moment), "2025-11-15T21:37:00Z");
        assert_eq!(rfc3339_micro(moment), "2025-11-15T21:37:00.123456Z");
    }
}
