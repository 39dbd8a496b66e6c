//! Service account tokens of a Pod: asked for once, kept, and asked for anew before they end.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ServiceAccount, ServiceAccountTokenProjection};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::make::Facts;

/// However long it lasts, a token is not kept for longer.
const OLDEST: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a token lasts if nobody says.
const USUAL_SECONDS: i64 = 3600;

/// What distinguishes two tokens of one Pod: the audience, and for how many seconds.
pub(crate) type Asked = (Option<String>, i64);

/// The tokens of one Pod. Losing them costs a request each.
#[derive(Debug, Default)]
pub(crate) struct Tokens(BTreeMap<Asked, Token>);

#[derive(Clone)]
struct Token {
    value: String,
    issued_at: Timestamp,
    expires_at: Timestamp,
}

// A token is as good as a password: it is never shown.
impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Token").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

impl Token {
    /// Whether four fifths of its life are over, or a day.
    fn is_old(&self, now: Timestamp) -> bool {
        let age = now.duration_since(self.issued_at);
        let life = self.expires_at.duration_since(self.issued_at);
        age > SignedDuration::try_from(OLDEST).unwrap_or(SignedDuration::MAX) || age * 5 > life * 4
    }
}

pub(super) fn asked(projection: &ServiceAccountTokenProjection) -> Asked {
    let audience = projection.audience.clone().filter(|audience| !audience.is_empty());
    (audience, projection.expiration_seconds.unwrap_or(USUAL_SECONDS))
}

impl Tokens {
    /// Every token that the Pod's volumes need; those that are old are asked for anew, and kept if there is no answer.
    pub(super) async fn hold(
        &mut self,
        client: &Client,
        facts: &Facts<'_>,
        now: Timestamp,
    ) -> BTreeMap<Asked, Result<String, String>> {
        let volumes = facts.spec.volumes.iter().flatten().filter_map(|volume| volume.projected.as_ref());
        let sources = volumes.flat_map(|projected| projected.sources.iter().flatten());
        let wanted: Vec<Asked> =
            sources.filter_map(|source| source.service_account_token.as_ref()).map(asked).collect();
        let mut held = BTreeMap::new();
        for asked in wanted {
            if self.0.get(&asked).is_none_or(|token| token.is_old(now)) {
                let answer = request(client, facts, &asked, now).await;
                held.insert(asked.clone(), self.settle(&asked, answer, now));
            } else if let Some(token) = self.0.get(&asked) {
                held.insert(asked, Ok(token.value.clone()));
            }
        }
        held
    }

    fn settle(&mut self, asked: &Asked, answer: Result<Token, String>, now: Timestamp) -> Result<String, String> {
        match (answer, self.0.get(asked)) {
            (Ok(token), _) => {
                let value = token.value.clone();
                self.0.insert(asked.clone(), token);
                Ok(value)
            }
            (Err(message), None) => Err(format!("failed to fetch token: {message}")),
            (Err(message), Some(old)) if old.expires_at <= now => {
                Err(format!("the token has expired and could not be refreshed: {message}"))
            }
            (Err(message), Some(old)) => {
                tracing::warn!(%message, "a service account token could not be refreshed; the old one is kept");
                Ok(old.value.clone())
            }
        }
    }
}

async fn request(client: &Client, facts: &Facts<'_>, asked: &Asked, now: Timestamp) -> Result<Token, String> {
    let (audience, seconds) = asked;
    let account = facts.spec.service_account_name.as_deref().filter(|name| !name.is_empty()).unwrap_or("default");
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: Some(audience.iter().cloned().collect()),
            expiration_seconds: Some(*seconds),
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: Some(facts.name().to_owned()),
                uid: Some(facts.uid().to_owned()),
            }),
        }),
        ..TokenRequest::default()
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), facts.namespace());
    let answer = accounts.create_token_request(account, &PostParams::default(), &request).await;
    let answer = answer.map_err(|error| error.to_string())?;
    // The server may have given it another life than was asked for.
    let seconds = answer.spec.and_then(|spec| spec.expiration_seconds).unwrap_or(*seconds);
    let status = answer.status.ok_or("the server answered without a token")?;
    let life = SignedDuration::from_secs(seconds);
    let expires_at = status.expiration_timestamp.map(|time| time.0);
    let expires_at = expires_at.or_else(|| now.checked_add(life).ok()).unwrap_or(now);
    Ok(Token {
        value: status.token.ok_or("the server answered without a token")?,
        issued_at: expires_at.checked_sub(life).unwrap_or(now),
        expires_at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn token(value: &str, issued: i64, life: i64) -> Token {
        Token { value: value.into(), issued_at: at(issued), expires_at: at(issued + life) }
    }

    #[test]
    fn a_token_is_changed_before_it_ends() {
        let hour = token("t", 0, 3600);
        assert!(!hour.is_old(at(2880)) && hour.is_old(at(2881)));
        let year = token("t", 0, 365 * 86400);
        assert!(!year.is_old(at(86400)) && year.is_old(at(86401)));
    }

    #[test]
    fn a_token_that_still_holds_outlives_a_server_that_does_not_answer() {
        let asked = (None, 3600);
        let mut tokens = Tokens::default();
        let lost = || Err("no route".to_owned());
        assert_eq!(tokens.settle(&asked, lost(), at(0)), Err("failed to fetch token: no route".into()));
        assert_eq!(tokens.settle(&asked, Ok(token("one", 0, 3600)), at(0)), Ok("one".into()));
        assert_eq!(tokens.settle(&asked, lost(), at(3000)), Ok("one".into()));
        assert!(tokens.settle(&asked, lost(), at(3600)).unwrap_err().contains("expired"));
        assert_eq!(tokens.settle(&asked, Ok(token("two", 3600, 3600)), at(3600)), Ok("two".into()));
        assert!(!format!("{tokens:?}").contains("two"));
    }
}
