//! `serviceaccounts/…/token`: a signed token for an account, bound to a Pod, a Secret or a Node if one is named.

use super::body_as;
use crate::ApiServer;
use crate::admission::Operation;
use crate::authn::token::{Bound, Reference};
use crate::body::Body;
use crate::call::Call;
use crate::codec;
use crate::keys;
use crate::notes::Notes;
use crate::request::Sent;
use crate::response;
use http::Response;
use jiff::SignedDuration;
use pintle_meta::{Status, clock, field, names, object};
use serde_json::{Value, json};

const GROUP: &str = "authentication.k8s.io";
const SHORTEST_SECONDS: i64 = 600;
const LONGEST_SECONDS: i64 = 1 << 32;
const DEFAULT_SECONDS: i64 = 3600;

pub async fn request(server: &ApiServer, call: &Call, sent: &Sent, notes: &Notes) -> Result<Response<Body>, Status> {
    let mut review = body_as(call, sent, notes, (GROUP, "v1", "TokenRequest"))?;
    let registry = &server.registry;
    let namespace = call.namespace().to_owned();
    let name = call.path.name.clone();
    for (key, own) in [("name", &name), ("namespace", &namespace)] {
        let given = object::text(&review, &["metadata", key]);
        if !given.is_empty() && given != own {
            let path = field::Path::new("metadata").child(key);
            let why = format!("must match the service account {key} if specified");
            return Err(Status::invalid(GROUP, "TokenRequest", &name, &[field::Error::invalid(&path, given, &why)]));
        }
    }
    let account = codec::decode(&server.registry.get(call.resource()?, &namespace, &name).await?.value);
    let (uid, own) = (object::uid(&review), object::uid(&account));
    if !uid.is_empty() && uid != own {
        let why = format!("the UID in the token request ({uid}) does not match the UID of the service account ({own})");
        return Err(Status::conflict(GROUP, "TokenRequest", &name, &why));
    }
    for field in ["name", "namespace", "uid", "creationTimestamp"] {
        object::set(&mut review, &["metadata", field], account["metadata"][field].clone());
    }
    object::map_at(&mut review, "spec").entry("boundObjectRef").or_insert(Value::Null);
    object::set(&mut review, &["status"], json!({"token": "", "expirationTimestamp": null}));
    registry.admission.pass(registry, call, notes, Operation::Create, &mut review).await?;
    let seconds = object::integer(&review, &["spec", "expirationSeconds"]).unwrap_or(DEFAULT_SECONDS);
    let why = match seconds {
        s if s < SHORTEST_SECONDS => Some("may not specify a duration less than 10 minutes"),
        s if s > LONGEST_SECONDS => Some("may not specify a duration larger than 2^32 seconds"),
        _ => None,
    };
    if let Some(why) = why {
        let path = field::Path::new("spec").child("expirationSeconds");
        return Err(Status::invalid(GROUP, "TokenRequest", "", &[field::Error::invalid(&path, seconds, why)]));
    }
    let mut audiences: Vec<String> =
        object::list(&review, &["spec", "audiences"]).iter().filter_map(|a| a.as_str().map(str::to_owned)).collect();
    if audiences.is_empty() {
        // Only now: what a node asks for by itself is judged without it.
        audiences.extend_from_slice(server.authenticator.tokens.audiences());
    }
    let mut bound = Bound {
        namespace: namespace.clone(),
        serviceaccount: Reference::to(&account),
        pod: None,
        secret: None,
        node: None,
    };
    if let Some(reference) = object::at(&review, &["spec", "boundObjectRef"]).filter(|r| !r.is_null()) {
        bind(server, reference, &mut bound).await?;
    }
    let token = server
        .authenticator
        .tokens
        .issue(bound, audiences.clone(), seconds, server.registry.random.uid())
        .map_err(|error| Status::internal(error.to_string()))?;
    let now = server.registry.clock.now();
    let expires = now.checked_add(SignedDuration::from_secs(seconds)).map(clock::rfc3339).unwrap_or_default();
    object::set(&mut review, &["metadata", "creationTimestamp"], clock::rfc3339(now));
    object::set(&mut review, &["spec", "audiences"], audiences);
    object::set(&mut review, &["spec", "expirationSeconds"], seconds);
    object::set(&mut review, &["status"], json!({"token": token, "expirationTimestamp": expires}));
    Ok(response::value(201, call.wanted()?, &review))
}

/// Binds a token to the object that a request names, if it is there and the one that is meant.
async fn bind(server: &ApiServer, reference: &Value, bound: &mut Bound) -> Result<(), Status> {
    let text = |key: &str| object::text(reference, &[key]);
    let (group, version) = names::split_api_version(text("apiVersion"));
    let (kind, name) = (text("kind"), text("name"));
    let (resource, key) = match (group, kind) {
        ("", "Pod") => ("pods", keys::in_namespace(keys::PODS, &bound.namespace, name)),
        ("", "Secret") => ("secrets", keys::in_namespace(keys::SECRETS, &bound.namespace, name)),
        ("", "Node") => ("nodes", keys::named(keys::NODES, name)),
        _ => {
            let gvk = format!("{group}/{version}, Kind={kind}");
            return Err(Status::bad_request(format!("cannot bind token to object of type {gvk}")));
        }
    };
    let found = read(server, &key).await?;
    let found = found.ok_or_else(|| Status::not_found("", resource, name))?;
    let account = &bound.serviceaccount.name;
    if kind == "Pod" && object::text(&found, &["spec", "serviceAccountName"]) != account {
        return Err(Status::bad_request(format!(
            "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
        )));
    }
    let uid = text("uid");
    if !uid.is_empty() && uid != object::uid(&found) {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(Status::conflict(group, kind, name, &why));
    }
    match kind {
        "Pod" => {
            let node = object::text(&found, &["spec", "nodeName"]);
            if !node.is_empty() {
                let object = read(server, &keys::named(keys::NODES, node)).await?;
                let unknown = Reference { name: node.to_owned(), uid: String::new() };
                bound.node = Some(object.as_ref().map_or(unknown, Reference::to));
            }
            bound.pod = Some(Reference::to(&found));
        }
        "Secret" => bound.secret = Some(Reference::to(&found)),
        _ => bound.node = Some(Reference::to(&found)),
    }
    Ok(())
}

async fn read(server: &ApiServer, key: &str) -> Result<Option<Value>, Status> {
    let entry = server.registry.store.get(key).await.map_err(crate::registry::read_error)?;
    Ok(entry.map(|entry| codec::decode(&entry.value)))
}
