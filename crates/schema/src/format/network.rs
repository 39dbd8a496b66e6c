//! Formats of names and addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address with a point in it; IPv4 numbers may have leading zeros.
pub(super) fn is_ipv4(text: &str) -> bool {
    text.contains('.') && sloppy(text).is_some()
}

pub(super) fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = match sloppy(address) {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => return false,
    };
    !bits.is_empty()
        && bits.bytes().all(|byte| byte.is_ascii_digit())
        && bits.parse::<u32>().is_ok_and(|bits| bits <= most)
}

/// Reads an address as Go did before it refused leading zeros.
fn sloppy(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    let mut octets = [0u8; 4];
    let parts: Vec<&str> = text.split('.').collect();
    if parts.len() != octets.len() {
        return None;
    }
    for (octet, part) in octets.iter_mut().zip(parts) {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let significant = part.trim_start_matches('0');
        *octet = match significant {
            "" if digits => 0,
            _ if digits => significant.parse().ok()?,
            _ => return None,
        };
    }
    Some(IpAddr::V4(Ipv4Addr::from(octets)))
}

/// One word with at most one dash, as its second character, or labels under a top-level domain of letters.
pub(super) fn is_hostname(text: &str) -> bool {
    if text.len() > 255 || text.split('.').any(|label| label.len() > 63) {
        return false;
    }
    let word = |text: &str| text.chars().all(is_host_character);
    if !text.contains('.') {
        let mut rest = text.chars();
        let first = rest.next().is_some_and(is_host_character);
        let rest = rest.as_str();
        return first && word(rest.strip_prefix('-').unwrap_or(rest)) && rest.chars().count() <= 63;
    }
    let mut labels: Vec<&str> = text.split('.').collect();
    let top = labels.pop().unwrap_or_default();
    let label = |text: &&str| {
        let inside = text.chars().all(|c| is_host_character(c) || c == '-');
        inside && !text.is_empty() && !text.starts_with('-') && !text.ends_with('-')
    };
    top.chars().count() >= 2 && top.chars().all(char::is_alphabetic) && labels.iter().all(label)
}

/// Letters of any script, digits, and symbols such as emoji.
fn is_host_character(c: char) -> bool {
    const ASCII_SYMBOLS: &str = "$+<=>^`|~";
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || ASCII_SYMBOLS.contains(c);
    }
    c.is_alphabetic() || is_symbol(c)
}

/// The blocks in which nearly all characters are symbols.
fn is_symbol(c: char) -> bool {
    matches!(u32::from(c),
        0x2044 | 0x2052 | 0x20A0..=0x20C0 | 0x2100..=0x214F | 0x2190..=0x23FF | 0x2400..=0x27BF | 0x2900..=0x2BFF
        | 0x1F000..=0x1FAFF)
}

/// Six, eight or twenty octets, in pairs of digits or in groups of four.
pub(super) fn is_mac(text: &str) -> bool {
    let groups = |separator: char, digits: usize, counts: [usize; 3]| {
        let groups: Vec<&str> = text.split(separator).collect();
        counts.contains(&groups.len())
            && groups.iter().all(|group| group.len() == digits && group.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    groups(':', 2, [6, 8, 20]) || groups('-', 2, [6, 8, 20]) || groups('.', 4, [3, 4, 10])
}

pub(super) fn is_kubernetes_label(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = |byte: Option<&u8>| byte.is_some_and(|byte| letter(*byte));
    let bytes = text.as_bytes();
    ends(bytes.first()) && ends(bytes.last()) && bytes.iter().all(|byte| letter(*byte) || *byte == b'-')
}

/// An absolute URI or an absolute path, as one stands in an HTTP request.
pub(super) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.chars().any(|c| c.is_ascii_control()) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Some((scheme, rest)) = split_scheme(text) else { return false };
    let rest = rest.split_once('?').map_or(rest, |(before, _)| before);
    if !rest.starts_with('/') {
        return !scheme.is_empty();
    }
    let Some(after) = rest.strip_prefix("//").filter(|_| !scheme.is_empty() || !rest.starts_with("///")) else {
        return has_sound_escapes(rest);
    };
    let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
    is_authority(authority) && has_sound_escapes(path)
}

/// The scheme, if there is one, and what follows its colon; nothing when the scheme is missing before a colon.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    for (index, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if index > 0 => {}
            ':' if index > 0 => return Some((&text[..index], &text[index + 1..])),
            ':' => return None,
            _ => break,
        }
    }
    Some(("", text))
}

fn is_authority(text: &str) -> bool {
    let host = match text.rsplit_once('@') {
        Some((user, host)) => {
            let sound = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
            if !user.chars().all(sound) || !has_sound_escapes(user) {
                return false;
            }
            host
        }
        None => text,
    };
    let port = |text: &str| {
        text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if let Some(literal) = host.strip_prefix('[') {
        return literal.rsplit_once(']').is_some_and(|(_, rest)| port(rest));
    }
    let (name, after) = host.split_at(host.rfind(':').unwrap_or(host.len()));
    let sound = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:[]<>\"%".contains(c);
    port(after) && name.chars().all(sound) && has_sound_escapes(name)
}

fn has_sound_escapes(text: &str) -> bool {
    text.split('%')
        .skip(1)
        .all(|after| after.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)))
}

/// An address alone, or a name before one in angle brackets.
pub(super) fn is_email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    if is_address(text) {
        return true;
    }
    let Some((name, address)) = text.strip_suffix('>').and_then(|text| text.rsplit_once('<')) else { return false };
    is_display_name(name) && is_address(address.trim_matches([' ', '\t']))
}

fn is_address(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let literal = domain.strip_prefix('[').and_then(|domain| domain.strip_suffix(']'));
    let domain = literal.map_or_else(|| is_dot_atom(domain), |address| sloppy(address).is_some());
    domain && (is_dot_atom(local) || is_quoted(local))
}

fn is_dot_atom(text: &str) -> bool {
    text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom_character))
}

fn is_atom_character(c: char) -> bool {
    !c.is_ascii() || c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c)
}

fn is_quoted(text: &str) -> bool {
    let Some(inside) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else { return false };
    let mut characters = inside.chars();
    while let Some(c) = characters.next() {
        let sound = match c {
            '"' => false,
            '\\' => characters.next().is_some(),
            c => !c.is_ascii_control() || c == '\t',
        };
        if !sound {
            return false;
        }
    }
    true
}

fn is_display_name(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    text.is_empty()
        || is_quoted(text)
        || text.split([' ', '\t']).all(|word| word.chars().all(|c| is_atom_character(c) || c == '.'))
}
