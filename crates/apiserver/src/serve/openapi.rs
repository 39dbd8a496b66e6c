//! OpenAPI, made from the same facts that check every object: v3 group by group, v2 as a whole.

use crate::ApiServer;
use crate::aggregate;
use crate::body::Body;
use crate::catalogue::{Catalogue, Resource};
use crate::resources::rules;
use crate::response;
use crate::serve::swagger;
use http::{HeaderMap, Response, header};
use pintle_meta::names::join_api_version;
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub fn dispatch(server: &ApiServer, rest: &[&str], headers: &HeaderMap) -> Option<Response<Body>> {
    match rest {
        ["v3"] => Some(response::json(200, index(server).to_string())),
        ["v3", "api", version] => document(server, "", version),
        ["v3", "apis", group, version] => document(server, group, version),
        ["v2"] => v2(server, headers),
        _ => None,
    }
}

fn index(server: &ApiServer) -> Value {
    let catalogue = server.registry.catalogue.latest();
    let mut paths = Map::new();
    let mut add = |path: String, group: &str, version: &str| {
        let url = format!("/openapi/v3/{path}?hash={}", catalogue.hash(group, version));
        paths.insert(path, json!({"serverRelativeURL": url}));
    };
    add("api/v1".to_owned(), "", "v1");
    let told = catalogue.registrations();
    for group in catalogue.groups() {
        for version in group.versions.iter().filter(|version| !told.is_remote(&group.name, version)) {
            add(format!("apis/{}/{version}", group.name), &group.name, version);
        }
    }
    for (_, registered) in told.all() {
        let path = registered.path();
        let Some(documents) = told.told(&registered.group, &registered.version).map(|told| &told.documents) else {
            continue;
        };
        let own = documents.v2.as_ref().map(|_| format!("/openapi/v3{path}"));
        if let Some(url) = documents.v3_url.clone().or(own) {
            paths.insert(path.trim_start_matches('/').to_owned(), json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

fn document(server: &ApiServer, group: &str, version: &str) -> Option<Response<Body>> {
    let catalogue = server.registry.catalogue.latest();
    let name = format!("OpenAPI v3 of {group}/{version}");
    let document = catalogue.document(&name, || Some(v3(&catalogue, group, version)?.to_string()))?;
    Some(response::tagged(response::json(200, document.text.clone()), &format!("\"{}\"", document.tag)))
}

fn v3(catalogue: &Catalogue, group: &str, version: &str) -> Option<Value> {
    if catalogue.registrations().is_remote(group, version) {
        // One that has a document of its own is asked for it.
        let told = catalogue.registrations().told(group, version)?;
        return told.documents.v2.as_deref().map(aggregate::newer);
    }
    let resources: Vec<&Arc<Resource>> = catalogue.of_group_version(group, version).collect();
    if resources.is_empty() {
        return None;
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Pintle", "version": super::health::KUBERNETES},
        "paths": paths(&resources),
        "components": {"schemas": schemas(&resources), "securitySchemes": {
            "BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}}},
    }))
}

/// The name of a resource's schema.
fn definition(resource: &Resource) -> String {
    if resource.custom {
        let reversed: Vec<&str> = resource.group.split('.').rev().collect();
        format!("{}.{}.{}", reversed.join("."), resource.version, resource.kind)
    } else {
        pintle_schema::openapi::definition_name(resource.type_name())
    }
}

fn schemas(resources: &[&Arc<Resource>]) -> Map<String, Value> {
    let names: Vec<&str> = resources.iter().filter(|r| !r.custom).map(|r| r.type_name()).collect();
    let mut all = pintle_schema::openapi::components_for(&names);
    if resources.iter().any(|r| r.custom) {
        all.extend(pintle_schema::openapi::components_for(&[
            "meta.v1.ObjectMeta",
            "meta.v1.ListMeta",
            "meta.v1.DeleteOptions",
        ]));
    }
    super::descriptions::document(&mut all);
    for (type_name, field, values) in rules::enumerations() {
        let schema = all.get_mut(&pintle_schema::openapi::definition_name(type_name));
        if let Some(property) = schema.and_then(|s| s.get_mut("properties")).and_then(|p| p.get_mut(field)) {
            property["enum"] = json!(values);
        }
    }
    for resource in resources {
        let name = definition(resource);
        if resource.custom {
            all.insert(name.clone(), resource.strategy.open_api().unwrap_or_else(|| json!({"type": "object"})));
        }
        if let Some(schema) = all.get_mut(&name) {
            schema["x-kubernetes-group-version-kind"] = json!([kind_of(resource)]);
        }
    }
    all
}

fn kind_of(resource: &Resource) -> Value {
    json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
}

/// The operations of each path, as far as clients look: which kind, which action, which query parameters.
fn paths(resources: &[&Arc<Resource>]) -> Map<String, Value> {
    let mut paths = Map::new();
    for resource in resources {
        let base = match join_api_version(&resource.group, &resource.version) {
            v if resource.group.is_empty() => format!("/api/{v}"),
            v => format!("/apis/{v}"),
        };
        let place = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
        let reference = json!({"$ref": format!("#/components/schemas/{}", definition(resource))});
        let operation = |action: &str, media: &[&str]| {
            let parameters = ["dryRun", "fieldManager", "fieldValidation"]
                .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}}));
            let mut operation = json!({
                "x-kubernetes-action": action, "x-kubernetes-group-version-kind": kind_of(resource),
                "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": reference}}}},
                "parameters": parameters,
            });
            if !media.is_empty() {
                let content: Map<String, Value> =
                    media.iter().map(|m| ((*m).to_owned(), json!({"schema": reference}))).collect();
                operation["requestBody"] = json!({"content": content});
            }
            operation
        };
        const PATCHES: &[&str] = &[
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
        ];
        let mut many = Map::new();
        let mut one = Map::new();
        for (verb, method, action, media, target_many) in [
            ("list", "get", "list", &[][..], true),
            ("create", "post", "post", &["application/json", "application/yaml"][..], true),
            ("deletecollection", "delete", "deletecollection", &[][..], true),
            ("get", "get", "get", &[][..], false),
            ("update", "put", "put", &["application/json", "application/yaml"][..], false),
            ("patch", "patch", "patch", PATCHES, false),
            ("delete", "delete", "delete", &[][..], false),
        ] {
            if resource.allows(verb) {
                let target = if target_many { &mut many } else { &mut one };
                target.insert(method.to_owned(), operation(action, media));
            }
        }
        paths.insert(format!("{base}{place}/{}", resource.name), Value::Object(many));
        paths.insert(format!("{base}{place}/{}/{{name}}", resource.name), Value::Object(one));
    }
    paths
}

