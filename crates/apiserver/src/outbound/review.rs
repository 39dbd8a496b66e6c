//! Reviews: a question is posted as an object, and comes back with its status. Asked again where Kubernetes' client asks again.
//!
//! - Answered 429, 500 or 504, with `Retry-After`, or by a connection that was reset: up to five times, each time later.
//! - Everything else is final. Redirects are not followed.

use super::post::{Post, Unsent};
use super::{About, Endpoint, Failure, Outbound};
use bytes::Bytes;
use http::{Response, StatusCode, header};
use pintle_meta::{Random, object};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often a question is asked before its failure is final.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const GROWTH: f64 = 1.5;
/// A pause is longer by up to this part of it.
const JITTER: f64 = 0.2;

/// A program that answers reviews.
pub struct Reviewer {
    pub outbound: Arc<Outbound>,
    pub random: Random,
    pub endpoint: Endpoint,
    pub about: About,
    /// How long one attempt may take.
    pub limit: Duration,
}

/// Why a review has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    #[error("Post {url:?}: {failure}")]
    Transport { url: String, failure: Failure },
    #[error("{message}")]
    Refused { message: String, code: u16, again: bool },
    #[error("{0}")]
    Unreadable(String),
    #[error("{path}: {why}")]
    TokenFile { path: String, why: std::io::Error },
}

impl ReviewError {
    fn is_worth_asking_again(&self) -> bool {
        match self {
            ReviewError::Transport { failure, .. } => matches!(failure, Failure::Reset),
            ReviewError::Refused { again, .. } => *again,
            ReviewError::Unreadable(_) | ReviewError::TokenFile { .. } => false,
        }
    }
}

impl Reviewer {
    /// The status of the answer. It is counted, with all attempts as one question.
    pub async fn ask(&self, review: &Value) -> Result<Value, ReviewError> {
        let began = Instant::now();
        let outcome = self.ask_until_final(review).await;
        self.outbound.counts.note(&self.about, &outcome, began.elapsed());
        outcome
    }

    async fn ask_until_final(&self, review: &Value) -> Result<Value, ReviewError> {
        let mut pause = FIRST_PAUSE;
        for _ in 1..ATTEMPTS {
            match self.attempt(review).await {
                Err(error) if error.is_worth_asking_again() => {
                    let share = self.random.below(1000) as f64 / 1000.0;
                    tokio::time::sleep(pause.mul_f64(1.0 + JITTER * share)).await;
                    pause = pause.mul_f64(GROWTH);
                }
                done => return done,
            }
        }
        self.attempt(review).await
    }

    async fn attempt(&self, review: &Value) -> Result<Value, ReviewError> {
        let separator = if self.endpoint.path.contains('?') { '&' } else { '?' };
        let path = format!("{}{separator}timeout={}", self.endpoint.path, go_duration(self.limit));
        let post = Post {
            to: &self.endpoint.to,
            path: &path,
            agent: concat!("pintle/", env!("CARGO_PKG_VERSION")),
            login: &self.endpoint.login,
            limit: self.limit,
        };
        let answer = post.send(&self.outbound, None, Bytes::from(review.to_string())).await;
        let url = || format!("{}{separator}timeout={}", self.endpoint.url(), go_duration(self.limit));
        let answer = answer.map_err(|unsent| match unsent {
            Unsent::Malformed(error) => ReviewError::Unreadable(error.to_string()),
            Unsent::TokenFile { path, why } => ReviewError::TokenFile { path, why },
            Unsent::Transport(failure) => ReviewError::Transport { url: url(), failure },
        })?;
        if !answer.status().is_success() {
            return Err(refusal(&answer));
        }
        read(&answer, review)
    }
}

/// The status of an answer that is of the same group and kind as the question.
fn read(answer: &Response<Bytes>, review: &Value) -> Result<Value, ReviewError> {
    let unreadable = |why: String| ReviewError::Unreadable(why);
    let found: Value = serde_json::from_slice(answer.body())
        .map_err(|error| unreadable(format!("couldn't get version/kind; json parse error: {error}")))?;
    let text = |of: &Value, key: &str| object::text(of, &[key]).to_owned();
    let group = |of: &Value| text(of, "apiVersion").split('/').next().unwrap_or_default().to_owned();
    if text(&found, "kind").is_empty() {
        return Err(unreadable(format!("Object 'Kind' is missing in '{}'", shown(answer.body()))));
    }
    if text(&found, "kind") != text(review, "kind") || group(&found) != group(review) {
        return Err(unreadable(format!(
            "the answer is a {}, Kind={}, and not a {}, Kind={}",
            text(&found, "apiVersion"),
            text(&found, "kind"),
            text(review, "apiVersion"),
            text(review, "kind")
        )));
    }
    match found.get("status") {
        None | Some(Value::Null) => Ok(Value::Object(serde_json::Map::new())),
        Some(status @ Value::Object(_)) => Ok(status.clone()),
        Some(_) => Err(unreadable("status of the answer is not an object".to_owned())),
    }
}

