//! One file a verb, each for every kind.

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
use crate::exchange::Exchange;
use crate::registry::Written;
use crate::response::{self, Shape};
use crate::{serve, subresources, table};
use http::Response;
use pintle_meta::Status;

/// Sends an exchange to its verb.
pub async fn dispatch(server: &ApiServer, verb: &str, exchange: &mut Exchange) -> Result<Response<Body>, Status> {
    if !exchange.path.subresource.is_empty() {
        return subresources::dispatch(server, verb, exchange).await;
    }
    let namespaced_without_namespace =
        exchange.resource.namespaced && exchange.path.namespace.is_empty() && !matches!(verb, "list" | "watch");
    // What is created has no name in its path yet; what is changed has one.
    let misnamed = match verb {
        "create" => !exchange.path.name.is_empty(),
        "update" | "patch" => exchange.path.name.is_empty(),
        _ => false,
    };
    if !exchange.resource.allows(verb) || namespaced_without_namespace || misnamed {
        return Err(Status::method_not_allowed());
    }
    if let Some(answer) = serve::reviews::dispatch(server, exchange).await {
        return answer;
    }
    match verb {
        "get" => get::get(server, exchange).await,
        "list" => list::list(server, exchange).await,
        "watch" => watch::watch(server, exchange).await,
        "create" => create::create(server, exchange).await,
        "update" => update::update(server, exchange).await,
        "patch" => patch::patch(server, exchange).await,
        "delete" => delete::delete(server, exchange).await,
        "deletecollection" => delete_collection::delete_collection(server, exchange).await,
        _ => Err(Status::method_not_allowed()),
    }
}

/// What a write left behind, in the version and shape that were asked for.
pub fn answer(server: &ApiServer, exchange: &Exchange, code: u16, written: Written) -> Response<Body> {
    let resource = &exchange.resource;
    let same_version = resource.api_version() == resource.stored_api_version;
    if same_version && exchange.wanted.shape == Shape::Object {
        return response::object(code, exchange.wanted, written.into_bytes());
    }
    let value = server.registry.value_in(resource, written.to_value());
    match exchange.wanted.shape {
        Shape::Table => {
            let rows = [value];
            response::value(
                code,
                exchange.wanted,
                &table::table(server, resource, &rows, &exchange.query, serde_json::json!({})),
            )
        }
        Shape::PartialMetadata => response::value(code, exchange.wanted, &table::partial(&value)),
        _ => response::object(code, exchange.wanted, crate::registry::shown(&value)),
    }
}
