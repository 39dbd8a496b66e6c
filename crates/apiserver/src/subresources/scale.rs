//! `…/scale`: how many replicas, for any kind that says where its number stands.

use crate::ApiServer;
use crate::body::Body;
use crate::codec;
use crate::exchange::Exchange;
use crate::registry::Change;
use crate::response;
use crate::strategy::ScalePaths;
use http::Response;
use pintle_meta::{Status, field, labels::Selector, object};
use pintle_schema::{json_patch, merge_patch};
use serde_json::{Value, json};

pub async fn dispatch(server: &ApiServer, verb: &str, exchange: &mut Exchange) -> Result<Response<Body>, Status> {
    let stored = server.registry.stored_resource(&exchange.resource);
    let paths = stored.strategy.scale().ok_or_else(Status::no_such_resource)?;
    let name = exchange.path.name.clone();
    if verb == "get" {
        let entry = server.registry.get(&stored, exchange.namespace(), &name).await?;
        return Ok(response::value(200, exchange.wanted, &scale_of(&codec::decode(&entry.value), &paths)));
    }
    let parsed = match verb {
        "update" => crate::incoming::read(&exchange.headers, &exchange.body, "Scale", false)?,
        // Patches are JSON; an applied one may be YAML, of which JSON is a part.
        _ => crate::parse::yaml(&exchange.body)
            .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?,
    };
    let media = crate::incoming::media_type(&exchange.headers);
    let manager = exchange.manager()?;
    let mut warnings = std::mem::take(&mut exchange.warnings);
    let write = exchange.write(&stored, &manager)?;
    let result = server
        .registry
        .update(&write, &name, &mut warnings, |current| {
            let Some(current) = current else { return Err(Status::not_found(&stored.group, &stored.name, &name)) };
            let scale = scale_of(current, &paths);
            let asked = match (verb, media.as_str()) {
                ("update", _) => parsed.value.clone(),
                (_, "application/json-patch+json") => {
                    json_patch::apply(&scale, &parsed.value).map_err(|e| Status::bad_request(e.message))?
                }
                // A Scale has no lists: merging it strategically, or applying it, is merging it.
                _ => merge_patch::apply(&scale, &parsed.value).map_err(|e| Status::bad_request(e.message))?,
            };
            change(current, &scale, &asked, &paths, &name)
        })
        .await;
    exchange.warnings = warnings;
    let (written, _) = result?;
    Ok(response::value(200, exchange.wanted, &scale_of(&written.to_value(), &paths)))
}

fn change(current: &Value, scale: &Value, asked: &Value, paths: &ScalePaths, name: &str) -> Result<Change, Status> {
    let version = object::resource_version(asked);
    if !version.is_empty() && version != object::resource_version(scale) {
        return Err(Status::modified("autoscaling", "scales", name));
    }
    let replicas = match object::at(asked, &["spec", "replicas"]) {
        None | Some(Value::Null) => 0,
        Some(value) => value.as_i64().ok_or_else(|| Status::bad_request("spec.replicas must be an integer"))?,
    };
    if replicas < 0 || replicas > i64::from(i32::MAX) {
        let path = field::Path::new("spec").child("replicas");
        let error = field::Error::invalid(&path, replicas, "must be greater than or equal to 0");
        return Err(Status::invalid("autoscaling", "Scale", name, &[error]));
    }
    let mut object = current.clone();
    let keys: Vec<&str> = paths.replicas.split('.').collect();
    object::set(&mut object, &keys, replicas);
    Ok(Change::new(object))
}

fn scale_of(object: &Value, paths: &ScalePaths) -> Value {
    let at = |path: &str| object::at(object, &path.split('.').collect::<Vec<_>>()).cloned();
    let mut metadata = json!({});
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object::at(object, &["metadata", key]) {
            metadata[key] = value.clone();
        }
    }
    let mut spec = json!({});
    if let Some(replicas) = at(&paths.replicas).filter(|r| r.as_i64() != Some(0)) {
        spec["replicas"] = replicas;
    }
    let mut status = json!({"replicas": at(&paths.status_replicas).and_then(|v| v.as_i64()).unwrap_or(0)});
    if let Some(selector) = selector(object, paths) {
        status["selector"] = selector.into();
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}

/// A selector as text: what the object's status says, or its own label selector.
fn selector(object: &Value, paths: &ScalePaths) -> Option<String> {
    let path = paths.selector.as_ref()?;
    let found = object::at(object, &path.split('.').collect::<Vec<_>>())?;
    match found {
        Value::String(text) => Some(text.clone()),
        Value::Object(map) if map.contains_key("matchLabels") || map.contains_key("matchExpressions") => {
            Selector::from_label_selector(Some(found)).map(|s| s.to_string())
        }
        Value::Object(map) => {
            let pairs: Vec<String> =
                map.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect();
            Some(pairs.join(","))
        }
        _ => None,
    }
}
