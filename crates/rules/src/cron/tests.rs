//! What a user of schedules would lose.

use jiff::Timestamp;

use super::{Schedule, time_zone};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The next times after a moment.
fn times(schedule: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let schedule = Schedule::parse_in(schedule, time_zone(zone).unwrap()).unwrap();
    let following = |time: &Timestamp| schedule.next(*time);
    let first = schedule.next(at(after));
    std::iter::successors(first, following).take(count).map(|time| time.to_string()).collect()
}

#[test]
fn a_schedule_comes_when_its_fields_say() {
    let cases: [(&str, &str, &[&str]); 18] = [
        ("* * * * *", "2026-03-01T00:00:30Z", &["2026-03-01T00:01:00Z", "2026-03-01T00:02:00Z"]),
        ("*/20 * * * *", "2026-03-01T00:20:00Z", &["2026-03-01T00:40:00Z", "2026-03-01T01:00:00Z"]),
        ("5/20 * * * *", "2026-03-01T00:05:00Z", &["2026-03-01T00:25:00Z", "2026-03-01T00:45:00Z"]),
        ("10-30/10 4 * * *", "2026-03-01T04:15:00Z", &["2026-03-01T04:20:00Z", "2026-03-01T04:30:00Z"]),
        ("0 9-17 * * MON-FRI", "2026-03-06T17:00:00Z", &["2026-03-09T09:00:00Z"]),
        ("15,45 0 * * *", "2026-03-01T00:15:00Z", &["2026-03-01T00:45:00Z", "2026-03-02T00:15:00Z"]),
        ("0 0 1 jan *", "2026-03-01T00:00:00Z", &["2027-01-01T00:00:00Z"]),
        ("0 0 29 2 *", "2026-03-01T00:00:00Z", &["2028-02-29T00:00:00Z"]),
        ("0 0 31 * *", "2026-03-31T00:00:00Z", &["2026-05-31T00:00:00Z"]),
        // Both days are restricted: either will do.
        ("0 0 13 * fri", "2026-03-01T00:00:00Z", &["2026-03-06T00:00:00Z", "2026-03-13T00:00:00Z"]),
        // One is a star, with a step of one or without: the other one decides.
        ("0 0 13 * ?", "2026-03-01T00:00:00Z", &["2026-03-13T00:00:00Z"]),
        ("0 0 */2 * fri", "2026-03-01T00:00:00Z", &["2026-03-03T00:00:00Z", "2026-03-05T00:00:00Z"]),
        ("@hourly", "2026-03-01T00:30:00Z", &["2026-03-01T01:00:00Z"]),
        ("@daily", "2026-12-31T00:30:00Z", &["2027-01-01T00:00:00Z"]),
        ("@weekly", "2026-03-02T00:30:00Z", &["2026-03-08T00:00:00Z"]),
        ("@monthly", "2026-03-02T00:30:00Z", &["2026-04-01T00:00:00Z"]),
        ("@yearly", "2026-03-02T00:30:00Z", &["2027-01-01T00:00:00Z"]),
        ("@every 1h30m", "2026-03-01T00:00:10.5Z", &["2026-03-01T01:30:10Z", "2026-03-01T03:00:10Z"]),
    ];
    for (schedule, after, expected) in cases {
        assert_eq!(times(schedule, "UTC", after, expected.len()), expected, "{schedule} after {after}");
    }
}

#[test]
fn a_schedule_that_never_comes_does_not_hang() {
    for never in ["0 0 31 2 *", "0 0 30 feb *", ", * * * *", "0 , * * *"] {
        assert!(times(never, "UTC", "2026-03-01T00:00:00Z", 1).is_empty(), "{never}");
    }
}

#[test]
fn wall_clocks_decide_also_when_they_are_changed() {
    let cases: [(&str, &str, &str, &[&str]); 5] = [
        ("30 9 * * *", "Europe/Berlin", "2026-01-01T00:00:00Z", &["2026-01-01T08:30:00Z"]),
        ("30 9 * * *", "Asia/Kolkata", "2026-01-01T00:00:00Z", &["2026-01-01T04:00:00Z"]),
        // 02:30 is skipped on the 29th of March.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", &["2026-03-30T00:30:00Z"]),
        ("0 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", &["2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"]),
        // 02:30 comes twice on the 25th of October.
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", &["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]),
    ];
    for (schedule, zone, after, expected) in cases {
        let found = times(schedule, zone, after, expected.len());
        assert_eq!(found, expected, "{schedule} {zone}");
    }
}

#[test]
fn a_zone_may_stand_in_front() {
    let schedule = Schedule::parse("TZ=Asia/Tokyo 0 9 * * *").unwrap();
    assert_eq!(schedule.next(at("2026-01-01T01:00:00Z")), Some(at("2026-01-02T00:00:00Z")));
    assert!(Schedule::parse("CRON_TZ=Asia/Tokyo @every 1m").is_ok());
}

#[test]
fn what_is_wrong_is_said_as_kubernetes_says_it() {
    let cases = [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("0 * * * * *", "expected exactly 5 fields, found 6: [0 * * * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("*/-1 * * * *", "negative number (-1) not allowed: -1"),
        ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
        ("-5 * * * *", "failed to parse int from : strconv.Atoi: parsing \"\": invalid syntax"),
        ("* * * foo *", "failed to parse int from foo: strconv.Atoi: parsing \"foo\": invalid syntax"),
        ("@sometimes", "unrecognized descriptor: @sometimes"),
        ("@every soon", "failed to parse duration @every soon: time: invalid duration \"soon\""),
        ("TZ=Middle/Earth 0 0 * * *", "provided bad location Middle/Earth: unknown time zone Middle/Earth"),
    ];
    for (schedule, problem) in cases {
        assert_eq!(Schedule::parse(schedule).unwrap_err().to_string(), problem, "{schedule:?}");
    }
    for odd in ["TZ=UTC", "99999999999999999999 * * * *", "*/99999999999 * * * *", "é * * * *", "TZ=é é", "@every -1h"]
    {
        // None of them may panic.
        let _ = Schedule::parse(odd).map(|schedule| schedule.next(at("2026-01-01T00:00:00Z")));
    }
}

#[test]
fn every_is_never_shorter_than_a_second() {
    assert_eq!(times("@every 10ms", "UTC", "2026-01-01T00:00:00Z", 1), ["2026-01-01T00:00:01Z"]);
    assert_eq!(times("@every 1999ms", "UTC", "2026-01-01T00:00:00Z", 1), ["2026-01-01T00:00:01Z"]);
}
