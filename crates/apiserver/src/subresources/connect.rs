//! `pods/…/exec`, `attach` and `portforward`: a node answers, and its connection is handed over to the client.

use crate::ApiServer;
use crate::admission::Operation;
use crate::body::{Body, Payload};
use crate::call::Call;
use crate::codec;
use crate::nodes::{self, Duplex, NodeAnswer};
use crate::notes::Notes;
use crate::request::Sent;
use crate::verb::Verb;
use bytes::Bytes;
use http::{HeaderName, Method, Request, Response, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use pintle_meta::{Status, object, query};
use serde_json::{Value, json};

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
pub async fn stream(server: &ApiServer, call: &Call, mut sent: Sent, notes: &Notes) -> Result<Response<Body>, Status> {
    may_create(server, call, notes).await?;
    let pod = pod(server, call).await?;
    let registry = &server.registry;
    registry.admission.pass(registry, call, notes, Operation::Connect, &mut options(call)).await?;
    let (namespace, name) = (&call.path.namespace, &call.path.name);
    let (path, asked) = match call.path.subresource.as_str() {
        "portforward" => (format!("/portForward/{namespace}/{name}"), ports(call)),
        kind => {
            let container = container(&pod, call.query.get("container"))?;
            (format!("/{kind}/{namespace}/{name}/{container}"), streams(call))
        }
    };
    let node = object::text(&pod, &["spec", "nodeName"]);
    if node.is_empty() {
        return Err(Status::bad_request(format!("pod {name} does not have a host assigned")));
    }
    let upgrade = sent.upgrade.take().ok_or_else(|| Status::bad_request("Upgrade request required"))?;
    let pairs = asked.iter().map(|(name, value)| (*name, value.as_str()));
    let mut request = to_node(&path, &query::encode(pairs))?;
    negotiate(call, &mut request);
    let answer = server.ask_node(node, request).await?;
    match answer {
        NodeAnswer { response, connection: Some(connection) } => {
            splice(server, upgrade, connection);
            Ok(response)
        }
        NodeAnswer { response, connection: None } => Err(refusal(response).await),
    }
}

/// A WebSocket begins with a GET, and a command is still more than a look.
async fn may_create(server: &ApiServer, call: &Call, notes: &Notes) -> Result<(), Status> {
    if call.verb == Verb::Create {
        return Ok(());
    }
    let question = Call::asks(call.user.clone(), Verb::Create, call.path.clone());
    Ok(server.authorizer.authorize(&question, notes).await?)
}

/// What a connection asks for, as the object that admission sees.
pub(super) fn options(call: &Call) -> Value {
    let (kind, lists): (&str, &[&str]) = match (call.path.subresource.as_str(), call.path.resource.as_str()) {
        ("exec", _) => ("PodExecOptions", &["command"]),
        ("attach", _) => ("PodAttachOptions", &[]),
        ("portforward", _) => ("PodPortForwardOptions", &["ports"]),
        (_, "nodes") => ("NodeProxyOptions", &[]),
        (_, "services") => ("ServiceProxyOptions", &[]),
        _ => ("PodProxyOptions", &[]),
    };
    let mut options = json!({"kind": kind, "apiVersion": "v1"});
    for flag in ["stdin", "stdout", "stderr", "tty"] {
        if matches!(kind, "PodExecOptions" | "PodAttachOptions") && call.query.flag(flag) {
            options[flag] = true.into();
        }
    }
    let container = call.query.get("container");
    if !container.is_empty() && matches!(kind, "PodExecOptions" | "PodAttachOptions") {
        options["container"] = container.into();
    }
    for list in lists {
        let values = call.query.all(list).iter();
        // Ports are numbers.
        let values = values
            .map(|text| text.parse::<i64>().ok().filter(|_| *list == "ports").map_or_else(|| json!(text), Value::from));
        options[*list] = values.collect();
    }
    if call.path.subresource == "proxy" {
        let trailing = if call.url.ends_with('/') && !call.path.rest.is_empty() { "/" } else { "" };
        options["path"] = format!("/{}{trailing}", call.path.rest).into();
    }
    options
}

pub(super) async fn pod(server: &ApiServer, call: &Call) -> Result<Value, Status> {
    let entry = server.registry.get(call.resource()?, call.namespace(), &call.path.name).await?;
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
fn streams(call: &Call) -> Vec<(&'static str, String)> {
    let names = [("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")];
    let asked = names.into_iter().filter(|(name, _)| call.query.flag(name));
    let asked = asked.map(|(_, theirs)| (theirs, "1".to_owned()));
    asked.chain(call.query.all("command").iter().map(|part| ("command", part.clone()))).collect()
}

fn ports(call: &Call) -> Vec<(&'static str, String)> {
    let ports = call.query.all("ports");
    if ports.is_empty() { Vec::new() } else { vec![("port", ports.join(","))] }
}

pub(super) fn to_node(path: &str, query: &str) -> Result<Request<Payload>, Status> {
    let uri = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    let request = Request::builder().method(Method::GET).uri(uri).body(Bytes::new().into());
    request.map_err(|error| Status::bad_request(format!("{path:?} is no path of a node: {error}")))
}

pub(super) fn negotiate(call: &Call, request: &mut Request<Payload>) {
    for name in NEGOTIATION {
        for value in call.headers.get_all(&name) {
            request.headers_mut().append(&name, value.clone());
        }
    }
}

/// Lets a client and a node talk until one of them ends, or the server does.
pub(crate) fn splice(server: &ApiServer, upgrade: OnUpgrade, mut connection: Box<dyn Duplex>) {
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
