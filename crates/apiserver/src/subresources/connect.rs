//! `pods/…/exec`, `attach`, `portforward` and `nodes/…/proxy`: what a node answers is passed on, connections too.

use crate::ApiServer;
use crate::authz::Attributes;
use crate::body::Body;
use crate::codec;
use crate::exchange::Exchange;
use crate::nodes::{self, Duplex, NodeAnswer};
use bytes::Bytes;
use http::{HeaderName, Method, Request, Response, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use pintle_meta::{Status, object, query};
use serde_json::Value;

/// What a client and a node agree on by themselves.
const NEGOTIATION: [HeaderName; 7] = [
    header::CONNECTION,
    header::UPGRADE,
    header::SEC_WEBSOCKET_KEY,
    header::SEC_WEBSOCKET_PROTOCOL,
    header::SEC_WEBSOCKET_VERSION,
    header::SEC_WEBSOCKET_EXTENSIONS,
    HeaderName::from_static("x-stream-protocol-version"),
];

/// Connects a client to a process or to ports of a Pod.
pub async fn stream(server: &ApiServer, exchange: &mut Exchange) -> Result<Response<Body>, Status> {
    may_create(server, exchange).await?;
    let kind = exchange.path.subresource.clone();
    let pod = pod(server, exchange).await?;
    let (namespace, name) = (&exchange.path.namespace, &exchange.path.name);
    let (path, asked) = match kind.as_str() {
        "portforward" => (format!("/portForward/{namespace}/{name}"), ports(exchange)),
        kind => {
            let container = container(&pod, exchange.query.get("container"))?;
            (format!("/{kind}/{namespace}/{name}/{container}"), streams(exchange))
        }
    };
    let node = object::text(&pod, &["spec", "nodeName"]);
    if node.is_empty() {
        return Err(Status::bad_request(format!("pod {name} does not have a host assigned")));
    }
    let upgrade = exchange.upgrade.take().ok_or_else(|| Status::bad_request("Upgrade request required"))?;
    let pairs = asked.iter().map(|(name, value)| (*name, value.as_str()));
    let mut request = to_node(&path, &query::encode(pairs))?;
    negotiate(exchange, &mut request);
    let answer = server.ask_node(node, request).await?;
    match answer {
        NodeAnswer { response, connection: Some(connection) } => {
            splice(server, upgrade, connection);
            Ok(response)
        }
        NodeAnswer { response, connection: None } => Err(refusal(response).await),
    }
}

/// `nodes/…/proxy/…`: any path of a node, for those who may.
pub async fn proxy(server: &ApiServer, exchange: &mut Exchange) -> Result<Response<Body>, Status> {
    let text = query::encode(exchange.query.pairs());
    let mut request = to_node(&format!("/{}", query::encode_path(&exchange.path.rest)), &text)?;
    *request.body_mut() = exchange.body.clone();
    for (name, value) in &exchange.headers {
        if is_passed_on(name) {
            request.headers_mut().append(name, value.clone());
        }
    }
    *request.method_mut() = match exchange.verb {
        "get" => Method::GET,
        "create" => Method::POST,
        "update" => Method::PUT,
        "patch" => Method::PATCH,
        "delete" => Method::DELETE,
        _ => return Err(Status::method_not_allowed()),
    };
    if exchange.upgrade.is_some() {
        negotiate(exchange, &mut request);
    }
    let NodeAnswer { mut response, connection } = server.ask_node(&exchange.path.name, request).await?;
    if connection.is_none() {
        // These are about the way from the node to here.
        for name in [header::CONNECTION, header::TRANSFER_ENCODING] {
            response.headers_mut().remove(name);
        }
    }
    if let (Some(connection), Some(upgrade)) = (connection, exchange.upgrade.take()) {
        splice(server, upgrade, connection);
    }
    Ok(response)
}

/// Headers about the content go on to the node; those about this connection and its user do not.
fn is_passed_on(name: &HeaderName) -> bool {
    let ends_here = [
        header::AUTHORIZATION,
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::COOKIE,
        header::HOST,
        header::PROXY_AUTHORIZATION,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ];
    let own = ["impersonate-", "pintle-", "sec-websocket-", "x-remote-", "keep-alive", "proxy-"];
    !ends_here.contains(name) && !own.iter().any(|prefix| name.as_str().starts_with(prefix))
}

/// A WebSocket begins with a GET, and a command is still more than a look.
async fn may_create(server: &ApiServer, exchange: &Exchange) -> Result<(), Status> {
    let path = &exchange.path;
    let attributes = Attributes {
        verb: "create",
        group: &path.group,
        resource: &path.resource,
        subresource: &path.subresource,
        namespace: &path.namespace,
        name: &path.name,
        ..Attributes::default()
    };
    server.authorizer.authorize(&exchange.user, &attributes).await
}

pub(super) async fn pod(server: &ApiServer, exchange: &Exchange) -> Result<Value, Status> {
    let entry = server.registry.get(&exchange.resource, exchange.namespace(), &exchange.path.name).await?;
    Ok(codec::decode(&entry.value))
}

/// The container that is meant: the one that is named, or the only one.
pub(super) fn container(pod: &Value, named: &str) -> Result<String, Status> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let all = lists.into_iter().flat_map(|list| object::list(pod, &["spec", list]));
    let all: Vec<&str> = all.map(|container| object::text(container, &["name"])).collect();
    let pod_name = object::name(pod);
    if !named.is_empty() {
        let known = all.contains(&named);
        let unknown = || Status::bad_request(format!("container {named} is not valid for pod {pod_name}"));
        return known.then(|| named.to_owned()).ok_or_else(unknown);
    }
    match object::list(pod, &["spec", "containers"]) {
        [only] => Ok(object::text(only, &["name"]).to_owned()),
        [] => Err(Status::bad_request(format!("a container name must be specified for pod {pod_name}"))),
        _ => Err(Status::bad_request(format!(
            "a container name must be specified for pod {pod_name}, choose one of: [{}]",
            all.join(" ")
        ))),
    }
}

