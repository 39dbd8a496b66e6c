//! Which time of a schedule has come and was not met, and when the next one comes.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pintle_rules::cron::Schedule;

/// A key comes back a little later than its time, for clocks that are not quite the same.
const LATER: Duration = Duration::from_millis(100);

/// With more missed times than this something is wrong.
const MANY: i64 = 100;

/// The last time that was missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missed {
    pub(super) last: Option<Timestamp>,
    /// Whether there are more than a hundred, roughly.
    pub(super) is_many: bool,
    /// Whether there are any at all.
    pub(super) is_any: bool,
}

/// The schedule can be read, but has no sense: the 31st of February.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time difference between two schedules is less than 1 second")]
pub(super) struct Senseless;

/// What was missed after `earliest`.
pub(super) fn missed(schedule: &Schedule, earliest: Timestamp, now: Timestamp) -> Result<Missed, Senseless> {
    let none = Missed { last: None, is_many: false, is_any: false };
    let first = schedule.next(earliest).ok_or(Senseless)?;
    if now < first {
        return Ok(none);
    }
    let Some(second) = schedule.next(first) else { return Err(Senseless) };
    if now < second {
        return Ok(Missed { last: Some(first), ..none });
    }
    // Roughly how many: as if all were as far from each other as these two.
    let apart = second.duration_since(first).as_secs().max(1);
    let count = now.duration_since(first).as_secs() / apart + 1;
    // The last one is looked for from a little before the place where it would be then.
    let before = SignedDuration::from_secs((count - 2).saturating_mul(apart));
    let from = first.checked_add(before).unwrap_or(first);
    let following = |time: &Timestamp| schedule.next(*time);
    let last = std::iter::successors(schedule.next(from), following).take_while(|time| *time <= now).last();
    Ok(Missed { last, is_many: count > MANY, is_any: true })
}

/// How long until the next time that has not come yet.
pub(super) fn wait(schedule: &Schedule, earliest: Timestamp, now: Timestamp) -> Option<Duration> {
    let after = match missed(schedule, earliest, now) {
        Ok(Missed { last: Some(last), .. }) => last,
        Ok(Missed { is_any: false, .. }) => earliest,
        Ok(_) | Err(Senseless) => now,
    };
    let left = schedule.next(after)?.duration_since(now);
    Some(Duration::try_from(left).unwrap_or(Duration::ZERO).saturating_add(LATER))
}
