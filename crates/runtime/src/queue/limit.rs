//! How many retries a second a queue lets through, whatever their keys.

use std::time::Duration;

use tokio::time::Instant;

/// A token bucket: `burst` at once, `per_second` in the long run. A rate that is not above zero limits nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    pub per_second: f64,
    pub burst: u32,
}

impl Rate {
    /// What client-go's default limiter allows all keys of a queue together.
    pub const RETRIES: Rate = Rate { per_second: 10.0, burst: 100 };
}

#[derive(Debug)]
pub(super) struct Bucket {
    rate: Rate,
    /// Below zero when tokens of the future are promised.
    tokens: f64,
    filled: Option<Instant>,
}

impl Bucket {
    pub(super) fn new(rate: Rate) -> Self {
        Bucket { rate, tokens: f64::from(rate.burst), filled: None }
    }

    /// Takes one token, if need be of the future, and says how long until it is there.
    pub(super) fn reserve(&mut self, now: Instant) -> Duration {
        if self.rate.per_second.is_nan() || self.rate.per_second <= 0.0 {
            return Duration::ZERO;
        }
        let idle = self.filled.map_or(Duration::ZERO, |filled| now.saturating_duration_since(filled));
        self.filled = Some(now);
        let full = f64::from(self.rate.burst);
        self.tokens = (self.tokens + idle.as_secs_f64() * self.rate.per_second).min(full) - 1.0;
        let missing = (-self.tokens / self.rate.per_second).max(0.0);
        Duration::try_from_secs_f64(missing).unwrap_or(Duration::MAX)
    }
}
