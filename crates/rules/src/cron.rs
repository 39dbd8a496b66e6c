//! When a CronJob runs: reads a schedule, and finds the next time.
//!
//! Five fields (minute, hour, day of month, month, day of week), a word such as `@daily`, or `@every 1h30m`. A field is a list of
//! `*`, `?`, numbers, names, ranges and steps: `*/5`, `1-5`, `mon,wed`, `7/2`. If both days are restricted, either will do.
//!
//! Times are those of a wall clock in a time zone. An hour that is skipped when clocks are put forward is not made up for; one
//! that comes twice when they are put back counts twice.
//!
//! ```
//! use pintle_rules::cron::Schedule;
//! let friday: jiff::Timestamp = "2026-01-02T10:00:00Z".parse().unwrap();
//! let schedule = Schedule::parse("30 9 * * mon-fri").unwrap();
//! assert_eq!(schedule.next(friday), Some("2026-01-05T09:30:00Z".parse().unwrap()));
//! ```

mod field;
#[cfg(test)]
mod tests;

use std::fmt;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan, Zoned};
use pintle_meta::duration;

use field::{DAY_OF_MONTH, DAY_OF_WEEK, Field, HOUR, MINUTE, MONTH};

/// A schedule that does not come in so many years never does.
const YEARS: i16 = 5;

/// The words for schedules, and the fields that they stand for.
const WORDS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// A schedule that was read.
#[derive(Clone, Debug)]
pub struct Schedule(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Fields(Box<Fields>),
    /// Again and again after this time.
    Every(SignedDuration),
}

#[derive(Clone, Debug)]
struct Fields {
    minute: Field,
    hour: Field,
    day_of_month: Field,
    month: Field,
    day_of_week: Field,
    zone: TimeZone,
}

/// What is wrong with a schedule, in the words that clients of Kubernetes know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable(String);

impl fmt::Display for Unreadable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}

impl Schedule {
    /// Reads a schedule. Its times are UTC's, unless it says otherwise by `TZ=` or `CRON_TZ=` in front.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        let zone = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ="));
        match zone.map(|rest| rest.split_once(' ')) {
            None => Schedule::parse_in(text, TimeZone::UTC),
            Some(None) => Err(Unreadable("schedule is missing after the time zone".to_owned())),
            Some(Some((name, rest))) => {
                let zone = time_zone(name)
                    .map_err(|problem| Unreadable(format!("provided bad location {name}: {problem}")))?;
                Schedule::parse_in(rest.trim(), zone)
            }
        }
    }

    /// Reads a schedule whose times are those of a zone.
    pub fn parse_in(text: &str, zone: TimeZone) -> Result<Self, Unreadable> {
        if text.is_empty() {
            return Err(Unreadable("empty spec string".to_owned()));
        }
        if let Some(every) = text.strip_prefix("@every ") {
            let seconds = duration::seconds(every).ok_or_else(|| {
                Unreadable(format!("failed to parse duration {text}: time: invalid duration {every:?}"))
            })?;
            return Ok(Schedule(Kind::Every(whole_seconds(seconds))));
        }
        let fields = match text.starts_with('@') {
            true => WORDS.iter().find(|(word, _)| *word == text).map(|(_, fields)| *fields),
            false => Some(text),
        };
        let fields = fields.ok_or_else(|| Unreadable(format!("unrecognized descriptor: {text}")))?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let [minute, hour, day_of_month, month, day_of_week] = fields.as_slice() else {
            let message = format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" "));
            return Err(Unreadable(message));
        };
        Ok(Schedule(Kind::Fields(Box::new(Fields {
            minute: MINUTE.read(minute).map_err(Unreadable)?,
            hour: HOUR.read(hour).map_err(Unreadable)?,
            day_of_month: DAY_OF_MONTH.read(day_of_month).map_err(Unreadable)?,
            month: MONTH.read(month).map_err(Unreadable)?,
            day_of_week: DAY_OF_WEEK.read(day_of_week).map_err(Unreadable)?,
            zone,
        }))))
    }

    /// The first time after this one; none if it does not come within five years.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let second = Timestamp::from_second(after.as_millisecond().div_euclid(1000)).ok()?;
        match &self.0 {
            Kind::Every(time) => second.checked_add(*time).ok(),
            Kind::Fields(fields) => {
                let from = second.checked_add(SignedDuration::from_secs(1)).ok()?.to_zoned(fields.zone.clone());
                fields.first_from(from).map(|found| found.timestamp())
            }
        }
    }
}

impl Fields {
    /// The first time that matches, this one included. What does not match is left by its largest unit.
    fn first_from(&self, from: Zoned) -> Option<Zoned> {
        let last_year = from.year().saturating_add(YEARS);
        let mut time = from;
        while time.year() <= last_year {
            time = if !self.month.has(time.month()) {
                let next_month = time.date().first_of_month().checked_add(1.month()).ok()?;
                next_month.to_zoned(self.zone.clone()).ok()?
            } else if !self.matches_day(&time) {
                time.date().tomorrow().ok()?.to_zoned(self.zone.clone()).ok()?
            } else if !self.hour.has(time.hour()) {
                let past = i64::from(time.minute()) * 60 + i64::from(time.second());
                time.checked_add(SignedDuration::from_secs(3600 - past)).ok()?
            } else if !self.minute.has(time.minute()) || time.second() != 0 {
                time.checked_add(SignedDuration::from_secs(60 - i64::from(time.second()))).ok()?
            } else {
                return Some(time);
            }
        }
        None
    }

    fn matches_day(&self, time: &Zoned) -> bool {
        let of_month = self.day_of_month.has(time.day());
        let of_week = self.day_of_week.has(time.weekday().to_sunday_zero_offset());
        match self.day_of_month.is_any || self.day_of_week.is_any {
            true => of_month && of_week,
            false => of_month || of_week,
        }
    }
}

/// A time zone by its name in the tz database, which comes with the program.
pub fn time_zone(name: &str) -> Result<TimeZone, Unreadable> {
    match name {
        "" | "UTC" => Ok(TimeZone::UTC),
        name => TimeZone::get(name).map_err(|_| Unreadable(format!("unknown time zone {name}"))),
    }
}

/// At least one second, and no fractions.
fn whole_seconds(seconds: f64) -> SignedDuration {
    let whole = SignedDuration::try_from_secs_f64(seconds.trunc()).unwrap_or(SignedDuration::MAX);
    whole.max(SignedDuration::from_secs(1))
}
