//! Durations as Go writes them: `1h30m`, `500ms`, `-1.5s`.

const UNITS: [(&str, f64); 8] =
    [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("μs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// A longer number overflows in Go.
const MAX_DIGITS: usize = 18;

/// In seconds; none if Go cannot read it either.
pub fn seconds(text: &str) -> Option<f64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0.0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut sum = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let digits = number.bytes().filter(u8::is_ascii_digit).count();
        // At most one point, and not a point alone.
        if digits == 0 || digits + 1 < number.len() || digits > MAX_DIGITS {
            return None;
        }
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
        sum += number.parse::<f64>().ok()? * scale;
        rest = next;
    }
    Some(sign * sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_read_as_go_reads_it() {
        for (text, expected) in [
            ("5s", 5.0),
            ("1m30s", 90.0),
            ("1500ms", 1.5),
            (".5s", 0.5),
            ("1.s", 1.0),
            ("-3s", -3.0),
            ("+1h", 3600.0),
            ("0", 0.0),
            ("2µs", 2e-6),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        for text in ["", "-", "5", "s", "5x", "1s2", "é", "1e9s", "1..5s", ".s", "1d", "1 s", "1234567890123456789s"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
