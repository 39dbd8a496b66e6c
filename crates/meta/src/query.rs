//! The query of a URL, and the escapes in it.

/// The pairs of a query, decoded, in their order. A name without a value has an empty one.
pub fn pairs(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.map(|(name, value)| (decode(&name.replace('+', " ")), decode(&value.replace('+', " ")))).collect()
}

/// What needs no escape anywhere, besides letters and digits.
const UNRESERVED: &[u8] = b"-._~";

/// A query of these pairs.
pub fn encode<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut query = String::new();
    for (name, value) in pairs {
        if !query.is_empty() {
            query.push('&');
        }
        escape(&mut query, name, UNRESERVED);
        query.push('=');
        escape(&mut query, value, UNRESERVED);
    }
    query
}

/// A path in which all is escaped that a path cannot hold as it is.
pub fn encode_path(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len());
    for (position, part) in path.split('/').enumerate() {
        if position > 0 {
            encoded.push('/');
        }
        escape(&mut encoded, part, b"-._~$&+,:;=@");
    }
    encoded
}

fn escape(query: &mut String, text: &str, kept: &[u8]) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            query.push(char::from(byte));
        } else {
            query.push('%');
            for digit in [byte >> 4, byte & 15] {
                query.push(char::from_digit(u32::from(digit), 16).unwrap_or_default().to_ascii_uppercase());
            }
        }
    }
}

/// Replaces `%2F` and its kin; what is no escape stays as it is.
pub fn decode(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let hex = (bytes[i] == b'%').then(|| text.get(i + 1..i + 3)).flatten();
        let hex = hex.filter(|h| h.bytes().all(|b| b.is_ascii_hexdigit()));
        match hex.and_then(|h| u8::from_str_radix(h, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                i += 3;
            }
            None => {
                out.push(bytes[i]);
                i += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_again() {
        let odd = [("command", "sh -c 'a&b=c%d+é'"), ("tty", ""), ("command", "x")];
        let decoded = pairs(&encode(odd));
        let decoded: Vec<(&str, &str)> = decoded.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(decoded, odd);
        assert_eq!(
            pairs("a=1+2&b&bad=%zz"),
            [("a", "1 2"), ("b", ""), ("bad", "%zz")].map(|(n, v)| (n.into(), v.into()))
        );
        assert_eq!(decode(&encode_path("logs/a b%/é")), "logs/a b%/é");
        assert_eq!(decode("%+1"), "%+1");
    }
}
