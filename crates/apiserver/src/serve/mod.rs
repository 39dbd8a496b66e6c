//! What is served besides objects: discovery, OpenAPI, health, version, metrics, reviews, usage.

pub mod descriptions;
pub mod discovery;
pub mod health;
pub mod loops;
pub mod metrics;
pub mod openapi;
pub mod reviews;
pub mod swagger;
pub mod usage;

use crate::ApiServer;
use crate::body::Body;
use crate::call::Call;
use crate::causes;
use crate::flow;
use crate::response::{self, Wanted};
use http::{Method, Response};
use pintle_meta::Status;

/// Paths that are not objects.
pub async fn dispatch(
    server: &ApiServer,
    method: &Method,
    call: &Call,
    wanted: Wanted,
) -> Result<Response<Body>, Status> {
    let Call { url, query, headers, .. } = call;
    let parts: Vec<&str> = url.split('/').filter(|p| !p.is_empty()).collect();
    let known = match parts.as_slice() {
        ["healthz" | "livez" | "readyz", check @ ..] => Some(health::health(server, parts[0], check, query)),
        ["version"] => Some(response::json(200, health::version().to_string())),
        ["debug", "pintle", "causes"] => Some(causes::serve::answer(server, query)),
        ["debug", "pintle", "loops"] => Some(loops::answer(server)),
        ["debug", "api_priority_and_fairness", what] => flow::debug::answer(server, what, query),
        ["metrics"] => Some(metrics::render(server)),
        ["api"] | ["apis"] | ["api", _] | ["apis", _] | ["apis", _, _] => discovery::dispatch(server, &parts, wanted),
        ["openapi", rest @ ..] => openapi::dispatch(server, rest, headers),
        [".well-known", "openid-configuration"] => {
            Some(response::json(200, server.authenticator.tokens.discovery().to_string()))
        }
        ["openid", "v1", "jwks"] => Some(response::with_type(
            200,
            "application/jwk-set+json",
            server.authenticator.tokens.published_keys().to_string(),
        )),
        [] => Some(response::json(200, serde_json::json!({"paths": discovery::paths(server)}).to_string())),
        _ => None,
    };
    match known {
        Some(_) if method != Method::GET && method != Method::HEAD => Err(Status::method_not_allowed()),
        Some(answer) => Ok(answer),
        None => Ok(response::text(404, "404 page not found\n")),
    }
}
