//! Nothing new comes into a namespace that is not there or is going, also not in the moment of the commit.

use super::{Operation, Plugin, Review};
use crate::keys;
use crate::registry::{facets, read_error};
use futures::future::BoxFuture;
use pintle_meta::{Status, object};
use serde_json::{Value, json};

/// Without these nothing works.
const ETERNAL: [&str; 3] = ["default", "kube-system", "kube-public"];

pub struct Namespaces;

impl Plugin for Namespaces {
    fn concerns(&self, review: &Review<'_>) -> bool {
        match review.operation {
            // The namespaces of a backend are not in this store.
            Operation::Create => review.resource.namespaced && review.resource.backend.is_none(),
            Operation::Delete => review.is_of("", "namespaces", ""),
            Operation::Update | Operation::Connect => false,
        }
    }

    fn mutate<'a>(&'a self, review: &'a Review<'a>, _: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(must_be_active(review))
    }

    fn validate<'a>(&'a self, review: &'a Review<'a>, _: Option<&'a Value>) -> BoxFuture<'a, Result<(), Status>> {
        let name = review.old.map(object::name).filter(|_| review.operation == Operation::Delete);
        let refused = name.filter(|name| ETERNAL.contains(name));
        let answer = refused.map(|name| review.forbidden(name, "this namespace may not be deleted"));
        Box::pin(std::future::ready(answer.map_or(Ok(()), Err)))
    }
}

async fn must_be_active(review: &Review<'_>) -> Result<(), Status> {
    let (name, registry) = (review.call.namespace(), review.registry);
    let found = registry.store.get(&keys::named(keys::NAMESPACES, name)).await.map_err(read_error)?;
    let Some(entry) = found else { return Err(Status::not_found("", "namespaces", name)) };
    let catalogue = registry.catalogue.latest();
    // The phase is the only part of a namespace that counts here; its facets have it.
    let phase = catalogue.get("", "v1", "namespaces").and_then(|r| facets(r, &entry).field("status.phase"));
    if phase != Some("Terminating") {
        if let Some(conditions) = review.conditions {
            conditions.add(entry.key.clone(), entry.mod_revision);
        }
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {name} because it is being terminated");
    let mut status = review.forbidden("", &why);
    if let Some(details) = &mut status.details {
        details["causes"] = json!([{"reason": "NamespaceTerminating", "field": "metadata.namespace",
            "message": format!("namespace {name} is being terminated")}]);
    }
    Err(status)
}
