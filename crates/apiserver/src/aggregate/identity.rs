//! Who a user is, said in headers to a server that believes this one.

use crate::authn::User;
use http::{HeaderMap, HeaderName, HeaderValue};

const USER: HeaderName = HeaderName::from_static("x-remote-user");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const PREFIX: &str = "x-remote-";
const EXTRA: &str = "x-remote-extra-";

/// Says who the user is, and nothing else: what the client said by such headers is removed. The error says what of the user
/// cannot be said.
pub fn identify(headers: &mut HeaderMap, user: &User) -> Result<(), &'static str> {
    let claimed: Vec<HeaderName> = headers.keys().filter(|name| name.as_str().starts_with(PREFIX)).cloned().collect();
    claimed.iter().for_each(|name| _ = headers.remove(name));
    headers.insert(USER, value(&user.name).ok_or("the user's name cannot be a header")?);
    if !user.uid.is_empty() {
        headers.insert(UID, value(&user.uid).ok_or("the user's UID cannot be a header")?);
    }
    for group in &user.groups {
        headers.append(GROUP, value(group).ok_or("a group of the user cannot be a header")?);
    }
    for (key, values) in &user.extra {
        let name = HeaderName::from_bytes(format!("{EXTRA}{}", escape(key)).as_bytes());
        let name = name.map_err(|_| "an extra key of the user cannot be a header")?;
        for one in values {
            headers.append(&name, value(one).ok_or("an extra value of the user cannot be a header")?);
        }
    }
    Ok(())
}

fn value(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_bytes(text.as_bytes()).ok()
}

/// A key as a part of a header's name: whatever a name cannot hold is escaped, and the percent sign itself.
fn escape(key: &str) -> String {
    let mut escaped = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_user_is_who_this_server_says_and_not_who_the_client_says() {
        let mut headers = HeaderMap::new();
        for (name, text) in [
            ("x-remote-user", "admin"),
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-a", "b"),
            ("x-remote-uid", "1"),
        ] {
            headers.insert(name, HeaderValue::from_static(text));
        }
        let extra = BTreeMap::from([("example.com/a%b".to_owned(), vec!["1".to_owned(), "é".to_owned()])]);
        let user = User { extra, ..User::new("ann", &["team"]) };
        identify(&mut headers, &user).unwrap();
        assert_eq!(headers["x-remote-user"], "ann");
        assert!(!headers.contains_key("x-remote-uid") && !headers.contains_key("x-remote-extra-a"));
        let groups: Vec<&HeaderValue> = headers.get_all("x-remote-group").iter().collect();
        assert_eq!(groups, ["team", "system:authenticated"]);
        let extra: Vec<&[u8]> =
            headers.get_all("x-remote-extra-example.com%2fa%25b").iter().map(HeaderValue::as_bytes).collect();
        assert_eq!(extra, [b"1".as_slice(), "é".as_bytes()]);
    }

    #[test]
    fn a_name_that_would_begin_another_header_is_not_sent() {
        let user = User::new("ann\r\nX-Remote-Group: system:masters", &[]);
        assert!(identify(&mut HeaderMap::new(), &user).is_err());
    }
}
