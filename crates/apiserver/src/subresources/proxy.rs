//! `pods/…/proxy`, `services/…/proxy` and `nodes/…/proxy`: any request is passed on, and the answer back, both as they come.
//!
//! The body of the request goes on while it arrives, and so does the answer's. A connection that changes its protocol is
//! handed over. Redirects are passed to the client, never followed.

pub(crate) mod headers;
mod links;
mod place;

use super::connect::{options, splice};
use crate::ApiServer;
use crate::admission::Operation;
use crate::body::{Body, Payload};
use crate::call::Call;
use crate::nodes::network::{self, CONNECT, NotAllowed};
use crate::nodes::{self, Duplex, NodeAnswer};
use crate::notes::Notes;
use crate::request::{Sent, Unread};
use bytes::Bytes;
use flate2::write::GzDecoder;
use futures::StreamExt;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, StreamBody};
use links::{Html, Links};
use pintle_meta::{Status, query};
use place::To;
use std::io::{self, Write};

pub async fn proxy(server: &ApiServer, call: &Call, sent: Sent, notes: &Notes) -> Result<Response<Body>, Status> {
    let Sent { upgrade, unread: Some(unread), .. } = sent else { return Err(Status::method_not_allowed()) };
    refuse_tricks(&call.path.rest)?;
    if call.query.has("dryRun") {
        return Err(Status::bad_request("dryRun is not supported"));
    }
    let registry = &server.registry;
    registry.admission.pass(registry, call, notes, Operation::Connect, &mut options(call)).await?;
    let to = place::find(server, call).await?;
    let upgrade = upgrade.filter(|_| headers::asks_to_upgrade(&call.headers));
    let trailing = if call.url.ends_with('/') && !call.path.rest.is_empty() { "/" } else { "" };
    // Relative links of a page are wrong if its path has no slash at the end.
    let is_root = call.path.rest.is_empty() && !call.url.ends_with('/');
    if is_root && upgrade.is_none() && matches!(unread.method, Method::GET | Method::HEAD) {
        return redirect(&unread);
    }
    let prefix = prefix(call);
    let path = format!("/{}{trailing}", query::encode_path(&call.path.rest));
    let links = Links { prefix, origin: origin(&to), host: headers::host(&call.headers, &unread.uri) };
    let request = request(call, unread, &path, &links, upgrade.is_some())?;
    let NodeAnswer { mut response, connection } = send(server, to, request, upgrade.is_some()).await?;
    match (upgrade, connection) {
        (Some(upgrade), Some(connection)) => {
            splice(server, upgrade, connection);
            return Ok(response);
        }
        (Some(_), None) if response.status().as_u16() < 400 => {
            let why = format!("invalid upgrade response: status code {}", response.status().as_u16());
            return Err(Status::new(500, "", why));
        }
        _ => {}
    }
    headers::of_answer(response.headers_mut());
    Ok(lead_through(response, links))
}

/// What another path could hide behind: access was decided for the path as it is.
fn refuse_tricks(rest: &str) -> Result<(), Status> {
    let odd = rest.split('/').find(|part| matches!(*part, "." | ".."));
    odd.map_or(Ok(()), |part| {
        Err(Status::bad_request(format!("the path behind proxy must not have the part {part:?}")))
    })
}

fn redirect(unread: &Unread) -> Result<Response<Body>, Status> {
    let query = unread.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let location = format!("{}/{query}", unread.uri.path());
    let response = Response::builder().status(StatusCode::MOVED_PERMANENTLY).header(header::LOCATION, location);
    response.body(Body::empty()).map_err(|error| Status::bad_request(error.to_string()))
}

/// The path by which the client reaches the root of what is behind the proxy.
fn prefix(call: &Call) -> String {
    let path = &call.path;
    let namespace = if path.in_namespace { format!("/namespaces/{}", path.namespace) } else { String::new() };
    query::encode_path(&format!("/api/{}{namespace}/{}/{}/proxy", path.version, path.resource, path.name))
}

fn origin(to: &To) -> String {
    match to {
        To::Agent(place) => place.endpoint.as_ref().map(|(host, port)| join(host, *port)).unwrap_or_default(),
        To::Address { host, port, .. } => join(host, *port),
    }
}

