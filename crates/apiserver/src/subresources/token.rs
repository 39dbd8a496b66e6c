//! `serviceaccounts/…/token`: a signed token for an account, bound to a Pod if one is named.

use crate::ApiServer;
use crate::admission::node_restriction;
use crate::authn::token::{ISSUER, Reference};
use crate::body::Body;
use crate::codec;
use crate::exchange::Exchange;
use crate::response;
use http::Response;
use jiff::SignedDuration;
use pintle_meta::{Status, clock, field, object};
use serde_json::Value;

const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;

pub async fn request(server: &ApiServer, exchange: &mut Exchange) -> Result<Response<Body>, Status> {
    let mut review = crate::incoming::read(&exchange.headers, &exchange.body, "TokenRequest", false)?.value;
    node_restriction::token(server, exchange, &review).await?;
    let namespace = exchange.namespace().to_owned();
    let name = exchange.path.name.clone();
    let account = codec::decode(&server.registry.get(&exchange.resource, &namespace, &name).await?.value);
    let seconds = object::integer(&review, &["spec", "expirationSeconds"]).unwrap_or(3600);
    let path = field::Path::new("spec").child("expirationSeconds");
    let why = match seconds {
        s if s < SHORTEST => Some("may not specify a duration less than 10 minutes"),
        s if s > LONGEST => Some("may not specify a duration larger than 2^32 seconds"),
        _ => None,
    };
    if let Some(why) = why {
        let error = field::Error::invalid(&path, seconds, why);
        return Err(Status::invalid("authentication.k8s.io", "TokenRequest", &name, &[error]));
    }
    let mut audiences: Vec<String> =
        object::list(&review, &["spec", "audiences"]).iter().filter_map(|a| a.as_str().map(str::to_owned)).collect();
    if audiences.is_empty() {
        audiences.push(ISSUER.to_owned());
    }
    let pod = match object::at(&review, &["spec", "boundObjectRef"]) {
        Some(bound) if object::text(bound, &["kind"]) == "Pod" => {
            let pod = object::text(bound, &["name"]);
            let key = format!("/registry/pods/{namespace}/{pod}");
            let found = server.registry.store.get(&key).await.map_err(crate::registry::read_error)?;
            let found = found.ok_or_else(|| Status::not_found("", "pods", pod))?;
            Some(Reference { name: pod.to_owned(), uid: object::uid(&codec::decode(&found.value)).to_owned() })
        }
        Some(other) if !other.is_null() => {
            return Err(Status::bad_request(format!(
                "cannot bind token for serviceaccount {name:?} to {}: only Pods are supported",
                object::kind(other)
            )));
        }
        _ => None,
    };
    let account = Reference { name: name.clone(), uid: object::uid(&account).to_owned() };
    let token = server
        .tokens
        .issue(&namespace, account, pod, audiences.clone(), seconds, server.registry.random.uid())
        .map_err(|error| Status::internal(error.to_string()))?;
    let expires = server.registry.clock.now().checked_add(SignedDuration::from_secs(seconds));
    let expires = expires.map(clock::rfc3339).unwrap_or_default();
    object::set(&mut review, &["kind"], "TokenRequest");
    object::set(&mut review, &["apiVersion"], "authentication.k8s.io/v1");
    object::set(&mut review, &["metadata", "name"], name);
    object::set(&mut review, &["metadata", "namespace"], namespace);
    object::set(&mut review, &["spec", "audiences"], audiences);
    object::set(&mut review, &["spec", "expirationSeconds"], seconds);
    object::set(&mut review, &["status"], Value::Object(serde_json::Map::new()));
    object::set(&mut review, &["status", "token"], token);
    object::set(&mut review, &["status", "expirationTimestamp"], expires);
    Ok(response::value(201, exchange.wanted, &review))
}
