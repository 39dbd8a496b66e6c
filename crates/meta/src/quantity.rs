//! Amounts such as `500m`, `1Gi` and `1e3`: parsed exactly, compared by value, written in one canonical form.

use std::cmp::Ordering;
use std::fmt;

/// How an amount is written: powers of 1000, powers of 1024, or an exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Decimal,
    Binary,
    Exponent,
}

/// An exact amount: `nanos` billionths. Finer parts are rounded up, as the API does.
///
/// `1500m` is 1_500_000_000 nanos, `1Ki` is 1_024_000_000_000.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
pub struct QuantityError;

const NANO: i128 = 1_000_000_000;

impl Quantity {
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let negative = text.starts_with('-');
        let digits_end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(digits_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(QuantityError);
        }
        let (multiply, divide, format) = scale(suffix).ok_or(QuantityError)?;
        let mut numerator: i128 = 0;
        let mut denominator: i128 = divide;
        for digit in whole.bytes().chain(fraction.bytes()) {
            // Far beyond any real amount: saturate rather than fail, as the API caps amounts.
            numerator = numerator.saturating_mul(10).saturating_add(i128::from(digit - b'0'));
        }
        for _ in 0..fraction.len().min(30) {
            denominator = denominator.saturating_mul(10);
        }
        let scaled = numerator.saturating_mul(multiply).saturating_mul(NANO);
        let rounded = scaled / denominator + i128::from(scaled % denominator != 0);
        Ok(Quantity { nanos: if negative { -rounded } else { rounded }, format })
    }

    pub fn from_units(units: i64) -> Self {
        Quantity { nanos: i128::from(units) * NANO, format: Format::Decimal }
    }

    /// Written in powers of 1024.
    pub fn from_bytes(bytes: i64) -> Self {
        Quantity { format: Format::Binary, ..Quantity::from_units(bytes) }
    }

    pub fn from_milli(milli: i64) -> Self {
        Quantity { nanos: i128::from(milli) * (NANO / 1000), format: Format::Decimal }
    }

    /// Whole units, rounded up.
    pub fn units(&self) -> i64 {
        clamp(div_up(self.nanos, NANO))
    }

    /// Thousandths, rounded up.
    pub fn milli(&self) -> i64 {
        clamp(div_up(self.nanos, NANO / 1000))
    }

    /// As near as a float can be.
    pub fn approximate(&self) -> f64 {
        self.nanos as f64 / NANO as f64
    }

    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// The same in whole units, rounded up.
    #[must_use]
    pub fn rounded_up(self) -> Self {
        Quantity { nanos: div_up(self.nanos, NANO).saturating_mul(NANO), ..self }
    }

    pub fn is_whole(&self) -> bool {
        self.nanos % NANO == 0
    }
}

/// The canonical form of an amount, or nothing if it is not one.
pub fn canonical(text: &str) -> Option<String> {
    Quantity::parse(text).ok().map(|q| q.to_string())
}

fn clamp(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

fn div_up(value: i128, by: i128) -> i128 {
    value / by + i128::from(value % by > 0)
}

fn scale(suffix: &str) -> Option<(i128, i128, Format)> {
    use Format::{Binary, Decimal, Exponent};
    let kilo = |n: u32| 1000_i128.pow(n);
    let kibi = |n: u32| 1024_i128.pow(n);
    Some(match suffix {
        "" => (1, 1, Decimal),
        "n" => (1, kilo(3), Decimal),
        "u" => (1, kilo(2), Decimal),
        "m" => (1, kilo(1), Decimal),
        "k" => (kilo(1), 1, Decimal),
        "M" => (kilo(2), 1, Decimal),
        "G" => (kilo(3), 1, Decimal),
        "T" => (kilo(4), 1, Decimal),
        "P" => (kilo(5), 1, Decimal),
        "E" => (kilo(6), 1, Decimal),
        "Ki" => (kibi(1), 1, Binary),
        "Mi" => (kibi(2), 1, Binary),
        "Gi" => (kibi(3), 1, Binary),
        "Ti" => (kibi(4), 1, Binary),
        "Pi" => (kibi(5), 1, Binary),
        "Ei" => (kibi(6), 1, Binary),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = 10_i128.checked_pow(exponent.unsigned_abs().min(27))?;
            if exponent < 0 { (1, power, Exponent) } else { (power, 1, Exponent) }
        }
    })
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let sign = if self.nanos < 0 { "-" } else { "" };
        let nanos = self.nanos.abs();
        // A binary amount below 1024 or with a fraction is written in decimal form.
        if self.format == Format::Binary && nanos >= 1024 * NANO && nanos % NANO == 0 {
            let mut value = nanos / NANO;
            let mut power = 0;
            while value % 1024 == 0 && power < 6 {
                value /= 1024;
                power += 1;
            }
            return write!(f, "{sign}{value}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power]);
        }
        let mut value = nanos;
        let mut power = 0;
        while value % 1000 == 0 && power < 9 {
            value /= 1000;
            power += 1;
        }
        match (self.format, power as i32 * 3 - 9) {
            (Format::Exponent, 0) => write!(f, "{sign}{value}"),
            (Format::Exponent, exponent) => write!(f, "{sign}{value}e{exponent}"),
            _ => write!(f, "{sign}{value}{}", ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][power]),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl std::ops::Add for Quantity {
    type Output = Quantity;

    fn add(self, other: Quantity) -> Quantity {
        let format = if self.nanos == 0 { other.format } else { self.format };
        Quantity { nanos: self.nanos.saturating_add(other.nanos), format }
    }
}

impl std::ops::Sub for Quantity {
    type Output = Quantity;

    fn sub(self, other: Quantity) -> Quantity {
        let format = if self.nanos == 0 { other.format } else { self.format };
        Quantity { nanos: self.nanos.saturating_sub(other.nanos), format }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_in_their_canonical_form() {
        for (given, written) in [
            ("0", "0"),
            ("1", "1"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5Gi", "1536Mi"),
            ("1024Mi", "1Gi"),
            ("100Mi", "100Mi"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("1e3", "1e3"),
            ("0.1Ki", "102400m"),
            ("-1", "-1"),
            ("+2", "2"),
            ("12e6", "12e6"),
            ("1.", "1"),
            (".5", "500m"),
            ("1E", "1E"),
            ("1n", "1n"),
            ("0.0000000001", "1n"),
            ("512Ki", "512Ki"),
            ("1000Ki", "1000Ki"),
        ] {
            assert_eq!(canonical(given).as_deref(), Some(written), "{given}");
        }
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for bad in ["", "x", "1x", "1.2.3", "1 Gi", "--1", "e3", ".", "1ki", "1e"] {
            assert_eq!(canonical(bad), None, "{bad}");
        }
        assert!(Quantity::parse(&"9".repeat(200)).is_ok());
    }

    #[test]
    fn amounts_compare_and_add_by_value() {
        let q = |t: &str| Quantity::parse(t).unwrap();
        assert_eq!(q("1Gi"), q("1024Mi"));
        assert!(q("999m") < q("1"));
        assert_eq!((q("500m") + q("1")).milli(), 1500);
        assert_eq!((q("1Gi") - q("512Mi")).to_string(), "512Mi");
        assert_eq!(q("100m").units(), 1);
    }
}
