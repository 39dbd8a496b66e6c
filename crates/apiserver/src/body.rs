//! Bodies in and out: what a client sent, decoded with every doubt noted; what it gets, as bytes or a stream.

use crate::listener::connections::UnderWay;
use bytes::{Bytes, BytesMut};
use futures::Stream;
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use pintle_meta::Status;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::convert::Infallible;
use std::fmt;
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

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Body::Whole(Some(bytes))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Body::Whole(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            Body::Stream(stream) => stream.as_mut().poll_next(cx).map(|next| next.map(|b| Ok(Frame::data(b)))),
            Body::Guarded(body, _) => Pin::new(&mut **body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(bytes) => bytes.is_none(),
            Body::Stream(_) => false,
            Body::Guarded(body, _) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Body::Whole(bytes) => http_body::SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Body::Stream(_) => http_body::SizeHint::default(),
            Body::Guarded(body, _) => body.size_hint(),
        }
    }
}

/// A JSON text as a value, with the paths of keys that stood twice (the last one wins).
pub struct Parsed {
    pub value: Value,
    pub duplicates: Vec<String>,
}

/// Reads JSON. Nesting deeper than the parser allows is an error, never a deep recursion.
pub fn parse_json(bytes: &[u8]) -> Result<Parsed, serde_json::Error> {
    let mut duplicates = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Reader { path: &mut String::new(), duplicates: &mut duplicates }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(Parsed { value, duplicates })
}

/// Reads YAML as JSON.
pub fn parse_yaml(bytes: &[u8]) -> Result<Parsed, String> {
    let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
    let value: Value = serde_saphyr::from_str(text).map_err(|e| e.to_string())?;
    Ok(Parsed { value, duplicates: Vec::new() })
}

/// Builds a [`Value`] while watching for keys that stand twice.
struct Reader<'a> {
    path: &'a mut String,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Value, E> {
        serde_json::Number::from_f64(v).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        let length = self.path.len();
        loop {
            fmt::Write::write_fmt(self.path, format_args!("[{}]", items.len())).map_err(A::Error::custom)?;
            let item = seq.next_element_seed(Reader { path: self.path, duplicates: self.duplicates })?;
            self.path.truncate(length);
            match item {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        let length = self.path.len();
        while let Some(key) = access.next_key::<String>()? {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&key);
            let value = access.next_value_seed(Reader { path: self.path, duplicates: self.duplicates })?;
            if map.insert(key, value).is_some() {
                self.duplicates.push(self.path.clone());
            }
            self.path.truncate(length);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_stands_twice_is_noticed() {
        let parsed = parse_json(br#"{"data":{"a":"1","a":"2"},"l":[{"x":1,"x":2}]}"#).unwrap();
        assert_eq!(parsed.duplicates, ["data.a", "l[0].x"]);
        assert_eq!(parsed.value["data"]["a"], "2");
    }

    #[test]
    fn deep_nesting_is_refused_not_followed() {
        assert!(parse_json("[".repeat(20_000).as_bytes()).is_err());
        let closed = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
        assert!(parse_json(closed.as_bytes()).is_err());
    }
}