/// The older form, in the notation that is asked for.
fn v2(server: &ApiServer, headers: &HeaderMap) -> Option<Response<Body>> {
    let catalogue = server.registry.catalogue.latest();
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let protobuf = swagger::ASKED.into_iter().any(|media| accept.contains(media));
    let (name, media) = match protobuf {
        true => ("OpenAPI v2 as protobuf", swagger::ANSWERED),
        false => ("OpenAPI v2", "application/json"),
    };
    let document = catalogue.document(name, || {
        let is_own =
            |resource: &&Arc<Resource>| !catalogue.registrations().is_remote(&resource.group, &resource.version);
        let resources: Vec<&Arc<Resource>> = catalogue.resources().filter(is_own).collect();
        let mut schemas = schemas(&resources);
        for resource in resources.iter().filter(|r| r.custom) {
            if let Some(schema) = schemas.get_mut(&definition(resource)) {
                swagger::widen_root(schema);
            }
        }
        let mut document = swagger::document(super::health::KUBERNETES, schemas, paths(&resources));
        let registrations = catalogue.registrations();
        for (_, registered) in registrations.all() {
            let told = registrations.told(&registered.group, &registered.version);
            if let Some(part) = told.and_then(|told| told.documents.v2.as_deref()) {
                aggregate::merge(&mut document, part);
            }
        }
        Some(if protobuf { swagger::encode(&document) } else { document.to_string().into_bytes() })
    })?;
    Some(response::tagged(response::with_type(200, media, document.text.clone()), &format!("\"{}\"", document.tag)))
}
