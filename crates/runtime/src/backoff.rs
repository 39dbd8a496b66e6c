//! How long to wait after the n-th failure in a row.

use std::time::Duration;

use pintle_meta::Random;

/// Doubles from `first` up to `longest`.
///
/// `Backoff { first: 5 ms, longest: 1000 s }` waits 5 ms, 10 ms, 20 ms, … and 1000 s from the 19th failure on.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    pub first: Duration,
    pub longest: Duration,
}

impl Backoff {
    /// What a failed key waits, as in client-go's default rate limiter.
    pub const KEY: Backoff = Backoff { first: Duration::from_millis(5), longest: Duration::from_secs(1000) };

    /// What a broken watch waits before it is tried again.
    pub const WATCH: Backoff = Backoff { first: Duration::from_millis(800), longest: Duration::from_secs(30) };

    /// The wait after `failures` earlier failures.
    pub fn after(&self, failures: u32) -> Duration {
        let factor = 1u32.checked_shl(failures).filter(|factor| *factor != 0).unwrap_or(u32::MAX);
        self.first.checked_mul(factor).map_or(self.longest, |wait| wait.min(self.longest))
    }

    /// The same with up to half again, so that many clients of one server do not come back at once.
    pub fn after_with_jitter(&self, failures: u32, random: &Random) -> Duration {
        let wait = self.after(failures);
        let half = u64::try_from(wait.as_millis() / 2).unwrap_or(u64::MAX);
        wait + Duration::from_millis(random.below(half.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_stop_at_the_longest() {
        let waits: Vec<u128> = (0..4).map(|failures| Backoff::KEY.after(failures).as_millis()).collect();
        assert_eq!(waits, [5, 10, 20, 40]);
        assert_eq!(Backoff::KEY.after(18), Duration::from_secs(1000));
        assert_eq!(Backoff::KEY.after(u32::MAX), Duration::from_secs(1000));
    }
}
