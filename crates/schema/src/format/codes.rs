//! Formats of numbers and codes: identifiers with check digits, colours, encoded bytes.

pub(super) fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// 8-4-4-4-12 digits; each dash may be left out. A version has its digit, and from the fourth on a variant too.
pub(super) fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut rest = text;
    let mut groups = Vec::with_capacity(5);
    for (at, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if at > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        match rest.split_at_checked(length) {
            Some((group, after)) if is_hexadecimal(group) => {
                groups.push(group);
                rest = after;
            }
            _ => return false,
        }
    }
    let variant = || groups[3].starts_with(['8', '9', 'a', 'b', 'A', 'B']);
    rest.is_empty() && version.is_none_or(|version| groups[2].starts_with(version) && (version == '3' || variant()))
}

/// Base64 with its padding; nothing at all is not base64.
pub(super) fn is_base64(text: &str) -> bool {
    let data = text.trim_end_matches('=');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - data.len() <= 2
        && data.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/')
}

pub(super) fn is_isbn10(text: &str) -> bool {
    let digits = without_separators(text);
    let Some((body, last)) = digits.split_at_checked(9) else { return false };
    let check = match last {
        "X" => 10,
        last if last.len() == 1 => match last.parse::<u32>() {
            Ok(digit) => digit,
            Err(_) => return false,
        },
        _ => return false,
    };
    all_digits(body) && (weighted(body, |at| at + 1) + 10 * check).is_multiple_of(11)
}

pub(super) fn is_isbn13(text: &str) -> bool {
    let digits = without_separators(text);
    digits.len() == 13
        && all_digits(&digits)
        && weighted(&digits, |at| if at.is_multiple_of(2) { 1 } else { 3 }).is_multiple_of(10)
}

fn without_separators(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_whitespace() && *c != '-').collect()
}

fn all_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn weighted(digits: &str, weight: impl Fn(u32) -> u32) -> u32 {
    digits.bytes().zip(0..).map(|(byte, at)| weight(at) * u32::from(byte - b'0')).sum()
}

/// The digits of a card of a known issuer, with anything between them, and a check digit that is right.
pub(super) fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let starts = |length: usize, from: u32, to: u32| {
        digits.get(..length).and_then(|start| start.parse().ok()).is_some_and(|start: u32| (from..=to).contains(&start))
    };
    let issued = match digits.len() {
        13 => starts(1, 4, 4),
        14 => starts(3, 300, 305) || starts(2, 36, 36) || starts(2, 38, 38),
        15 => starts(2, 34, 34) || starts(2, 37, 37) || starts(4, 2131, 2131) || starts(4, 1800, 1800),
        16 => starts(1, 4, 4) || starts(2, 51, 55) || starts(4, 6011, 6011) || starts(2, 65, 65) || starts(2, 35, 35),
        _ => false,
    };
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(at, byte)| match u32::from(byte - b'0') {
            digit if at.is_multiple_of(2) => digit,
            digit => digit * 2 / 10 + digit * 2 % 10,
        })
        .sum();
    issued && sum.is_multiple_of(10)
}

/// `123-45-6789`; the separators may be spaces.
pub(super) fn is_social_security_number(text: &str) -> bool {
    text.len() == 11
        && text.bytes().enumerate().all(|(at, byte)| match at {
            3 | 6 => byte == b'-' || byte == b' ',
            _ => byte.is_ascii_digit(),
        })
}

pub(super) fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && is_hexadecimal(digits)
}

/// `rgb(255, 0, 127)`
pub(super) fn is_rgb_color(text: &str) -> bool {
    let Some(inside) = text.strip_prefix("rgb(").and_then(|text| text.strip_suffix(')')) else { return false };
    let part = |text: &str| {
        let text = text.trim_matches([' ', '\t', '\n', '\r', '\u{c}']);
        all_digits(text) && (text == "0" || !text.starts_with('0')) && text.parse::<u8>().is_ok()
    };
    inside.split(',').count() == 3 && inside.split(',').all(part)
}
