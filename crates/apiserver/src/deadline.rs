//! No request takes for ever: an answer begins within a minute, or sooner if the client says so.
//!
//! Watches, logs that are followed and connections to containers last as long as they are wanted.

use crate::request::Target;
use pintle_meta::{Status, duration};
use std::time::Duration;

/// How long a request may take until its answer begins.
const LONGEST: Duration = Duration::from_secs(60);

/// The time that a request has; none for one without an end.
pub fn limit(target: &Target) -> Result<Option<Duration>, Status> {
    if target.is_long_running() {
        return Ok(None);
    }
    match target.query.get("timeout") {
        "" => Ok(Some(LONGEST)),
        text => asked(text).map(Some),
    }
}

pub async fn within<T>(
    limit: Result<Option<Duration>, Status>,
    answer: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    match limit? {
        Some(limit) => tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| Err(late())),
        None => answer.await,
    }
}

fn late() -> Status {
    Status::new(504, "Timeout", "Timeout: request did not complete within the allotted timeout")
}

/// What the client asks for, where it is less than what everybody gets.
fn asked(text: &str) -> Result<Duration, Status> {
    let refused = || {
        let why = format!("invalid timeout specified in the request URL - time: invalid duration {text:?}");
        Status::bad_request(why)
    };
    let seconds = duration::seconds(text).ok_or_else(refused)?;
    // A negative one counts as not given.
    let limit = Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST);
    Ok(if limit.is_zero() { LONGEST } else { limit.min(LONGEST) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_ask_for_less_time_and_not_for_more() {
        for (text, limit) in [
            ("5s", 5.0),
            ("1500ms", 1.5),
            ("1m", 60.0),
            ("2h", 60.0),
            ("0", 60.0),
            ("0s", 60.0),
            ("1.5s", 1.5),
            ("-3s", 60.0),
        ] {
            assert_eq!(asked(text).unwrap().as_secs_f64(), limit, "{text}");
        }
        for text in ["5", "s", "5x", "", "-", "1s2", "é", "1e9s"] {
            assert!(asked(text).is_err(), "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_hangs_is_answered_and_a_watch_is_not_cut() {
        let plain = Target::parse(&http::Method::GET, &"/api/v1/pods".parse().unwrap());
        let status = within::<()>(limit(&plain), std::future::pending()).await.unwrap_err();
        assert_eq!((status.code, &*status.reason), (504, "Timeout"));
        let watch = Target::parse(&http::Method::GET, &"/api/v1/pods?watch=1".parse().unwrap());
        let endless = tokio::time::timeout(2 * LONGEST, within::<()>(limit(&watch), std::future::pending()));
        assert!(endless.await.is_err());
    }
}
