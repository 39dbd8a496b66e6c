//! Parts of an object with a path of their own: status and scale for every kind that has them, and the few others.

mod binding;
mod connect;
mod eviction;
mod log;
mod scale;
mod token;

use crate::ApiServer;
use crate::body::Body;
use crate::exchange::Exchange;
use crate::incoming::{self, Doubts, FieldValidation};
use crate::parse::Parsed;
use crate::{catalogue, verbs};
use http::Response;
use pintle_meta::{Status, names, object};
use pintle_schema::{Schema, decode};
use serde_json::Value;

/// The body as an object of the subresource's own kind, with its types checked and doubts noted.
fn body_as(exchange: &mut Exchange, group: &str, version: &str, kind: &str) -> Result<Value, Status> {
    let validation = exchange.field_validation()?;
    let Parsed { value, duplicates, text } = incoming::read(&exchange.headers, &exchange.body, kind, false)?;
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
        FieldValidation::Warn => exchange.warnings.extend(doubts.warnings),
        _ => {}
    }
    let mut value = decoded.value;
    object::set(&mut value, &["apiVersion"], own);
    object::set(&mut value, &["kind"], kind);
    Ok(value)
}

pub async fn dispatch(server: &ApiServer, verb: &str, exchange: &mut Exchange) -> Result<Response<Body>, Status> {
    let Some(subresource) = exchange.resource.subresource(&exchange.path.subresource) else {
        return Err(Status::no_such_resource());
    };
    if !subresource.verbs.iter().any(|v| v == verb) {
        return Err(Status::method_not_allowed());
    }
    if exchange.resource.namespaced && exchange.path.namespace.is_empty() {
        return Err(Status::method_not_allowed());
    }
    let name = subresource.name.clone();
    match (name.as_str(), verb) {
        ("scale", _) => scale::dispatch(server, verb, exchange).await,
        ("binding", _) => binding::bind(server, exchange).await,
        ("eviction", _) => eviction::evict(server, exchange).await,
        ("token", _) => token::request(server, exchange).await,
        // Writes of the object itself, of which the strategy lets through only the part that the path names.
        ("status" | "finalize" | "approval" | "ephemeralcontainers" | "resize", "get") => {
            verbs::get::get(server, exchange).await
        }
        ("status" | "finalize" | "approval" | "ephemeralcontainers" | "resize", "update") => {
            verbs::update::update(server, exchange).await
        }
        ("status" | "finalize" | "approval" | "ephemeralcontainers" | "resize", "patch") => {
            verbs::patch::patch(server, exchange).await
        }
        ("log", _) => log::log(server, exchange).await,
        ("exec" | "attach" | "portforward", _) => connect::stream(server, exchange).await,
        ("proxy", _) if exchange.resource.name == "nodes" => connect::proxy(server, exchange).await,
        (other, _) => Err(Status::new(
            501,
            "NotImplemented",
            format!("{}/{other} is not served by this version of Pintle", exchange.resource.name),
        )),
    }
}
