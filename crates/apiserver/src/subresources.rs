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
use crate::verbs;
use http::Response;
use pintle_meta::Status;

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
