//! The string formats that a custom type may ask for. A format that is not known asks for nothing.

use crate::scalar;
use std::net::{Ipv4Addr, Ipv6Addr};

pub fn fits(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => is_date_time(text),
        "date" => text.len() == 10 && scalar::canonical_time(&format!("{text}T00:00:00Z")).is_some(),
        "duration" => is_duration(text),
        "byte" => scalar::canonical_base64(text).is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "uri" => is_uri(text),
        "hostname" => is_hostname(text),
        "email" => text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && is_hostname(host)),
        "mac" => is_mac(text),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => is_uuid(format, text),
        _ => true,
    }
}

fn is_date_time(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    scalar::canonical_time(&upper).is_some() || scalar::canonical_time(&format!("{upper}Z")).is_some()
}

/// `300ms`, `1h30m`, and whole days and weeks as in `2 days`.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 25] = [
        "ns", "nano", "us", "µs", "μs", "micro", "ms", "milli", "s", "sec", "secs", "m", "min", "mins", "h", "hr",
        "hour", "hours", "d", "day", "days", "w", "wk", "week", "weeks",
    ];
    let mut rest = text.trim_start_matches(['+', '-']);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        if digits == 0 || rest[..digits].bytes().all(|byte| byte == b'.') {
            return false;
        }
        rest = rest[digits..].trim_start();
        let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.' || c == ' ').unwrap_or(rest.len());
        if !UNITS.contains(&&rest[..unit]) {
            return false;
        }
        rest = rest[unit..].trim_start();
    }
    true
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let Ok(bits) = bits.parse::<u8>() else { return false };
    (address.parse::<Ipv4Addr>().is_ok() && bits <= 32) || (address.parse::<Ipv6Addr>().is_ok() && bits <= 128)
}

/// An absolute URI or an absolute path, as the API's own check takes them.
fn is_uri(text: &str) -> bool {
    if text.chars().any(|c| c.is_control() || c == ' ') {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    let Some((scheme, _)) = text.split_once(':') else { return false };
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 255 && text.strip_suffix('.').unwrap_or(text).split('.').all(label)
}

fn is_mac(text: &str) -> bool {
    let separator = if text.contains('-') { '-' } else { ':' };
    let pairs: Vec<&str> = text.split(separator).collect();
    matches!(pairs.len(), 6 | 8 | 20)
        && pairs.iter().all(|pair| pair.len() == 2 && pair.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn is_uuid(format: &str, text: &str) -> bool {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let dashes = text.len() - digits.len();
    let sound = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) && matches!(dashes, 0 | 4);
    match format.strip_prefix("uuid") {
        Some("") | None => sound,
        Some(version) => sound && digits.get(12..13) == Some(version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_take_what_they_should() {
        let cases = [
            ("date-time", "2026-01-01T00:00:00Z", true),
            ("date-time", "yesterday", false),
            ("date", "2026-02-29", false),
            ("duration", "1h30m", true),
            ("duration", "1 fortnight", false),
            ("ipv4", "10.0.0.1", true),
            ("ipv6", "10.0.0.1", false),
            ("cidr", "10.0.0.0/33", false),
            ("uri", "https://a.b/c", true),
            ("uri", "a b", false),
            ("hostname", "a-.b", false),
            ("mac", "00:11:22:33:44:55", true),
            ("uuid4", "6f1b3f0e-8a6b-4a53-9c1e-0d6a3e3f0a11", true),
            ("uuid3", "6f1b3f0e-8a6b-4a53-9c1e-0d6a3e3f0a11", false),
            ("no-such-format", "anything", true),
        ];
        for (format, text, wanted) in cases {
            assert_eq!(fits(format, text), wanted, "{format} {text}");
        }
    }
}
