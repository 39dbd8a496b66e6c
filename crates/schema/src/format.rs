//! The formats that a custom type may ask for, and which values have them. A format that is not known asks for nothing.

mod codes;
mod network;

use crate::scalar;

/// The formats of strings that values are checked against. Dashes in a format's name do not count.
const STRING_FORMATS: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Whether a format means something for values of this type; an empty type is any.
pub fn is_recognized(value_type: &str, format: &str) -> bool {
    match value_type {
        "" | "string" => STRING_FORMATS.contains(&normalized(format).as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Whether a text has the format.
pub fn fits(format: &str, text: &str) -> bool {
    match normalized(format).as_str() {
        "datetime" => is_date_time(text),
        "date" => is_date(text),
        "duration" => is_duration(text),
        "ipv4" => network::is_ipv4(text),
        "ipv6" => network::is_ipv6(text),
        "cidr" => network::is_cidr(text),
        "uri" => network::is_request_uri(text),
        "hostname" => network::is_hostname(text),
        "email" => network::is_email(text),
        "mac" => network::is_mac(text),
        "k8sshortname" => text.len() <= 63 && network::is_kubernetes_label(text),
        "k8slongname" => text.len() <= 253 && text.split('.').all(network::is_kubernetes_label),
        "byte" => codes::is_base64(text),
        "uuid" => codes::is_uuid(text, None),
        "uuid3" => codes::is_uuid(text, Some('3')),
        "uuid4" => codes::is_uuid(text, Some('4')),
        "uuid5" => codes::is_uuid(text, Some('5')),
        "bsonobjectid" => text.len() == 24 && codes::is_hexadecimal(text),
        "isbn" => codes::is_isbn10(text) || codes::is_isbn13(text),
        "isbn10" => codes::is_isbn10(text),
        "isbn13" => codes::is_isbn13(text),
        "creditcard" => codes::is_credit_card(text),
        "ssn" => codes::is_social_security_number(text),
        "hexcolor" => codes::is_hex_color(text),
        "rgbcolor" => codes::is_rgb_color(text),
        _ => true,
    }
}

fn normalized(format: &str) -> String {
    format.replace('-', "")
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && scalar::canonical_time(&format!("{text}T00:00:00Z")).is_some()
}

/// RFC 3339, in either case. Its zone is required, its second is at most 59, and its zone may be any two pairs of digits.
fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let (clock, rest) = time.split_at_checked(8).unwrap_or((time, ""));
    let pair = |text: &str, most: &str| text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit()) && text <= most;
    let clock: Vec<&str> = clock.split(':').collect();
    let [hour, minute, second] = clock.as_slice() else { return false };
    let zone = |text: &str| {
        let offset = text.strip_prefix(['+', '-']).and_then(|offset| offset.split_once(':'));
        text == "z" || offset.is_some_and(|(hours, minutes)| pair(hours, "99") && pair(minutes, "99"))
    };
    // What stands before the fraction may be any character.
    let mut characters = rest.chars();
    characters.next();
    let fraction = characters.as_str();
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    is_date(date)
        && pair(hour, "23")
        && pair(minute, "59")
        && pair(second, "59")
        && (zone(rest) || (digits > 0 && zone(&fraction[digits..])))
}

/// `1h30m` as Go writes it, or a text with at least one count and unit as in `2 days`.
fn is_duration(text: &str) -> bool {
    pintle_meta::duration::seconds(text).is_some() || has_counted_unit(text)
}

fn has_counted_unit(text: &str) -> bool {
    /// The last name of a unit may go on: `hours`, `seconds`.
    const UNITS: [&[&str]; 8] = [
        &["ns", "nano"],
        &["us", "µs", "micro"],
        &["ms", "milli"],
        &["s", "sec"],
        &["m", "min"],
        &["h", "hr", "hour"],
        &["d", "day"],
        &["w", "wk", "week"],
    ];
    let is_unit = |word: &str| {
        UNITS.iter().any(|names| names.contains(&word) || names.last().is_some_and(|stem| word.starts_with(stem)))
    };
    let mut rest = text;
    let mut found = false;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let counted = &rest[start..];
        let digits = counted.find(|c: char| !c.is_ascii_digit()).unwrap_or(counted.len());
        let after = counted[digits..].trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
        let length = after.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(after.len());
        if length > 0 {
            // A count that no integer holds fails the whole text.
            if counted[..digits].parse::<i64>().is_err() {
                return false;
            }
            found |= is_unit(&after[..length].to_lowercase());
        }
        rest = &after[length..];
    }
    found
}

#[cfg(test)]
mod tests;
