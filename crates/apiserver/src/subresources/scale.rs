//! `…/scale`: how many replicas, for any kind that says where its number stands.

use crate::ApiServer;
use crate::body::Body;
use crate::call::Call;
use crate::codec;
use crate::notes::Notes;
use crate::registry::{Change, Part, Shown};
use crate::request::Sent;
use crate::response;
use crate::strategy::ScalePaths;
use crate::verb::Verb;
use http::Response;
use pintle_meta::{Status, field, labels::Selector, object};
use pintle_schema::{json_patch, merge_patch};
use serde_json::{Value, json};
use std::sync::Arc;

pub async fn dispatch(server: &ApiServer, call: &Call, sent: &Sent, notes: &Notes) -> Result<Response<Body>, Status> {
    let stored = server.registry.stored_resource(call.resource()?);
    let paths = stored.strategy.scale().ok_or_else(Status::no_such_resource)?;
    let name = &call.path.name;
    if call.verb == Verb::Get {
        let entry = server.registry.get(&stored, call.namespace(), name).await?;
        return Ok(response::value(200, call.wanted()?, &scale_of(&codec::decode(&entry.value), &paths)));
    }
    let replaces = call.verb == Verb::Update;
    let parsed = match replaces {
        true => crate::incoming::read(&call.headers, &sent.body, "Scale", false)?,
        // Patches are JSON; an applied one may be YAML, of which JSON is a part.
        false => crate::parse::yaml(&sent.body)
            .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?,
    };
    let media = crate::incoming::media_type(&call.headers);
    let part = Arc::new(Replicas { paths: paths.clone(), name: name.clone() });
    let change = |current: Option<&Value>| {
        let Some(current) = current else { return Err(Status::not_found(&stored.group, &stored.name, name)) };
        let scale = scale_of(current, &paths);
        let asked = match media.as_str() {
            _ if replaces => parsed.value.clone(),
            "application/json-patch+json" => {
                json_patch::apply(&scale, &parsed.value).map_err(|e| Status::bad_request(e.message))?
            }
            // A Scale has no lists: merging it strategically, or applying it, is merging it.
            _ => merge_patch::apply(&scale, &parsed.value).map_err(|e| Status::bad_request(e.message))?,
        };
        let version = object::resource_version(&asked);
        if !version.is_empty() && version != object::resource_version(&scale) {
            return Err(Status::modified("autoscaling", "scales", name));
        }
        let mut object = current.clone();
        part.put(&mut object, &asked)?;
        Ok(Change { shown: Shown::Part(part.clone()), ..Change::new(object) })
    };
    let (written, _) = server.registry.update(call, notes, change).await?;
    Ok(response::value(200, call.wanted()?, &scale_of(&written.to_value(), &paths)))
}

/// The part of an object that its Scale shows.
struct Replicas {
    paths: ScalePaths,
    name: String,
}

impl Part for Replicas {
    fn of(&self, object: &Value) -> Value {
        scale_of(object, &self.paths)
    }

    fn put(&self, object: &mut Value, scale: &Value) -> Result<(), Status> {
        let replicas = match object::at(scale, &["spec", "replicas"]) {
            None | Some(Value::Null) => 0,
            Some(value) => value.as_i64().ok_or_else(|| Status::bad_request("spec.replicas must be an integer"))?,
        };
        if replicas < 0 || replicas > i64::from(i32::MAX) {
            let path = field::Path::new("spec").child("replicas");
            let error = field::Error::invalid(&path, replicas, "must be greater than or equal to 0");
            return Err(Status::invalid("autoscaling", "Scale", &self.name, &[error]));
        }
        let keys: Vec<&str> = self.paths.replicas.split('.').collect();
        object::set(object, &keys, replicas);
        Ok(())
    }
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
