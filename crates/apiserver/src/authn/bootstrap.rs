//! Bootstrap tokens: a Secret of `kube-system` lets a machine that is not yet a node ask for a certificate.

use super::User;
use crate::codec;
use crate::keys;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use pintle_meta::object;
use pintle_store::Store;
use serde_json::Value;

pub const TYPE: &str = "bootstrap.kubernetes.io/token";
const GROUP: &str = "system:bootstrappers";
const ID: usize = 6;
const SECRET: usize = 16;

/// The two halves of a token, `abcdef.0123456789abcdef`; nothing for what is no bootstrap token.
pub fn halves(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let is =
        |text: &str, length| text.len() == length && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    (is(id, ID) && is(secret, SECRET)).then_some((id, secret))
}

/// A new token, `ID.SECRET`. Nothing if the machine has no randomness to give.
pub fn generate() -> Option<String> {
    const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut bytes = [0; ID + SECRET];
    aws_lc_rs::rand::fill(&mut bytes).ok()?;
    // As many letters as fit into five bits: none is likelier than another.
    let text: String = bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect();
    let (id, secret) = text.split_at(ID);
    Some(format!("{id}.{secret}"))
}

/// The user that a token authenticates, if its Secret is there and says so.
pub(super) async fn user(store: &dyn Store, now: Timestamp, id: &str, secret: &str) -> Option<User> {
    let entry =
        store.get(&keys::in_namespace(keys::SECRETS, "kube-system", &format!("bootstrap-token-{id}"))).await.ok()??;
    speaks_for(&codec::decode(&entry.value), now, id, secret)
}

/// Whether a Secret holds this text under a key. How long the comparison takes tells nothing about it.
pub(super) fn speaks_in(kept: &Value, key: &str, text: &str) -> bool {
    let held = BASE64_STANDARD.decode(object::text(kept, &["data", key])).unwrap_or_default();
    aws_lc_rs::constant_time::verify_slices_are_equal(&held, text.as_bytes()).is_ok() && !held.is_empty()
}

fn speaks_for(kept: &Value, now: Timestamp, id: &str, secret: &str) -> Option<User> {
    let field = |key: &str| {
        let bytes = BASE64_STANDARD.decode(object::text(kept, &["data", key])).ok()?;
        String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
    };
    if object::text(kept, &["type"]) != TYPE || object::is_being_deleted(kept) {
        return None;
    }
    if !speaks_in(kept, "token-secret", secret)
        || field("token-id")? != id
        || field("usage-bootstrap-authentication")? != "true"
    {
        return None;
    }
    // A time that cannot be read has passed.
    if let Some(ends) = field("expiration")
        && ends.parse::<Timestamp>().map_or(true, |ends| ends <= now)
    {
        return None;
    }
    let extra = field("auth-extra-groups").unwrap_or_default();
    let extra: Vec<&str> = extra.split(',').filter(|group| !group.is_empty()).collect();
    if !extra.iter().all(|group| is_group(group)) {
        return None;
    }
    let groups: Vec<&str> = std::iter::once(GROUP).chain(extra).collect();
    Some(User::new(&format!("system:bootstrap:{id}"), &groups))
}

/// A token makes nobody a member of a group that is not made for tokens.
fn is_group(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("system:bootstrappers:") else { return false };
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    rest.len() <= 256
        && rest.bytes().all(|b| plain(b) || b == b':' || b == b'-')
        && rest.bytes().last().is_some_and(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_token_that_is_kept_and_has_not_expired_lets_a_machine_in() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let kept = |changes: &[(&str, &str)]| {
            let mut data = json!({"token-id": "abcdef", "token-secret": "0123456789abcdef",
                "usage-bootstrap-authentication": "true"});
            for (key, value) in changes {
                data[*key] = (*value).into();
            }
            let data: serde_json::Map<String, Value> = data
                .as_object()
                .unwrap()
                .iter()
                .map(|(key, value)| (key.clone(), BASE64_STANDARD.encode(value.as_str().unwrap()).into()))
                .collect();
            json!({"type": TYPE, "data": data})
        };
        let groups = |changes: &[(&str, &str)]| {
            speaks_for(&kept(changes), now, "abcdef", "0123456789abcdef").map(|user| user.groups.join(" "))
        };
        assert_eq!(groups(&[]).as_deref(), Some("system:bootstrappers system:authenticated"));
        assert_eq!(
            groups(&[("auth-extra-groups", "system:bootstrappers:a:b"), ("expiration", "2026-01-01T00:00:01Z")])
                .as_deref(),
            Some("system:bootstrappers system:bootstrappers:a:b system:authenticated")
        );
        for refused in [
            ("token-secret", "0123456789abcdee"),
            ("token-secret", ""),
            ("token-id", "abcdee"),
            ("usage-bootstrap-authentication", "false"),
            ("expiration", "2026-01-01T00:00:00Z"),
            ("expiration", "tomorrow"),
            ("auth-extra-groups", "system:masters"),
            ("auth-extra-groups", "system:bootstrappers:"),
        ] {
            assert_eq!(groups(&[refused]), None, "{refused:?}");
        }
        let mut other = kept(&[]);
        other["type"] = "Opaque".into();
        assert_eq!(speaks_for(&other, now, "abcdef", "0123456789abcdef"), None);
    }

    #[test]
    fn what_is_no_bootstrap_token_is_not_taken_for_one() {
        let (one, other) = (generate().unwrap(), generate().unwrap());
        assert!(halves(&one).is_some() && one != other);
        assert_eq!(halves("abcdef.0123456789abcdef"), Some(("abcdef", "0123456789abcdef")));
        for other in ["", "abcdef", "abcde.0123456789abcdef", "ABCDEF.0123456789abcdef", "abcdef.0123456789abcde/"] {
            assert_eq!(halves(other), None, "{other}");
        }
    }
}
