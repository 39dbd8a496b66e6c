//! Values that are text only on the wire, and how many bytes they really take.

/// A number that is written again as it was read.
pub(super) fn plain(digits: &[u8]) -> Option<u64> {
    let canonical = matches!(digits, [b'0'] | [b'1'..=b'9', ..]) && digits.len() < 20;
    if !canonical {
        return None;
    }
    let append = |number: u64, digit: &u8| {
        digit.is_ascii_digit().then(|| number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
    };
    // 19 digits fit.
    digits.iter().try_fold(0, append)
}

/// Where the hexadecimal digits of a uid stand, two by two; hyphens stand between them.
const PAIRS: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// What a lower-case hexadecimal digit stands for; above 15 for what is none.
const VALUES: [u8; 256] = {
    let mut values = [255; 256];
    let mut value = 0;
    while value < 16 {
        values[DIGITS[value] as usize] = value as u8;
        value += 1;
    }
    values
};

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// A lower-case uid with hyphens in their places.
pub(super) fn uid_bytes(string: &[u8]) -> Option<[u8; 16]> {
    let string: &[u8; 36] = string.try_into().ok()?;
    if HYPHENS.iter().any(|at| string[*at] != b'-') {
        return None;
    }
    let value_at = |at: usize| VALUES[usize::from(string[at])];
    let strange = PAIRS.iter().fold(0, |all, at| all | value_at(*at) | value_at(at + 1)) > 15;
    (!strange).then(|| PAIRS.map(|at| value_at(at) << 4 | value_at(at + 1)))
}

pub(super) fn write_uid(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    out.push(b'"');
}

/// Where the digits of `2026-11-16T04:05:29Z` stand.
const TIME: &[u8; 20] = b"dddd-dd-ddTdd:dd:ddZ";

pub(super) fn time_digits(string: &[u8]) -> Option<[u8; 7]> {
    if string.len() != TIME.len() || string[19] != b'Z' {
        return None;
    }
    let mut packed = [0; 7];
    let mut digits = 0;
    for (byte, form) in string.iter().zip(TIME) {
        match (form, byte) {
            (b'd', b'0'..=b'9') => {
                packed[digits / 2] |= (byte - b'0') << if digits % 2 == 0 { 4 } else { 0 };
                digits += 1;
            }
            (form, byte) if form == byte && *form != b'd' => {}
            _ => return None,
        }
    }
    Some(packed)
}

pub(super) fn write_time(out: &mut Vec<u8>, packed: &[u8]) {
    let mut digits = packed.iter().flat_map(|two| [two >> 4, two & 15]);
    out.push(b'"');
    out.extend(TIME.iter().map(|form| match form {
        b'd' => b'0' + digits.next().unwrap_or_default(),
        other => *other,
    }));
    out.push(b'"');
}

pub(super) fn quoted(out: &mut Vec<u8>, string: &[u8]) {
    out.push(b'"');
    out.extend_from_slice(string);
    out.push(b'"');
}

pub(super) fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 128 {
        out.push(number as u8 | 128);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(super) fn read_varint(rest: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0u64, 0);
    loop {
        let byte = *take(rest, 1)?.first()?;
        number |= u64::from(byte & 127).checked_shl(shift)?;
        if byte < 128 {
            return Some(number);
        }
        shift += 7;
    }
}

pub(super) fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}
