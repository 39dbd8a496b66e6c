//! One file per verb, each for every kind.

pub mod create;
pub mod delete;
pub mod delete_collection;
pub mod get;
pub mod list;
pub mod patch;
pub mod update;
pub mod watch;

use crate::ApiServer;
use crate::body::Body;
use crate::call::Call;
use crate::notes::Notes;
use crate::registry::{Registry, Written};
use crate::request::Sent;
use crate::response::{self, Shape};
use crate::verb::Verb;
use crate::{serve, subresources, table};
use http::Response;
use pintle_meta::Status;
use serde_json::Value;

/// Sends a call to its verb.
pub async fn dispatch(server: &ApiServer, call: &Call, sent: Sent, notes: &Notes) -> Result<Response<Body>, Status> {
    // What a proxied answer is written in is between the client and who answers.
    if !call.is_proxied() {
        call.wanted()?;
    }
    if !call.path.subresource.is_empty() {
        return subresources::dispatch(server, call, sent, notes).await;
    }
    let resource = call.resource()?;
    let lacks_namespace =
        resource.namespaced && call.path.namespace.is_empty() && !matches!(call.verb, Verb::List | Verb::Watch);
    // What is created has no name in its path yet; what is changed has one.
    let misnamed = match call.verb {
        Verb::Create => !call.path.name.is_empty(),
        Verb::Update | Verb::Patch => call.path.name.is_empty(),
        _ => false,
    };
    if !resource.allows(call.verb.as_str()) || lacks_namespace || misnamed {
        return Err(Status::method_not_allowed());
    }
    if let Some(answer) = serve::reviews::dispatch(server, call, &sent, notes).await {
        return answer;
    }
    match call.verb {
        Verb::Get => get::get(server, call).await,
        Verb::List => list::list(server, call, notes).await,
        Verb::Watch => watch::watch(server, call).await,
        Verb::Create => create::create(server, call, &sent, notes).await,
        Verb::Update => update::update(server, call, &sent, notes).await,
        Verb::Patch => patch::patch(server, call, &sent, notes).await,
        Verb::Delete => delete::delete(server, call, &sent, notes).await,
        Verb::DeleteCollection => delete_collection::delete_collection(server, call, &sent, notes).await,
        Verb::Other(_) | Verb::Unknown => Err(Status::method_not_allowed()),
    }
}

/// The body as an object of the call's resource, in the stored version.
pub fn read_object(registry: &Registry, call: &Call, sent: &Sent, notes: &Notes) -> Result<Value, Status> {
    let resource = call.resource()?;
    let parsed = crate::incoming::read(&call.headers, &sent.body, &resource.kind, resource.custom)?;
    let mut value = crate::incoming::accept(resource, parsed, call.field_validation()?, notes)?;
    registry.to_stored(resource, &mut value);
    Ok(value)
}

/// What a write left behind, in the version and shape that were asked for.
pub async fn answer(server: &ApiServer, call: &Call, code: u16, written: Written) -> Result<Response<Body>, Status> {
    let (resource, wanted, registry) = (call.resource()?, call.wanted()?, &server.registry);
    let bytes = match written {
        Written::Stored(entry) => {
            let entry = registry.entry_in(resource, entry).await?;
            registry.bytes_in(resource, &entry)
        }
        Written::Shown(value) => {
            let value = registry.convert_one(resource, &resource.api_version(), value).await?;
            crate::registry::shown(&registry.value_in(resource, value))
        }
    };
    Ok(match wanted.shape {
        Shape::Table => {
            let rows = [crate::codec::decode(&bytes)];
            let about = serde_json::json!({});
            response::value(code, wanted, &table::table(server, resource, &rows, &call.query, about))
        }
        Shape::PartialMetadata => response::object(code, wanted, table::partial_bytes(&bytes)),
        _ => response::object(code, wanted, bytes),
    })
}
