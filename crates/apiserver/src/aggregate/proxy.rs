//! A request is passed on to the server that answers for its version, and the answer back, both as they come.
//!
//! What is sent is the path for which access was decided, and a query of the pairs that were read: no other spelling of either
//! reaches the server. Redirects are neither followed nor passed on.

use super::{DISCOVERY, Registered, identify};
use crate::ApiServer;
use crate::body::{Body, Payload};
use crate::call::Call;
use crate::nodes::{self, NodeAnswer};
use crate::outbound::{Destination, Failure};
use crate::request::Request;
use crate::response;
use crate::subresources::connect::splice;
use crate::subresources::proxy::headers;
use http::{HeaderName, HeaderValue, Response, header};
use pintle_meta::{Status, query};

const REDIRECTED: &str = "the backend attempted to redirect this request, which is not permitted";

/// Answers a request whose user may make it.
pub async fn pass(
    server: &ApiServer,
    registered: &Registered,
    call: &Call,
    request: Request,
) -> Result<Response<Body>, Status> {
    let parts: Vec<&str> = call.url.split('/').filter(|part| !part.is_empty()).collect();
    if let Some(part) = parts.iter().find(|part| matches!(**part, "." | "..")) {
        return Err(Status::bad_request(format!("the path must not have the part {part:?}")));
    }
    if !registered.is_available {
        return Ok(failure(503, "service unavailable"));
    }
    let destination = match registered.destination(&server.front_proxy) {
        Ok(destination) => destination,
        Err(why) => return Ok(failure(500, why)),
    };
    let Request { method, uri, body, upgrade, connection, .. } = request;
    let upgrade = upgrade.filter(|_| headers::asks_to_upgrade(&call.headers));
    let from = connection.and_then(|connection| connection.from());
    let mut passed = http::Request::new(body);
    *passed.method_mut() = method;
    *passed.headers_mut() = headers::of_request(&call.headers, upgrade.is_some(), from);
    let target = Target::of(call, &parts);
    *passed.uri_mut() = target.uri.parse().map_err(|e: http::uri::InvalidUri| Status::bad_request(e.to_string()))?;
    let forwarded = [
        (header::HOST, destination.place.authority()),
        (HeaderName::from_static("x-forwarded-uri"), target.path),
        (HeaderName::from_static("x-forwarded-host"), headers::host(&call.headers, &uri)),
        (HeaderName::from_static("x-forwarded-proto"), "https".to_owned()),
    ];
    for (name, value) in forwarded.into_iter().filter(|(_, value)| !value.is_empty()) {
        let value = HeaderValue::from_str(&value).map_err(|error| Status::bad_request(error.to_string()))?;
        passed.headers_mut().insert(name, value);
    }
    if let Err(why) = identify(passed.headers_mut(), &call.user) {
        return Ok(failure(503, &format!("error trying to reach service: {why}")));
    }
    let sending = send(server, destination, passed);
    // What a server serves is asked for by every client that starts: it must not take long.
    let is_discovery = !call.is_of_objects() && parts.len() == 3;
    let sent = match is_discovery {
        true => tokio::time::timeout(DISCOVERY, sending).await.unwrap_or(Err(Failure::Late)),
        false => sending.await,
    };
    let NodeAnswer { mut response, connection } = match sent {
        Ok(answer) => answer,
        Err(Failure::Service(_)) => return Ok(failure(503, "service unavailable")),
        Err(why) => return Ok(failure(503, &format!("error trying to reach service: {why}"))),
    };
    match (upgrade, connection) {
        (Some(upgrade), Some(connection)) => {
            splice(server, upgrade, connection);
            return Ok(response);
        }
        // Nobody asked for another protocol: whatever is said in it is not passed on.
        (None, Some(_)) => return Ok(failure(503, "invalid upgrade response: status code 101")),
        (Some(_), None) if response.status().as_u16() < 400 => {
            let code = response.status().as_u16();
            return Ok(failure(503, &format!("invalid upgrade response: status code {code}")));
        }
        _ => {}
    }
    if response.status().is_redirection() && response.headers().contains_key(header::LOCATION) {
        return Ok(response::text(502, REDIRECTED));
    }
    headers::of_answer(response.headers_mut());
    Ok(response)
}

async fn send(
    server: &ApiServer,
    destination: &Destination,
    request: http::Request<Payload>,
) -> Result<NodeAnswer, Failure> {
    let connection = server.registry.outbound.connect(&server.registry, destination).await?;
    nodes::exchange(connection, request).await.map_err(|error| match error {
        error if error.is_incomplete_message() || error.is_closed() || error.is_canceled() => Failure::Closed,
        error => Failure::Http(error.to_string()),
    })
}

/// The path and query that are sent.
struct Target {
    path: String,
    uri: String,
}

impl Target {
    fn of(call: &Call, parts: &[&str]) -> Self {
        let trailing = if call.url.ends_with('/') { "/" } else { "" };
        let path = query::encode_path(&format!("/{}{trailing}", parts.join("/")));
        let query = query::encode(call.query.pairs());
        let uri = if query.is_empty() { path.clone() } else { format!("{path}?{query}") };
        Target { path, uri }
    }
}

/// As plain text: such are Kubernetes' own answers in the place of another server.
fn failure(code: u16, why: &str) -> Response<Body> {
    let mut response = response::text(code, format!("{why}\n"));
    let nosniff = HeaderValue::from_static("nosniff");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}