fn join(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn request(call: &Call, unread: Unread, path: &str, links: &Links, upgrade: bool) -> Result<Request<Payload>, Status> {
    let Unread { method, uri, body, from } = unread;
    let target = uri.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
    let bad = |error: http::Error| Status::bad_request(format!("{path:?} is no path: {error}"));
    let mut request = Request::builder().method(method).uri(target).body(body).map_err(bad)?;
    *request.headers_mut() = headers::of_request(&call.headers, upgrade, from);
    let host = if links.host.is_empty() { &links.origin } else { &links.host };
    for (name, value) in [("host", host.clone()), ("x-forwarded-uri", format!("{}{path}", links.prefix))] {
        let value = HeaderValue::from_str(&value).map_err(|error| bad(error.into()))?;
        request.headers_mut().insert(name, value);
    }
    Ok(request)
}

async fn send(server: &ApiServer, to: To, request: Request<Payload>, upgrade: bool) -> Result<NodeAnswer, Status> {
    let unreachable = |why: String| match upgrade {
        true => Status::new(500, "", format!("error dialing backend: {why}")),
        false => Status::unavailable(format!("error trying to reach service: {why}")),
    };
    match to {
        To::Agent(place) => server.ask_at(place, request).await?.map_err(unreachable),
        To::Address { host, port, tls } => {
            let connecting = tokio::time::timeout(CONNECT, connect(server, &host, port, tls)).await;
            let connection = match connecting {
                Ok(Ok(connection)) => connection,
                Ok(Err(error)) if NotAllowed::is_in(&error) => return Err(place::not_allowed()),
                Ok(Err(error)) => return Err(unreachable(format!("dial tcp {}: {error}", join(&host, port)))),
                Err(_) => return Err(unreachable(format!("dial tcp {}: i/o timeout", join(&host, port)))),
            };
            nodes::exchange(connection, request).await.map_err(|error| unreachable(error.to_string()))
        }
    }
}

async fn connect(server: &ApiServer, host: &str, port: u16, tls: bool) -> io::Result<Box<dyn Duplex>> {
    let network = server.network().ok_or_else(|| io::Error::other("this server has no network that Pods are in"))?;
    let connection = network.connect(host.to_owned(), port).await?;
    if tls { network::secure(connection, host).await } else { Ok(connection) }
}

/// Makes redirects and the links of a page lead through the proxy.
fn lead_through(mut response: Response<Body>, links: Links) -> Response<Body> {
    let text = |headers: &HeaderMap, name| {
        headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    if response.headers().contains_key(header::LOCATION) {
        let location = links.through(&text(response.headers(), header::LOCATION));
        if let Some(location) = location.and_then(|location| HeaderValue::from_str(&location).ok()) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        return response;
    }
    let is_page =
        text(response.headers(), header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim() == "text/html";
    let unpack = match text(response.headers(), header::CONTENT_ENCODING).as_str() {
        "" | "identity" => None,
        "gzip" => Some(GzDecoder::new(Vec::new())),
        // What cannot be read is passed on as it is.
        _ => return response,
    };
    if !is_page {
        return response;
    }
    for name in [header::CONTENT_LENGTH, header::CONTENT_ENCODING, header::ETAG] {
        response.headers_mut().remove(name);
    }
    response.map(|body| page(body, unpack, Html::new(links)))
}

/// As much of a packed page as is unpacked at once: it may be a thousand times as long.
const UNPACKED_AT_ONCE: usize = 4096;

/// A page with its links changed, piece by piece.
fn page(body: Body, unpack: Option<GzDecoder<Vec<u8>>>, html: Html) -> Body {
    let state = Some((body.into_data_stream(), Bytes::new(), unpack, html));
    let pieces = futures::stream::unfold(state, |state| async {
        let (mut body, mut waiting, mut unpack, mut html) = state?;
        if waiting.is_empty() {
            waiting = match body.next().await {
                Some(Ok(piece)) => piece,
                Some(Err(error)) => return Some((Err(error), None)),
                None => {
                    let rest = unpack.map_or_else(|| Ok(Vec::new()), GzDecoder::finish);
                    let rest = rest.map(|rest| [html.feed(&rest), html.finish()].concat().into());
                    return Some((rest, None));
                }
            };
        }
        let piece = waiting.split_to(waiting.len().min(UNPACKED_AT_ONCE));
        let ready = match &mut unpack {
            None => Ok(html.feed(&piece)),
            Some(packed) => packed.write_all(&piece).map(|()| html.feed(&std::mem::take(packed.get_mut()))),
        };
        let next = ready.is_ok().then_some((body, waiting, unpack, html));
        Some((ready.map(Bytes::from), next))
    });
    Body::Passed(StreamBody::new(pieces.map(|piece| piece.map(http_body::Frame::data))).boxed_unsync())
}

#[cfg(test)]
mod tests;
