//! Objects go only into namespaces that exist and are not on their way out; some namespaces stay.

use super::forbidden;
use crate::registry::{Registry, Write};
use pintle_meta::{Status, object};
use serde_json::{Value, json};

/// Without these nothing works.
const ETERNAL: [&str; 3] = ["default", "kube-system", "kube-public"];

pub(super) async fn must_be_active(registry: &Registry, write: &Write<'_>) -> Result<(), Status> {
    if !write.resource.namespaced {
        return Ok(());
    }
    let name = write.namespace;
    let key = format!("/registry/namespaces/{name}");
    let found = registry.store.get(&key).await.map_err(crate::registry::read_error)?;
    let Some(entry) = found else { return Err(Status::not_found("", "namespaces", name)) };
    let is_terminating = {
        // The phase is the only part of a namespace that counts here; its facets have it.
        let catalogue = registry.catalogue.load();
        catalogue
            .get("", "v1", "namespaces")
            .and_then(|r| crate::registry::facets(r, &entry).field("status.phase").map(|p| p == "Terminating"))
            .unwrap_or(false)
    };
    if !is_terminating {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {name} because it is being terminated");
    let mut status = forbidden(write, "", &why);
    if let Some(details) = &mut status.details {
        details["causes"] = json!([{"reason": "NamespaceTerminating", "field": "metadata.namespace",
            "message": format!("namespace {name} is being terminated")}]);
    }
    Err(status)
}

pub(super) fn protect(write: &Write<'_>, object: &Value) -> Result<(), Status> {
    let name = object::name(object);
    if write.resource.kind == "Namespace" && write.resource.group.is_empty() && ETERNAL.contains(&name) {
        return Err(forbidden(write, name, "this namespace may not be deleted"));
    }
    Ok(())
}
