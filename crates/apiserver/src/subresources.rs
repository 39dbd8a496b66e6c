//! Parts of an object with a path of their own: status and scale for every kind that has them, and the few others.

mod binding;
mod connect;
mod eviction;
mod log;
mod proxy;
mod scale;
mod token;

use crate::ApiServer;
use crate::body::Body;
use crate::call::Call;
use crate::incoming::{self, Doubts, FieldValidation};
use crate::notes::Notes;
use crate::parse::Parsed;
use crate::request::Sent;
use crate::verb::Verb;
use crate::{catalogue, verbs};
use http::Response;
use pintle_meta::{Status, names, object};
use pintle_schema::{Schema, decode};
use serde_json::Value;

/// Group, version and kind.
type Kind = (&'static str, &'static str, &'static str);

/// The body as an object of the subresource's own kind, with its types checked and doubts noted.
fn body_as(call: &Call, sent: &Sent, notes: &Notes, (group, version, kind): Kind) -> Result<Value, Status> {
    let validation = call.field_validation()?;
    let Parsed { value, duplicates, text } = incoming::read(&call.headers, &sent.body, kind, false)?;
    let (own, given) = (names::join_api_version(group, version), object::text(&value, &["apiVersion"]));
    let named = object::kind(&value);
    if (!given.is_empty() && given != own) || (!named.is_empty() && named != kind) {
        return Err(Status::bad_request(format!("the body is a {given} {named}, and must be a {own} {kind}")));
    }
    let schema = Schema::builtin(&catalogue::type_name(group, version, kind)).ok_or_else(Status::no_such_resource)?;
    let prefix = format!("{kind} in version {version:?} cannot be handled as a {kind}");
    let decoded = decode::decode(&schema, value).map_err(|why| Status::bad_request(format!("{prefix}: {why}")))?;
    let doubts = Doubts::of_typed(duplicates, decoded.unknown, text);
    match validation {
        FieldValidation::Strict if !doubts.errors.is_empty() => {
            let all = doubts.errors.join(", ");
            return Err(Status::bad_request(format!("{prefix}: strict decoding error: {all}")));
        }
        FieldValidation::Warn => notes.warn_all(doubts.warnings),
        _ => {}
    }
    let mut value = decoded.value;
    object::set(&mut value, &["apiVersion"], own);
    object::set(&mut value, &["kind"], kind);
    Ok(value)
}

/// Puts the object of a subresource where its path says.
fn place(call: &Call, value: &mut Value) -> Result<(), Status> {
    let given = object::namespace(value);
    if !given.is_empty() && given != call.path.namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    object::set(value, &["metadata", "namespace"], call.path.namespace.as_str());
    Ok(())
}

pub async fn dispatch(server: &ApiServer, call: &Call, sent: Sent, notes: &Notes) -> Result<Response<Body>, Status> {
    let resource = call.resource()?;
    let Some(subresource) = resource.subresource(&call.path.subresource) else {
        return Err(Status::no_such_resource());
    };
    // A proxy passes on every method, OPTIONS too.
    if !call.is_proxied() && !subresource.verbs.iter().any(|verb| verb == call.verb.as_str()) {
        return Err(Status::method_not_allowed());
    }
    if resource.namespaced && call.path.namespace.is_empty() {
        return Err(Status::method_not_allowed());
    }
    match (subresource.name.as_str(), &call.verb) {
        ("scale", _) => scale::dispatch(server, call, &sent, notes).await,
        ("binding", _) => binding::bind(server, call, &sent, notes).await,
        ("eviction", _) => eviction::evict(server, call, &sent, notes).await,
        ("token", _) => token::request(server, call, &sent, notes).await,
        // Writes of the object itself, of which the strategy lets through only the part that the path names.
        ("status" | "finalize" | "approval" | "ephemeralcontainers" | "resize", verb) => match verb {
            Verb::Get => verbs::get::get(server, call).await,
            Verb::Update => verbs::update::update(server, call, &sent, notes).await,
            Verb::Patch => verbs::patch::patch(server, call, &sent, notes).await,
            _ => Err(Status::method_not_allowed()),
        },
        ("log", _) => log::log(server, call, sent).await,
        ("exec" | "attach" | "portforward", _) => connect::stream(server, call, sent, notes).await,
        ("proxy", _) => proxy::proxy(server, call, sent, notes).await,
        (other, _) => Err(Status::new(
            501,
            "NotImplemented",
            format!("{}/{other} is not served by this version of Pintle", resource.name),
        )),
    }
}
