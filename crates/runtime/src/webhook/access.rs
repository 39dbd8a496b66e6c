//! Who a token is, and what a user may do: TokenReview and SubjectAccessReview v1.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use http::StatusCode;
use k8s_openapi::api::authentication::v1::{TokenReviewSpec, TokenReviewStatus, UserInfo};
use k8s_openapi::api::authorization::v1::{SubjectAccessReviewSpec, SubjectAccessReviewStatus};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::review::{Handler, Refusal, guarded};

/// Whose token it is.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// A user's, for these of the audiences that were asked about; for all of them if none is named.
    Of { user: UserInfo, audiences: Vec<String> },
    /// Nobody's. The words are for the API server's log.
    Unknown(String),
}

/// Whether a request may pass. The words reach the person who is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    Allow(String),
    /// No other authorizer is asked.
    Deny(String),
    /// The next authorizer decides.
    NoOpinion(String),
}

impl From<Token> for TokenReviewStatus {
    fn from(token: Token) -> Self {
        match token {
            Token::Of { user, audiences } => TokenReviewStatus {
                authenticated: Some(true),
                user: Some(user),
                audiences: Some(audiences).filter(|audiences| !audiences.is_empty()),
                error: None,
            },
            Token::Unknown(why) => TokenReviewStatus {
                authenticated: Some(false),
                error: Some(why).filter(|why| !why.is_empty()),
                ..TokenReviewStatus::default()
            },
        }
    }
}

impl From<Access> for SubjectAccessReviewStatus {
    fn from(access: Access) -> Self {
        let (allowed, denied, reason) = match access {
            Access::Allow(reason) => (true, None, reason),
            Access::Deny(reason) => (false, Some(true), reason),
            Access::NoOpinion(reason) => (false, None, reason),
        };
        let reason = Some(reason).filter(|reason| !reason.is_empty());
        SubjectAccessReviewStatus { allowed, denied, reason, evaluation_error: None }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "S: DeserializeOwned")]
struct Review<S> {
    api_version: String,
    kind: String,
    spec: S,
}

pub(super) fn tokens<F>(judge: impl Fn(TokenReviewSpec) -> F + Send + Sync + 'static) -> Handler
where
    F: Future<Output = Token> + Send + 'static,
{
    reviewing::<_, _, TokenReviewStatus, _>(("authentication.k8s.io/v1", "TokenReview"), judge)
}

pub(super) fn access<F>(judge: impl Fn(SubjectAccessReviewSpec) -> F + Send + Sync + 'static) -> Handler
where
    F: Future<Output = Access> + Send + 'static,
{
    reviewing::<_, _, SubjectAccessReviewStatus, _>(("authorization.k8s.io/v1", "SubjectAccessReview"), judge)
}

fn reviewing<S, V, T, F>(about: (&'static str, &'static str), judge: impl Fn(S) -> F + Send + Sync + 'static) -> Handler
where
    S: DeserializeOwned + Send + 'static,
    V: Into<T> + Send,
    T: Serialize,
    F: Future<Output = V> + Send + 'static,
{
    let judge = Arc::new(judge);
    Arc::new(move |body: Bytes| {
        let judge = judge.clone();
        async move {
            let spec: S = read(&body, about)?;
            let verdict = guarded(async move { judge(spec).await }).await?;
            let status = serde_json::to_value(verdict.into()).unwrap_or(Value::Null);
            Ok(json!({"apiVersion": about.0, "kind": about.1, "status": status}).to_string().into_bytes())
        }
        .boxed()
    })
}

fn read<S: DeserializeOwned>(body: &[u8], (api_version, kind): (&str, &str)) -> Result<S, Refusal> {
    let refuse = |why: String| Refusal(StatusCode::BAD_REQUEST, why);
    let review: Review<S> =
        serde_json::from_slice(body).map_err(|error| refuse(format!("the body is no {kind}: {error}")))?;
    if review.api_version != api_version || review.kind != kind {
        let is = format!("{}, Kind={}", review.api_version, review.kind);
        return Err(refuse(format!("the body is {is}, not {api_version}, Kind={kind}")));
    }
    Ok(review.spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn asked(handler: &Handler, body: Value) -> Result<Value, StatusCode> {
        let answer = handler(body.to_string().into()).await.map_err(|Refusal(code, _)| code)?;
        Ok(serde_json::from_slice::<Value>(&answer).unwrap()["status"].take())
    }

    #[tokio::test]
    async fn a_token_is_somebodys_or_nobodys() {
        let handler = tokens(|question: TokenReviewSpec| async move {
            match question.token.as_str() {
                "good" => {
                    let user = UserInfo { username: Some("ann".to_owned()), ..UserInfo::default() };
                    Token::Of { user, audiences: Vec::new() }
                }
                _ => Token::Unknown("no such token".to_owned()),
            }
        });
        let review = |token: &str| json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
        let good = asked(&handler, review("good")).await.unwrap();
        assert_eq!((&good["authenticated"], &good["user"]["username"]), (&true.into(), &"ann".into()));
        let bad = asked(&handler, review("bad")).await.unwrap();
        assert_eq!(bad, json!({"authenticated": false, "error": "no such token"}));
        assert_eq!(asked(&handler, json!({"kind": "TokenReview"})).await, Err(StatusCode::BAD_REQUEST));
    }

    #[tokio::test]
    async fn a_denial_ends_the_chain_and_no_opinion_does_not() {
        let handler = access(|question: SubjectAccessReviewSpec| async move {
            match question.user.as_deref() {
                Some("ann") => Access::Allow(String::new()),
                Some("bob") => Access::Deny("bob is on leave".to_owned()),
                _ => Access::NoOpinion(String::new()),
            }
        });
        for (user, status) in [
            ("ann", json!({"allowed": true})),
            ("bob", json!({"allowed": false, "denied": true, "reason": "bob is on leave"})),
            ("eve", json!({"allowed": false})),
        ] {
            let review =
                json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": user}});
            assert_eq!(asked(&handler, review).await, Ok(status), "{user}");
        }
    }
}
