//! Bodies in and out: what a client sends, read when it is wanted and within limits; what it gets, as bytes or a stream.

use crate::listener::connections::UnderWay;
use bytes::{Bytes, BytesMut};
use futures::Stream;
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use pintle_meta::Status;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// The largest body that is read.
pub const LIMIT: usize = 3 * 1024 * 1024;

/// How much of a body that is too large is read before the connection is given up.
const MAX_DRAINED_BYTES: usize = 16 * LIMIT;

/// How long a body may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(60);

/// What a client sent: here already, or still in its socket, where it costs nothing.
pub enum Payload {
    Whole(Bytes),
    Arriving(Incoming),
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Payload::Whole(bytes)
    }
}

impl Payload {
    pub async fn read(self) -> Result<Bytes, Status> {
        match self {
            Payload::Whole(bytes) => Ok(bytes),
            Payload::Arriving(body) => {
                let late =
                    |_| Status::new(408, "Timeout", format!("the body did not arrive in {} s", ARRIVAL.as_secs()));
                tokio::time::timeout(ARRIVAL, read(body)).await.map_err(late)?
            }
        }
    }
}

/// Passed on to somebody else as it arrives.
impl http_body::Body for Payload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut *self {
            Payload::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Payload::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Payload::Arriving(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Payload::Whole(bytes) => bytes.is_empty(),
            Payload::Arriving(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Payload::Whole(bytes) => http_body::SizeHint::with_exact(bytes.len() as u64),
            Payload::Arriving(body) => body.size_hint(),
        }
    }
}

/// Reads a body. One that is too large is read to its end, within reason, so that its sender gets the answer.
pub async fn read(mut body: Incoming) -> Result<Bytes, Status> {
    let (mut whole, mut size) = (BytesMut::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Status::bad_request(format!("the body could not be read: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        size += data.len();
        // Most bodies are one frame, and need no copy.
        if size == data.len() && body.is_end_stream() && size <= LIMIT {
            return Ok(data);
        }
        if size <= LIMIT {
            whole.extend_from_slice(&data);
        } else if size > MAX_DRAINED_BYTES {
            break;
        } else {
            whole = BytesMut::new();
        }
    }
    if size > LIMIT {
        return Err(Status::too_large(format!("Request entity too large: limit is {LIMIT}")));
    }
    Ok(whole.freeze())
}

/// What is answered.
pub enum Body {
    Whole(Option<Bytes>),
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
    /// Another server's answer, which may break off.
    Passed(UnsyncBoxBody<Bytes, io::Error>),
    /// With something that is dropped when the answer was sent.
    Guarded(Box<Body>, UnderWay),
}

impl Body {
    pub fn empty() -> Self {
        Body::Whole(None)
    }

    /// The same; its request is under way until the last byte was taken.
    pub fn with_guard(self, guard: UnderWay) -> Self {
        Body::Guarded(Box::new(self), guard)
    }
}

impl From<Incoming> for Body {
    fn from(body: Incoming) -> Self {
        Body::Passed(body.map_err(io::Error::other).boxed_unsync())
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Body::Whole(Some(bytes))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut *self {
            Body::Whole(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            Body::Stream(stream) => stream.as_mut().poll_next(cx).map(|next| next.map(|b| Ok(Frame::data(b)))),
            Body::Passed(body) => Pin::new(body).poll_frame(cx),
            Body::Guarded(body, _) => Pin::new(&mut **body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(bytes) => bytes.is_none(),
            Body::Stream(_) => false,
            Body::Passed(body) => body.is_end_stream(),
            Body::Guarded(body, _) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Body::Whole(bytes) => http_body::SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Body::Stream(_) => http_body::SizeHint::default(),
            Body::Passed(body) => body.size_hint(),
            Body::Guarded(body, _) => body.size_hint(),
        }
    }
}