/// The streams that are asked for, in the node's words.
fn streams(exchange: &Exchange) -> Vec<(&'static str, String)> {
    let names = [("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")];
    let asked = names.into_iter().filter(|(name, _)| exchange.query.flag(name));
    let asked = asked.map(|(_, theirs)| (theirs, "1".to_owned()));
    asked.chain(exchange.query.all("command").iter().map(|part| ("command", part.clone()))).collect()
}

fn ports(exchange: &Exchange) -> Vec<(&'static str, String)> {
    let ports = exchange.query.all("ports");
    if ports.is_empty() { Vec::new() } else { vec![("port", ports.join(","))] }
}

pub(super) fn to_node(path: &str, query: &str) -> Result<Request<Bytes>, Status> {
    let uri = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    let request = Request::builder().method(Method::GET).uri(uri).body(Bytes::new());
    request.map_err(|error| Status::bad_request(format!("{path:?} is no path of a node: {error}")))
}

pub(super) fn negotiate(exchange: &Exchange, request: &mut Request<Bytes>) {
    for name in NEGOTIATION {
        for value in exchange.headers.get_all(&name) {
            request.headers_mut().append(&name, value.clone());
        }
    }
}

/// Lets a client and a node talk until one of them ends, or the server does.
pub(super) fn splice(server: &ApiServer, upgrade: OnUpgrade, mut connection: Box<dyn Duplex>) {
    let server = server.clone();
    let talking = async move {
        match upgrade.await {
            // However it ends, both sides see it.
            Ok(client) => _ = tokio::io::copy_bidirectional(&mut TokioIo::new(client), &mut connection).await,
            Err(error) => tracing::debug!(%error, "a connection was not handed over"),
        }
    };
    tokio::spawn(async move {
        tokio::select! {
            biased;
            () = server.stopping() => {}
            () = talking => {}
        }
    });
}

/// Why a node did not do what it was asked, as the API says it.
pub(super) async fn refusal(response: Response<Body>) -> Status {
    let (head, body) = response.into_parts();
    let text = nodes::read(body).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text).trim_end().to_owned();
    match head.status {
        StatusCode::BAD_REQUEST => Status::bad_request(text),
        StatusCode::NOT_FOUND => Status::new(404, "NotFound", text),
        StatusCode::FORBIDDEN => Status::new(403, "Forbidden", text),
        StatusCode::UNPROCESSABLE_ENTITY => Status::new(422, "Invalid", text),
        _ => Status::internal(text),
    }
}
