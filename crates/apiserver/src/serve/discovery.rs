//! What is served, told to clients: group by group, or all at once.

use crate::ApiServer;
use crate::aggregate::Told;
use crate::body::Body;
use crate::catalogue::{Catalogue, Resource};
use crate::response::{self, Shape, Wanted};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::Response;
use pintle_meta::names::join_api_version;
use serde_json::{Value, json};

pub fn dispatch(server: &ApiServer, parts: &[&str], wanted: Wanted) -> Option<Response<Body>> {
    let catalogue = server.registry.catalogue.latest();
    let value = match parts {
        ["api"] if wanted.shape == Shape::Aggregated && catalogue.serves_only_backends() => return None,
        ["api"] if wanted.shape == Shape::Aggregated => return aggregated(&catalogue, true),
        ["apis"] if wanted.shape == Shape::Aggregated => return aggregated(&catalogue, false),
        ["api"] if catalogue.serves_only_backends() => return None,
        ["api"] => json!({"kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server.address()}]}),
        ["apis"] => {
            let groups: Vec<Value> = catalogue.groups().iter().map(|g| group(&g.name, &g.versions)).collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        }
        ["api", version] => resource_list(&catalogue, "", version)?,
        ["apis", name] => {
            let found = catalogue.groups().into_iter().find(|g| g.name == *name)?;
            let mut value = group(&found.name, &found.versions);
            value["kind"] = "APIGroup".into();
            value["apiVersion"] = "v1".into();
            value
        }
        ["apis", group, version] => resource_list(&catalogue, group, version)?,
        _ => return None,
    };
    Some(response::value(200, Wanted { shape: Shape::Object, ..wanted }, &value))
}

fn group(name: &str, versions: &[String]) -> Value {
    let entry = |v: &String| json!({"groupVersion": join_api_version(name, v), "version": v});
    json!({"name": name, "versions": versions.iter().map(entry).collect::<Vec<_>>(), "preferredVersion": versions.first().map(entry)})
}

fn resource_list(catalogue: &Catalogue, group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    for resource in catalogue.of_group_version(group, version) {
        let mut entry = json!({"name": resource.name, "singularName": resource.singular, "namespaced": resource.namespaced,
            "kind": resource.kind, "verbs": resource.verbs});
        put_words(&mut entry, "shortNames", &resource.short_names);
        put_words(&mut entry, "categories", &resource.categories);
        if resource.is_stored() {
            entry["storageVersionHash"] = storage_version_hash(resource).into();
        }
        resources.push(entry);
        for sub in &resource.subresources {
            let mut entry = json!({"name": format!("{}/{}", resource.name, sub.name), "singularName": "",
                "namespaced": resource.namespaced, "kind": sub.kind, "verbs": sub.verbs});
            if let Some((group, version)) = &sub.group_version {
                entry["group"] = group.clone().into();
                entry["version"] = version.clone().into();
            }
            resources.push(entry);
        }
    }
    if resources.is_empty() {
        return None;
    }
    let mut list =
        json!({"kind": "APIResourceList", "groupVersion": join_api_version(group, version), "resources": resources});
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    Some(list)
}

fn put_words(entry: &mut Value, key: &str, words: &[String]) {
    if !words.is_empty() {
        entry[key] = words.into();
    }
}

/// Tells clients when the stored version of a resource changes.
fn storage_version_hash(resource: &Resource) -> String {
    let (group, version) = pintle_meta::names::split_api_version(&resource.stored_api_version);
    let text = format!("{group}/{version}/{}", resource.kind);
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    BASE64_STANDARD.encode(&digest.as_ref()[..8])
}

/// Everything in one answer.
fn aggregated(catalogue: &Catalogue, core: bool) -> Option<Response<Body>> {
    let name = if core { "discovery of the core group" } else { "discovery of all other groups" };
    let document = catalogue.document(name, || Some(all_resources(catalogue, core)))?;
    let media = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let answer = response::with_type(200, media, document.text.clone());
    Some(response::tagged(answer, &format!("\"{}\"", document.tag)))
}

/// Each resource is written once, whatever else comes and goes: a kind more costs the text of one kind.
fn all_resources(catalogue: &Catalogue, core: bool) -> String {
    let registrations = catalogue.registrations();
    let mut groups = if core {
        vec![(String::new(), vec!["v1".to_owned()])]
    } else {
        catalogue.groups().into_iter().map(|g| (g.name, g.versions)).collect()
    };
    // A server that was just registered has not said yet what it serves.
    for (name, versions) in &mut groups {
        versions
            .retain(|version| !registrations.is_remote(name, version) || registrations.told(name, version).is_some());
    }
    groups.retain(|(_, versions)| !versions.is_empty());
    let mut text = String::from(r#"{"apiVersion":"apidiscovery.k8s.io/v2","items":["#);
    for (number, (name, versions)) in groups.iter().enumerate() {
        let metadata = if name.is_empty() { json!({}) } else { json!({"name": name}) };
        text += &format!(r#"{}{{"metadata":{metadata},"versions":["#, comma(number));
        for (number, version) in versions.iter().enumerate() {
            text += comma(number);
            if let Some(told) = registrations.told(name, version) {
                text += &of_another_server(told, version);
                continue;
            }
            text += r#"{"freshness":"Current","resources":["#;
            for (number, resource) in catalogue.of_group_version(name, version).enumerate() {
                text += comma(number);
                text += resource.discovered(|resource| aggregated_resource(resource).to_string());
            }
            text += &format!(r#"],"version":{}}}"#, json!(version));
        }
        text += "]}";
    }
    text += r#"],"kind":"APIGroupDiscoveryList","metadata":{}}"#;
    text
}

fn of_another_server(told: &Told, version: &str) -> String {
    let freshness = if told.is_stale { "Stale" } else { "Current" };
    let resources = if told.resources == "[]" { String::new() } else { format!(r#""resources":{},"#, told.resources) };
    format!(r#"{{"freshness":"{freshness}",{resources}"version":{}}}"#, json!(version))
}

fn comma(number: usize) -> &'static str {
    if number == 0 { "" } else { "," }
}

fn aggregated_resource(resource: &Resource) -> Value {
    let kind_of = |kind: &str, of: Option<&(String, String)>| match of {
        Some((group, version)) => json!({"group": group, "version": version, "kind": kind}),
        None if resource.custom => json!({"group": resource.group, "version": resource.version, "kind": kind}),
        None => json!({"group": "", "version": "", "kind": kind}),
    };
    let mut entry = json!({
        "resource": resource.name, "responseKind": kind_of(&resource.kind, None),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular, "verbs": resource.verbs,
    });
    put_words(&mut entry, "shortNames", &resource.short_names);
    put_words(&mut entry, "categories", &resource.categories);
    let subresources: Vec<Value> = resource
        .subresources
        .iter()
        .map(|s| json!({"subresource": s.name, "responseKind": kind_of(&s.kind, s.group_version.as_ref()), "verbs": s.verbs}))
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    entry
}

/// The paths that the root lists.
pub fn paths(server: &ApiServer) -> Vec<String> {
    let mut paths: Vec<String> = [
        "/.well-known/openid-configuration",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ]
    .map(str::to_owned)
    .to_vec();
    for group in server.registry.catalogue.latest().groups() {
        paths.push(format!("/apis/{}", group.name));
        paths.extend(group.versions.iter().map(|v| format!("/apis/{}/{v}", group.name)));
    }
    paths.sort();
    paths
}
