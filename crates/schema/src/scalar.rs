//! Scalars with a written form of their own: times and base64, with the words the API uses when they are wrong.

use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, Engine};

/// Reads an RFC 3339 time and writes it in UTC with whole seconds, as every `meta.v1.Time` is written.
pub fn canonical_time(text: &str) -> Option<String> {
    let parts = parse_time(text)?;
    Some(write_time(parts.seconds, None))
}

/// The same with six digits after the second, as every `meta.v1.MicroTime` is written.
pub fn canonical_micro_time(text: &str) -> Option<String> {
    let parts = parse_time(text)?;
    Some(write_time(parts.seconds, Some(parts.nanos / 1000)))
}

/// Seconds since 1970 of an RFC 3339 time.
pub fn unix_seconds(text: &str) -> Option<i64> {
    parse_time(text).map(|parts| parts.seconds)
}

/// Seconds since 1970 of an RFC 3339 time, and the nanoseconds after them.
pub(crate) fn unix_time(text: &str) -> Option<(i64, u32)> {
    parse_time(text).map(|parts| (parts.seconds, parts.nanos))
}

/// A moment as the API writes it; nothing outside the years that a calendar has.
pub fn time_from_unix(seconds: i64, nanos: i64, micro: bool) -> Option<String> {
    const FIRST: i64 = -62_135_596_800;
    const LAST: i64 = 253_402_300_799;
    let micros = u32::try_from(nanos.clamp(0, 999_999_999) / 1000).ok()?;
    (FIRST..=LAST).contains(&seconds).then(|| write_time(seconds, micro.then_some(micros)))
}

/// Why a time is refused.
pub fn time_error(text: &str, micro: bool) -> String {
    let layout = if micro { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
    // The decoder names the first part of the layout that does not fit, and what was left of the text there.
    let (rest, part) = first_misfit(text);
    format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {part:?}")
}

/// Reads standard base64 as the API's decoder does, over line ends and stray last bits, and writes it anew.
pub fn canonical_base64(text: &str) -> Result<String, String> {
    let lenient = GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
    let engine = GeneralPurpose::new(&base64::alphabet::STANDARD, lenient);
    let joined: String;
    let text = if text.contains(['\n', '\r']) {
        joined = text.replace(['\n', '\r'], "");
        &joined
    } else {
        text
    };
    let broken_at = match engine.decode(text) {
        Ok(bytes) => return Ok(engine.encode(bytes)),
        Err(DecodeError::InvalidByte(offset, _) | DecodeError::InvalidLastSymbol(offset, _)) => offset,
        // Too short: where padding is missing, the end; where it is absent, the start of the last group.
        Err(_) if text.ends_with('=') => text.len(),
        Err(_) => text.len() - text.len() % 4,
    };
    Err(format!("illegal base64 data at input byte {broken_at}"))
}

struct Parts {
    seconds: i64,
    nanos: u32,
}

fn parse_time(text: &str) -> Option<Parts> {
    let (date, rest) = (text.get(..10)?, text.get(10..)?);
    let (year, month, day) = (number(date, 0, 4)?, number(date, 5, 7)?, number(date, 8, 10)?);
    let separators = date.as_bytes();
    if separators[4] != b'-' || separators[7] != b'-' {
        return None;
    }
    let time = rest.strip_prefix('T')?;
    let (hour, minute, second) = (number(time, 0, 2)?, number(time, 3, 5)?, number(time, 6, 8)?);
    let bytes = time.as_bytes();
    if bytes[2] != b':' || bytes[5] != b':' || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    let mut zone = time.get(8..)?;
    let mut nanos = 0;
    if let Some(fraction) = zone.strip_prefix('.') {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return None;
        }
        let shown: String = fraction[..digits].chars().chain("000000000".chars()).take(9).collect();
        nanos = shown.parse().ok()?;
        zone = &fraction[digits..];
    }
    let offset = match zone.as_bytes() {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let (hours, minutes) = (number(zone, 1, 3)?, number(zone, 4, 6)?);
            if hours > 24 || minutes > 60 {
                return None;
            }
            let offset = hours * 3600 + minutes * 60;
            if *sign == b'-' { -offset } else { offset }
        }
        _ => return None,
    };
    let seconds = days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    Some(Parts { seconds, nanos })
}

fn number(text: &str, from: usize, to: usize) -> Option<i64> {
    let digits = text.get(from..to)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

fn first_misfit(text: &str) -> (&str, &'static str) {
    const PARTS: [(&str, usize); 11] = [
        ("2006", 4),
        ("-", 1),
        ("01", 2),
        ("-", 1),
        ("02", 2),
        ("T", 1),
        ("15", 2),
        (":", 1),
        ("04", 2),
        (":", 1),
        ("05", 2),
    ];
    let mut rest = text;
    for (part, length) in PARTS {
        let fits = match rest.get(..length) {
            Some(head) if part.len() == 1 => head == part,
            Some(head) => head.bytes().all(|byte| byte.is_ascii_digit()),
            None => false,
        };
        if !fits {
            return (rest, part);
        }
        rest = &rest[length..];
    }
    (rest, "Z07:00")
}

fn write_time(seconds: i64, micros: Option<u32>) -> String {
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil_from_days(days);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let fraction = micros.map(|micros| format!(".{micros:06}")).unwrap_or_default();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01, counting years from March so that the leap day comes last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_stored_in_utc() {
        let cases = [
            ("2026-01-02T03:04:05Z", Some("2026-01-02T03:04:05Z")),
            ("2026-01-01T00:30:00+01:00", Some("2025-12-31T23:30:00Z")),
            ("2024-02-29T12:00:00.999Z", Some("2024-02-29T12:00:00Z")),
            ("2023-02-29T12:00:00Z", None),
            ("2026-01-02 03:04:05Z", None),
            ("ü026-01-02T03:04:05Z", None),
            ("", None),
        ];
        for (given, wanted) in cases {
            assert_eq!(canonical_time(given).as_deref(), wanted, "{given}");
        }
        assert_eq!(canonical_micro_time("2026-01-02T03:04:05.1Z").as_deref(), Some("2026-01-02T03:04:05.100000Z"));
    }

    #[test]
    fn broken_base64_names_the_byte() {
        let broken = |offset| Err(format!("illegal base64 data at input byte {offset}"));
        let cases = [
            ("aGVsbG8=", Ok("aGVsbG8=".to_owned())),
            ("aGVs\nbG8=\n", Ok("aGVsbG8=".to_owned())),
            ("not base64", broken(3)),
            ("aGVsbG8", broken(4)),
            ("", Ok(String::new())),
        ];
        for (given, wanted) in cases {
            assert_eq!(canonical_base64(given), wanted, "{given}");
        }
    }

    #[test]
    fn a_wrong_time_says_where_it_went_wrong() {
        let message = "parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"";
        assert_eq!(time_error("x", false), message);
    }
}
