//! Requests as bytes, for what no typed client would send.

use crate::Cluster;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Uri};
use http_body_util::BodyExt;
use pintle_apiserver::authn::User;
use pintle_apiserver::request::{Peer, Request};
use serde_json::Value;

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Value,
    /// The body as it came.
    pub bytes: Bytes,
}

impl Answer {
    /// The message of a Status.
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    pub fn warnings(&self) -> Vec<&str> {
        self.headers.get_all("warning").iter().filter_map(|v| v.to_str().ok()).collect()
    }
}

impl Cluster {
    /// Sends a request as the administrator, with the body as it is.
    pub async fn request(&self, method: &str, path: &str, media: &str, body: impl Into<Bytes>) -> Answer {
        self.request_as(Peer::Internal(User::internal("kubernetes-admin").into()), &[], method, path, media, body).await
    }

    /// The same in another's name and with more headers.
    ///
    /// # Panics
    ///
    /// When the request itself cannot be put together.
    pub async fn request_as(
        &self,
        peer: Peer,
        headers: &[(&'static str, &str)],
        method: &str,
        path: &str,
        media: &str,
        body: impl Into<Bytes>,
    ) -> Answer {
        let mut map = HeaderMap::new();
        for (name, value) in headers.iter().chain((!media.is_empty()).then_some(&("content-type", media))) {
            map.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap_or_else(|e| panic!("{name}: {e}")));
        }
        map.entry("user-agent").or_insert(HeaderValue::from_static("testkit"));
        let method = Method::from_bytes(method.as_bytes()).unwrap_or_else(|e| panic!("{method}: {e}"));
        let uri = path.parse().unwrap_or_else(|e| panic!("{path}: {e}"));
        self.send(peer, method, uri, map, body.into()).await
    }

    /// The same with everything as HTTP has it.
    pub async fn send(&self, peer: Peer, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Answer {
        let (mut head, ()) = http::Request::new(()).into_parts();
        (head.method, head.uri, head.headers) = (method, uri, headers);
        let (head, body) = self.server.handle(Request::new(head, body, peer)).await.into_parts();
        let bytes = body.collect().await.map(|b| b.to_bytes()).unwrap_or_default();
        let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
        Answer {
            code: head.status.as_u16(),
            headers: head.headers,
            body: serde_json::from_slice(&bytes).unwrap_or_else(|_| text()),
            bytes,
        }
    }
}
