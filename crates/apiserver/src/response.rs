//! Answers: their codes, headers and bodies. How a body is written is [`crate::notation`]'s.

use crate::body::Body;
use crate::notation::{Notation, gzip};
use bytes::Bytes;
use futures::Stream;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use pintle_meta::Status;
use serde_json::Value;

pub use crate::notation::negotiate::{Offer, Shape, Wanted};

pub fn json(code: u16, bytes: impl Into<Bytes>) -> Response<Body> {
    with_type(code, "application/json", bytes)
}

pub fn text(code: u16, text: impl Into<String>) -> Response<Body> {
    with_type(code, "text/plain; charset=utf-8", text.into())
}

pub fn with_type(code: u16, media: &'static str, bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::from(bytes.into()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// An answer that a client may keep, and ask for again by its tag.
pub fn tagged(mut response: Response<Body>, tag: &str) -> Response<Body> {
    if let Ok(tag) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(header::ETAG, tag);
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
        response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    }
    response
}

/// The answer without its body if the client has it already.
pub fn unless_known(mut response: Response<Body>, asked: &HeaderMap) -> Response<Body> {
    let known = asked.get(header::IF_NONE_MATCH);
    if known.is_some() && known == response.headers().get(header::ETAG) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response.headers_mut().remove(header::CONTENT_TYPE);
        *response.body_mut() = Body::empty();
    }
    response
}

/// A value, in the client's notation.
pub fn value(code: u16, wanted: Wanted, value: &Value) -> Response<Body> {
    written(code, wanted, wanted.notation.value(value))
}

/// The JSON of an object, in the client's notation.
pub fn object(code: u16, wanted: Wanted, json: Bytes) -> Response<Body> {
    written(code, wanted, wanted.notation.object(json))
}

fn written(code: u16, wanted: Wanted, bytes: Result<Bytes, Status>) -> Response<Body> {
    match bytes {
        Ok(bytes) if wanted.gzip && bytes.len() > gzip::THRESHOLD_BYTES => {
            streamed(code, wanted, gzip::in_pieces(bytes))
        }
        Ok(bytes) => with_type(code, wanted.notation.media_type(), bytes),
        Err(status) => failure(&status),
    }
}

/// A long answer, sent piece by piece as the client takes it.
pub fn streamed(code: u16, wanted: Wanted, pieces: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    let mut response = with_type(code, wanted.notation.media_type(), Bytes::new());
    if wanted.gzip {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response.headers_mut().append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        *response.body_mut() = gzip::compress(pieces);
    } else {
        *response.body_mut() = Body::Stream(Box::pin(pieces));
    }
    response
}

/// A body that is there, in pieces.
pub fn pieces(code: u16, wanted: Wanted, pieces: Vec<Bytes>) -> Response<Body> {
    let size: usize = pieces.iter().map(Bytes::len).sum();
    if size > gzip::THRESHOLD_BYTES {
        streamed(code, wanted, futures::stream::iter(pieces))
    } else {
        with_type(code, wanted.notation.media_type(), pieces.concat())
    }
}

/// An answer that goes on until one side has enough.
pub fn watch(notation: Notation, events: impl Stream<Item = Bytes> + Send + 'static) -> Result<Response<Body>, Status> {
    let mut response = with_type(200, notation.stream_media_type()?, Bytes::new());
    *response.body_mut() = Body::Stream(Box::pin(events));
    Ok(response)
}

pub fn failure(status: &Status) -> Response<Body> {
    failure_in(Notation::Json, status)
}

/// An error in the notation that the client accepts.
pub fn failure_in(notation: Notation, status: &Status) -> Response<Body> {
    let value = status.to_value();
    let mut response = match notation.value(&value) {
        Ok(bytes) => with_type(status.code, notation.media_type(), bytes),
        Err(_) => json(status.code, value.to_string()),
    };
    if let Some(seconds) = status.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if status.code == 401 {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}
