//! How an answer looks: JSON as it is stored, YAML, a table, or metadata alone, as the Accept header wishes.

use crate::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use pintle_meta::Status;
use serde_json::Value;

/// What the client can read, best first among what we can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub shape: Shape,
    pub yaml: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Object,
    Table,
    PartialMetadata,
    /// Aggregated discovery.
    Aggregated,
}

const UNACCEPTABLE: &str = "only the following media types are accepted: application/json, application/yaml";

impl Wanted {
    pub fn from(headers: &HeaderMap) -> Result<Self, Status> {
        Wanted::among(headers, true)
    }

    /// The same where nothing can be shown as a table.
    pub fn without_tables(headers: &HeaderMap) -> Result<Self, Status> {
        Wanted::among(headers, false)
    }

    fn among(headers: &HeaderMap, tables: bool) -> Result<Self, Status> {
        let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("*/*");
        for clause in accept.split(',') {
            let mut parts = clause.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let yaml = match media {
                "" | "*/*" | "application/*" | "application/json" => false,
                "application/yaml" => true,
                _ => continue,
            };
            let (mut shape, mut group, mut known) = (Shape::Object, "", true);
            for parameter in parts {
                match parameter.split_once('=') {
                    Some(("as", "Table")) if tables => shape = Shape::Table,
                    Some(("as", "PartialObjectMetadata" | "PartialObjectMetadataList")) => {
                        shape = Shape::PartialMetadata
                    }
                    Some(("as", "APIGroupDiscoveryList")) => shape = Shape::Aggregated,
                    Some(("as", _)) => known = false,
                    Some(("g", g)) => group = g,
                    Some(("v", v)) if shape != Shape::Object => known &= matches!(v, "v1" | "v2"),
                    _ => {}
                }
            }
            let fits = match shape {
                Shape::Object => true,
                Shape::Aggregated => group == "apidiscovery.k8s.io",
                _ => group == "meta.k8s.io",
            };
            if known && fits {
                return Ok(Wanted { shape, yaml });
            }
        }
        Err(Status::new(406, "NotAcceptable", UNACCEPTABLE))
    }
}

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
    if wanted.yaml {
        return match serde_saphyr::to_string(value) {
            Ok(text) => with_type(code, "application/yaml", text),
            Err(error) => failure(&Status::internal(error.to_string())),
        };
    }
    json(code, value.to_string())
}

/// Bytes of an object, in the client's notation.
pub fn object(code: u16, wanted: Wanted, bytes: Bytes) -> Response<Body> {
    if wanted.yaml { value(code, wanted, &crate::codec::decode(&bytes)) } else { json(code, bytes) }
}

pub fn failure(status: &Status) -> Response<Body> {
    let mut response = json(status.code, status.to_value().to_string());
    if let Some(seconds) = status.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if status.code == 401 {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(accept: &str) -> Result<Wanted, Status> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        Wanted::from(&headers)
    }

    #[test]
    fn the_accept_header_chooses_the_shape() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(wanted(kubectl).unwrap().shape, Shape::Table);
        assert_eq!(wanted("application/vnd.kubernetes.protobuf,application/json").unwrap().shape, Shape::Object);
        assert!(wanted("application/yaml").unwrap().yaml);
        assert_eq!(wanted("text/html").unwrap_err().code, 406);
        assert_eq!(wanted("*/*").unwrap().shape, Shape::Object);
    }
}