fn shown(body: &[u8]) -> String {
    const MAX_SHOWN_BYTES: usize = 256;
    String::from_utf8_lossy(&body[..body.len().min(MAX_SHOWN_BYTES)]).into_owned()
}

/// What an answer that is no success means, in the words of Kubernetes' client.
fn refusal(answer: &Response<Bytes>) -> ReviewError {
    let code = answer.status().as_u16();
    let later = answer.headers().contains_key(header::RETRY_AFTER) && (code == 429 || code >= 500);
    let said: Option<Value> = serde_json::from_slice(answer.body()).ok();
    if let Some(status) = said.filter(|said| object::text(said, &["kind"]) == "Status") {
        let reason = object::text(&status, &["reason"]);
        let again = matches!(reason, "InternalError" | "Timeout" | "TooManyRequests");
        let message = object::text(&status, &["message"]).to_owned();
        return ReviewError::Refused { message, code, again: again || later };
    }
    let content = answer.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_text = content.is_none_or(|content| content.starts_with("text/"));
    let body = if is_text { shown(answer.body()).trim().to_owned() } else { "unknown".to_owned() };
    let again = matches!(code, 429 | 504) || (code >= 500 && code != 503);
    ReviewError::Refused { message: words(answer.status(), &body), code, again: again || later }
}

/// What an HTTP status means, in the words of Kubernetes' client.
pub(super) fn words(code: StatusCode, body: &str) -> String {
    match code.as_u16() {
        409 => "the server reported a conflict".to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 => body.to_owned(),
        406 => body.to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        415 => body.to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
                .to_owned()
        }
        code if code >= 500 => {
            format!("an error on the server ({body:?}) has prevented the request from succeeding")
        }
        code => format!("the server responded with the status code {code} but did not return more information"),
    }
}

/// As Go writes whole seconds and milliseconds: `30s`, `1m0s`, `500ms`.
fn go_duration(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    match (seconds / 60, seconds % 60, millis) {
        (0, 0, millis) => format!("{millis}ms"),
        (0, seconds, 0) => format!("{seconds}s"),
        (0, seconds, millis) => format!("{seconds}.{}s", format!("{millis:03}").trim_end_matches('0')),
        (minutes, seconds, _) => format!("{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(code: u16, headers: &[(&str, &str)], body: &str) -> Response<Bytes> {
        let builder = headers.iter().fold(Response::builder().status(code), |b, (name, value)| b.header(*name, *value));
        builder.body(Bytes::copy_from_slice(body.as_bytes())).unwrap()
    }

    #[test]
    fn a_webhook_that_is_overloaded_is_asked_again_and_one_that_refuses_is_not() {
        let again = |answer: Response<Bytes>| {
            let error = refusal(&answer);
            (error.is_worth_asking_again(), error.to_string())
        };
        let json = [("content-type", "application/json")];
        let unknown = r#"an error on the server ("unknown") has prevented the request from succeeding"#;
        assert_eq!(again(answer(500, &json, "{}")), (true, unknown.to_owned()));
        let said = r#"an error on the server ("it broke") has prevented the request from succeeding"#;
        assert_eq!(again(answer(500, &[("content-type", "text/plain")], "it broke\n")), (true, said.to_owned()));
        assert!(again(answer(429, &json, "")).0 && again(answer(504, &json, "")).0);
        assert!(!again(answer(503, &json, "")).0 && again(answer(503, &[("retry-after", "1")], "")).0);
        for code in [302, 400, 401, 403, 404, 409] {
            assert!(!again(answer(code, &json, "{}")).0, "{code}");
        }
        let status = json!({"kind": "Status", "apiVersion": "v1", "reason": "Timeout", "message": "too slow"});
        assert_eq!(again(answer(400, &json, &status.to_string())), (true, "too slow".to_owned()));
    }

    #[test]
    fn an_answer_to_another_question_counts_as_none() {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"});
        let of = |body: &str| read(&answer(200, &[], body), &review).ok();
        let status =
            r#"{"apiVersion":"authentication.k8s.io/v1beta1","kind":"TokenReview","status":{"authenticated":true}}"#;
        assert_eq!(of(status), Some(json!({"authenticated": true})));
        for wrong in [
            "",
            "[]",
            "{}",
            r#"{"apiVersion":"authorization.k8s.io/v1","kind":"TokenReview","status":{"authenticated":true}}"#,
            r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true}}"#,
            r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":"yes"}"#,
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_timeout_is_written_as_go_writes_it() {
        for (millis, text) in [(30_000, "30s"), (60_000, "1m0s"), (1500, "1.5s"), (250, "250ms"), (90_000, "1m30s")] {
            assert_eq!(go_duration(Duration::from_millis(millis)), text);
        }
    }
}
