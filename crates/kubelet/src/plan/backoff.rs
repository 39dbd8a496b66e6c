//! How long a container that ended waits before it is started again: 10 s, doubling to 5 min, forgotten after 10.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(300);

/// The wait that the next end of a container brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RestartBackoff {
    pub(crate) wait: Duration,
    pub(crate) updated_at: Timestamp,
}

impl RestartBackoff {
    /// Until when a container that ended at `ended_at` waits; nothing if it may start.
    pub(crate) fn until(backoff: Option<&Self>, ended_at: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let backoff = backoff.filter(|backoff| !backoff.is_forgotten(ended_at))?;
        let until = after(ended_at, backoff.wait);
        (until > now).then_some(until)
    }

    /// The backoff after a start at `now` that follows an end at `ended_at`.
    pub(crate) fn next(backoff: Option<&Self>, ended_at: Timestamp, now: Timestamp) -> Self {
        let wait = match backoff.filter(|backoff| !backoff.is_forgotten(ended_at)) {
            Some(backoff) => (backoff.wait * 2).min(LONGEST),
            None => FIRST,
        };
        RestartBackoff { wait, updated_at: now }
    }

    /// What the gap between two runs tells of the backoff, for an agent that was not there to remember it.
    pub(crate) fn recalled(ended_at: Timestamp, started_at: Timestamp) -> Self {
        let gap = Duration::try_from(started_at.duration_since(ended_at)).unwrap_or_default();
        let mut wait = FIRST;
        while wait <= gap && wait < LONGEST {
            wait *= 2;
        }
        RestartBackoff { wait: wait.min(LONGEST), updated_at: started_at }
    }

    /// A container that ran long enough is as good as new.
    fn is_forgotten(&self, ended_at: Timestamp) -> bool {
        ended_at > after(self.updated_at, LONGEST * 2)
    }
}

/// The wait after the n-th failed pull in a row.
pub(crate) fn pull_wait(failures: u32) -> Duration {
    FIRST.checked_mul(1u32.checked_shl(failures).unwrap_or(u32::MAX)).map_or(LONGEST, |wait| wait.min(LONGEST))
}

pub(crate) fn after(moment: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    moment.checked_add(wait).unwrap_or(Timestamp::MAX)
}

/// `10s`, `1m20s`, `5m0s`, as Go writes durations of whole seconds.
pub(crate) fn written(wait: Duration) -> String {
    match (wait.as_secs() / 60, wait.as_secs() % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_restart_is_immediate_and_later_ones_wait_longer_until_it_runs_well() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(RestartBackoff::until(None, at(100), at(100)), None);
        let mut backoff = RestartBackoff::next(None, at(100), at(100));
        let mut waits = Vec::new();
        let mut now = 101;
        for _ in 0..7 {
            let until = RestartBackoff::until(Some(&backoff), at(now), at(now)).unwrap();
            waits.push(until.as_second() - now);
            now = until.as_second();
            assert_eq!(RestartBackoff::until(Some(&backoff), at(now - waits[waits.len() - 1]), at(now)), None);
            backoff = RestartBackoff::next(Some(&backoff), at(now), at(now));
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300]);
        let later = at(now + 601);
        assert_eq!(RestartBackoff::until(Some(&backoff), later, later), None);
        assert_eq!(RestartBackoff::next(Some(&backoff), later, later).wait, FIRST);
    }

    #[test]
    fn a_restarted_agent_waits_as_long_as_the_one_before_would_have() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let cases = [(0, 10), (1, 10), (10, 20), (21, 40), (160, 300), (300, 300), (5000, 300)];
        for (gap, wait) in cases {
            let backoff = RestartBackoff::recalled(at(100), at(100 + gap));
            assert_eq!(backoff.wait, Duration::from_secs(wait), "{gap}");
        }
    }

    #[test]
    fn waits_are_written_as_upstream_writes_them() {
        let cases = [(10, "10s"), (80, "1m20s"), (300, "5m0s")];
        for (seconds, text) in cases {
            assert_eq!(written(Duration::from_secs(seconds)), text);
        }
    }
}
