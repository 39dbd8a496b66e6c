//! An answer that is no: nothing has been committed.

use super::{Answer, whole};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::json;

/// A refusal with this code, in the words a server uses for it.
pub(super) fn refuse(code: u16) -> Response<Answer> {
    let (reason, message) = match code {
        // Not AlreadyExists even for a create: the object may not be there, and no server would say that it is.
        409 => ("Conflict", "the object has been modified; please apply your changes to the latest version"),
        410 => ("Expired", "too old resource version"),
        429 => ("TooManyRequests", "too many requests, please try again later"),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        504 => ("Timeout", "the request did not complete in time; it may have been carried out"),
        _ => ("InternalError", "an error on the server has prevented the request from succeeding"),
    };
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("{message} (a fault that the test injected)"), "reason": reason, "code": code});
    let mut response = Response::new(whole(Bytes::from(status.to_string())));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if code == 429 {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
