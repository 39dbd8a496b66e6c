//! Claims of a token as a user: which claim is the name, which are groups, what must be there.

use crate::authn::User;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// A claim, and what is put before its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefixed {
    pub claim: String,
    pub prefix: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mappings {
    pub username: Prefixed,
    pub groups: Option<Prefixed>,
    pub uid: Option<String>,
    /// Claims that must have these values.
    pub required: Vec<(String, String)>,
}

impl Mappings {
    pub(super) fn user(&self, claims: &Map<String, Value>) -> Result<User, String> {
        let Prefixed { claim, prefix } = &self.username;
        let parsing = |why: String| format!("parse username claims {claim:?}: {why}");
        let name = text(claims, claim).map_err(parsing)?;
        if claim == "email" && claims.contains_key("email_verified") {
            match claims.get("email_verified") {
                Some(Value::Bool(true)) => {}
                Some(Value::Bool(false)) => return Err("email not verified".to_owned()),
                _ => return Err("parse 'email_verified' claim: it is not a boolean".to_owned()),
            }
        }
        let groups = match &self.groups {
            Some(groups) => match claims.get(&groups.claim) {
                None => Vec::new(),
                Some(value) => {
                    let names = strings(value);
                    let names = names.ok_or_else(|| {
                        format!("parse groups claim {:?}: it is neither a string nor a list of strings", groups.claim)
                    })?;
                    names.iter().map(|name| format!("{}{name}", groups.prefix)).collect()
                }
            },
            None => Vec::new(),
        };
        let uid = match &self.uid {
            Some(claim) => text(claims, claim).map_err(|why| format!("parse uid claim {claim:?}: {why}"))?,
            None => String::new(),
        };
        for (claim, wanted) in &self.required {
            if !claims.contains_key(claim) {
                return Err(format!("required claim {claim} not present in ID token"));
            }
            let found = text(claims, claim).map_err(|why| format!("parse claim {claim}: {why}"))?;
            if found != *wanted {
                return Err(format!("required claim {claim} value does not match. Got = {found}, want = {wanted}"));
            }
        }
        let mut user = User { name: format!("{prefix}{name}"), uid, groups, ..User::default() };
        if let Some(Value::String(id)) = claims.get("jti").filter(|id| id.as_str() != Some("")) {
            let key = "authentication.kubernetes.io/credential-id".to_owned();
            user.extra.insert(key, vec![format!("JTI={id}")]);
        }
        Ok(user)
    }
}

fn text(claims: &Map<String, Value>, claim: &str) -> Result<String, String> {
    match claims.get(claim) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err("it is not a string".to_owned()),
        None => Err("claim not present".to_owned()),
    }
}

/// A string, or a list of strings.
pub(super) fn strings(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(one) => Some(vec![one.clone()]),
        Value::Array(all) => all.iter().map(|one| one.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

/// The claims of a token, before its signature is checked.
pub(in crate::authn) fn unverified(token: &str) -> Option<Map<String, Value>> {
    let mut parts = token.split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn claims_make_the_user_that_the_mappings_say_and_what_is_missing_is_named() {
        let prefixed = |claim: &str, prefix: &str| Prefixed { claim: claim.into(), prefix: prefix.into() };
        let mappings = Mappings {
            username: prefixed("email", "oidc:"),
            groups: Some(prefixed("roles", "team-")),
            uid: Some("sub".into()),
            required: vec![("hd".into(), "example.com".into())],
        };
        let user = |changes: Value| {
            let mut claims = json!({"email": "jane@example.com", "email_verified": true, "roles": ["a", "b"],
                "sub": "42", "hd": "example.com", "jti": "7"});
            for (key, value) in changes.as_object().unwrap() {
                claims[key] = value.clone();
            }
            mappings.user(claims.as_object().unwrap())
        };
        let jane = user(json!({})).unwrap();
        assert_eq!((jane.name.as_str(), jane.uid.as_str()), ("oidc:jane@example.com", "42"));
        assert_eq!(jane.groups, ["team-a", "team-b"]);
        assert_eq!(jane.extra["authentication.kubernetes.io/credential-id"], ["JTI=7"]);
        assert_eq!(user(json!({"roles": "one"})).unwrap().groups, ["team-one"]);
        for (changes, why) in [
            (json!({"email": 1}), "parse username claims \"email\": it is not a string"),
            (json!({"email_verified": false}), "email not verified"),
            (json!({"email_verified": "true"}), "parse 'email_verified' claim: it is not a boolean"),
            (json!({"roles": {}}), "parse groups claim \"roles\": it is neither a string nor a list of strings"),
            (json!({"sub": 1}), "parse uid claim \"sub\": it is not a string"),
            (
                json!({"hd": "evil.example.com"}),
                "required claim hd value does not match. Got = evil.example.com, want = example.com",
            ),
        ] {
            assert_eq!(user(changes), Err(why.to_owned()));
        }
    }
}
