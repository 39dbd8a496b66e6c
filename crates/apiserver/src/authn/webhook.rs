//! The token reviewer: a program outside that says whose a token is, asked with a TokenReview.
//!
//! Its answers are remembered, also that it does not know a token; its failures are not.

use super::{Judged, User};
use crate::memo::{self, Memo};
use crate::outbound::review::Reviewer;
use pintle_meta::{Clock, object};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Answers that are remembered at a time.
const MAX_REMEMBERED: usize = 4096;

/// How long one question may take.
pub(super) const LIMIT: Duration = Duration::from_secs(30);

pub struct TokenReviewer {
    reviewer: Arc<Reviewer>,
    version: String,
    /// How long an answer counts.
    ttl: Duration,
    /// The audience of a token if the answer does not say.
    own_audiences: Vec<String>,
    memo: Memo<Judged>,
}

impl TokenReviewer {
    pub fn new(reviewer: Reviewer, version: &str, ttl: Duration, own_audiences: &[String], clock: &Clock) -> Self {
        TokenReviewer {
            reviewer: Arc::new(reviewer),
            version: version.to_owned(),
            ttl,
            own_audiences: own_audiences.to_vec(),
            memo: Memo::new(clock.clone(), MAX_REMEMBERED),
        }
    }

    pub(super) async fn judge(&self, token: &str, audiences: &[String]) -> Judged {
        let parts = std::iter::once(token).chain(audiences.iter().map(String::as_str)).map(str::as_bytes);
        let mut spec = json!({"token": token});
        if !audiences.is_empty() {
            spec["audiences"] = audiences.into();
        }
        let review = json!({"apiVersion": format!("authentication.k8s.io/{}", self.version), "kind": "TokenReview",
            "metadata": {"creationTimestamp": null}, "spec": spec, "status": {"user": {}}});
        let (reviewer, ttl) = (self.reviewer.clone(), self.ttl);
        let (asked, own) = (audiences.to_vec(), self.own_audiences.clone());
        let ask = async move {
            let judged = match reviewer.ask(&review).await {
                Ok(status) => verdict(&status, &asked, &own),
                Err(error) => {
                    tracing::warn!(%error, "the token reviewer gave no answer");
                    Judged::Bad(error.to_string())
                }
            };
            let keep = if matches!(judged, Judged::Bad(_)) { Duration::ZERO } else { ttl };
            (judged, keep)
        };
        let panicked = || Judged::Bad("the question to the token reviewer ended early".to_owned());
        self.memo.get(memo::key(parts), ask).await.unwrap_or_else(panicked)
    }
}

/// What an answer says to those who are asked for.
fn verdict(status: &Value, asked: &[String], own: &[String]) -> Judged {
    let words = |key: &str| texts(object::list(status, &[key]));
    let said = words("audiences");
    let meant = if said.is_empty() { own } else { &said[..] };
    let meant: Vec<String> = asked.iter().filter(|audience| meant.contains(audience)).cloned().collect();
    if meant.is_empty() && !asked.is_empty() {
        return Judged::NotMine;
    }
    if !object::flag(status, &["authenticated"]) {
        return match object::text(status, &["error"]) {
            "" => Judged::NotMine,
            error => Judged::Bad(error.to_owned()),
        };
    }
    let text = |key: &str| object::text(status, &["user", key]).to_owned();
    let extra = object::at(status, &["user", "extra"]).and_then(Value::as_object);
    let user = User {
        name: text("username"),
        uid: text("uid"),
        groups: texts(object::list(status, &["user", "groups"])),
        extra: extra.map(extra_values).unwrap_or_default(),
    };
    Judged::User(Arc::new(user), meant)
}

/// Extra values as a map of lists.
pub(crate) fn extra_values(map: &Map<String, Value>) -> BTreeMap<String, Vec<String>> {
    map.iter().map(|(key, values)| (key.clone(), values.as_array().map(|all| texts(all)).unwrap_or_default())).collect()
}

fn texts(values: &[Value]) -> Vec<String> {
    values.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_counts_only_for_those_whom_the_reviewer_names() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let jane = |audiences: &[&str]| {
            json!({"authenticated": true, "audiences": audiences, "user": {"username": "jane", "groups": ["devs"],
                "extra": {"example.com/scope": ["a", "b"]}}})
        };
        let meant = |status: &Value, asked: &[&str]| match verdict(status, &list(asked), &list(&["own"])) {
            Judged::User(user, meant) => Some((user.name.clone(), meant.join(" "))),
            _ => None,
        };
        assert_eq!(meant(&jane(&[]), &["own"]), Some(("jane".into(), "own".into())));
        assert_eq!(meant(&jane(&["other", "own"]), &["own"]), Some(("jane".into(), "own".into())));
        assert_eq!(meant(&jane(&["other"]), &["own"]), None);
        assert_eq!(meant(&jane(&[]), &["other"]), None);
        assert_eq!(meant(&jane(&["vault"]), &["vault", "x"]), Some(("jane".into(), "vault".into())));
        assert_eq!(verdict(&json!({}), &list(&["own"]), &list(&["own"])), Judged::NotMine);
        let said = json!({"authenticated": false, "error": "no such token"});
        assert_eq!(verdict(&said, &list(&["own"]), &list(&["own"])), Judged::Bad("no such token".into()));
    }
}
