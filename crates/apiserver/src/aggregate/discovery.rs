//! What a registered server says that it serves, as this server's own discovery shows it.
//!
//! It is read from the document of all groups, or, from older servers, from that of the version. Whatever clients could not read
//! is not passed on.

use super::{DISCOVERY, Registered, ask};
use crate::ApiServer;
use crate::authn::User;
use bytes::Bytes;
use http::header;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// Why it is not known.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unknown {
    #[error("{0}")]
    NoAnswer(#[from] crate::outbound::Failure),
    #[error("{path} was answered with {code}")]
    Refused { path: String, code: u16 },
    #[error("{path} was answered with something else: {source}")]
    Unreadable { path: String, source: serde_json::Error },
    #[error("{0:?} is a subresource of another scope than its resource")]
    OtherScope(String),
}

/// The resources of the version as JSON. A server that has none of it has an empty list.
pub(super) async fn resources(server: &ApiServer, registered: &Registered) -> Result<String, Unknown> {
    let user = User { groups: vec![crate::authn::MASTERS.to_owned()], ..User::new("system:kube-aggregator", &[]) };
    let answer = ask(server, registered, ("/apis", ACCEPT), &user, DISCOVERY).await?;
    let media = answer.headers().get(header::CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or_default();
    if answer.status() == 503 {
        return Err(Unknown::Refused { path: "/apis".to_owned(), code: 503 });
    }
    if answer.status() == 200 && is_aggregated(media) {
        let list: GroupList = read("/apis", answer.body())?;
        let groups = list.items.into_iter().filter(|group| group.metadata.name == registered.group);
        let mut versions = groups.flat_map(|group| group.versions).filter(|one| one.version == registered.version);
        return Ok(json(&versions.next().map(|version| version.resources).unwrap_or_default()));
    }
    let path = registered.path();
    let user = User { groups: Vec::new(), ..User::new("system:kube-aggregator", &[]) };
    let answer = ask(server, registered, (&path, "application/json"), &user, DISCOVERY).await?;
    if answer.status() != 200 {
        return Err(Unknown::Refused { path, code: answer.status().as_u16() });
    }
    let list: ResourceList = read(&path, answer.body())?;
    of_older(list.resources).map(|resources| json(&resources))
}

fn json(resources: &[Resource]) -> String {
    serde_json::to_string(resources).unwrap_or_else(|_| "[]".to_owned())
}

fn read<'a, T: Deserialize<'a>>(path: &str, body: &'a Bytes) -> Result<T, Unknown> {
    serde_json::from_slice(body).map_err(|source| Unknown::Unreadable { path: path.to_owned(), source })
}

/// Is it the document of all groups? Older servers answer with a list of names.
fn is_aggregated(media: &str) -> bool {
    let mut parameters = media.split(';').map(str::trim);
    parameters.next() == Some("application/json") && parameters.any(|one| one == "as=APIGroupDiscoveryList")
}

#[derive(Deserialize)]
struct GroupList {
    #[serde(default, deserialize_with = "or_default")]
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    metadata: Named,
    #[serde(default, deserialize_with = "or_default")]
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct Version {
    version: String,
    #[serde(default, deserialize_with = "or_default")]
    resources: Vec<Resource>,
}

/// As discovery writes it; fields stand in the order in which this server writes its own.
#[derive(Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    resource: String,
    #[serde(default, deserialize_with = "or_default")]
    response_kind: Kind,
    scope: Scope,
    #[serde(default, deserialize_with = "or_default")]
    singular_resource: String,
    #[serde(default, deserialize_with = "or_default")]
    verbs: Vec<String>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<String>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    categories: Vec<String>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<Subresource>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
enum Scope {
    Cluster,
    Namespaced,
}

#[derive(Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Subresource {
    subresource: String,
    #[serde(default, deserialize_with = "or_default")]
    response_kind: Kind,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    accepted_types: Vec<Kind>,
    #[serde(default, deserialize_with = "or_default")]
    verbs: Vec<String>,
}

#[derive(Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
struct Kind {
    group: String,
    version: String,
    kind: String,
}

#[derive(Deserialize)]
struct ResourceList {
    #[serde(default, deserialize_with = "or_default")]
    resources: Vec<Older>,
}

/// A resource or, as `resource/subresource`, a part of one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Older {
    name: String,
    #[serde(default, deserialize_with = "or_default")]
    singular_name: String,
    #[serde(default, deserialize_with = "or_default")]
    namespaced: bool,
    #[serde(default, deserialize_with = "or_default")]
    group: String,
    #[serde(default, deserialize_with = "or_default")]
    version: String,
    #[serde(default, deserialize_with = "or_default")]
    kind: String,
    #[serde(default, deserialize_with = "or_default")]
    verbs: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    short_names: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    categories: Vec<String>,
}

fn of_older(list: Vec<Older>) -> Result<Vec<Resource>, Unknown> {
    let (parts, whole): (Vec<Older>, Vec<Older>) = list.into_iter().partition(|one| one.name.contains('/'));
    let scope = |namespaced| if namespaced { Scope::Namespaced } else { Scope::Cluster };
    let resource = |older: Older| Resource {
        response_kind: Kind { group: older.group, version: older.version, kind: older.kind },
        resource: older.name,
        scope: scope(older.namespaced),
        singular_resource: older.singular_name,
        verbs: older.verbs,
        short_names: older.short_names,
        categories: older.categories,
        subresources: Vec::new(),
    };
    let mut resources: Vec<Resource> = whole.into_iter().map(resource).collect();
    let mut places: BTreeMap<String, usize> =
        resources.iter().enumerate().map(|(place, one)| (one.resource.clone(), place)).collect();
    for part in parts {
        let (parent, name) = part.name.split_once('/').unwrap_or((&part.name, ""));
        // A part may stand without its whole.
        let place = *places.entry(parent.to_owned()).or_insert(resources.len());
        if place == resources.len() {
            resources.push(Resource {
                resource: parent.to_owned(),
                response_kind: Kind::default(),
                scope: scope(part.namespaced),
                singular_resource: String::new(),
                verbs: Vec::new(),
                short_names: Vec::new(),
                categories: Vec::new(),
                subresources: Vec::new(),
            });
        }
        if resources[place].scope != scope(part.namespaced) {
            return Err(Unknown::OtherScope(part.name));
        }
        let named = !part.kind.is_empty();
        let (subresource, verbs) = (name.to_owned(), part.verbs);
        let kind = Kind { group: part.group, version: part.version, kind: part.kind };
        let response_kind = if named { kind } else { Kind::default() };
        resources[place].subresources.push(Subresource {
            subresource,
            response_kind,
            accepted_types: Vec::new(),
            verbs,
        });
    }
    Ok(resources)
}

/// Go writes an empty list as `null`.
fn or_default<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Option::<T>::deserialize(from).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn what_an_older_server_lists_is_shown_in_the_newer_form() {
        let list: ResourceList = serde_json::from_value(json!({"resources": [
            {"name": "things/status", "namespaced": true, "kind": "Thing", "verbs": ["get"]},
            {"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": ["get", "list"],
                "shortNames": ["th"]},
            {"name": "parts/scale", "namespaced": false, "group": "autoscaling", "version": "v1", "kind": "Scale",
                "verbs": ["get"]}]}))
        .unwrap();
        let shown: Value = serde_json::to_value(of_older(list.resources).unwrap()).unwrap();
        let kind = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
        assert_eq!(
            shown,
            json!([
            {"resource": "things", "responseKind": kind("", "", "Thing"), "scope": "Namespaced",
                "singularResource": "thing", "verbs": ["get", "list"], "shortNames": ["th"],
                "subresources": [{"subresource": "status", "responseKind": kind("", "", "Thing"), "verbs": ["get"]}]},
            {"resource": "parts", "responseKind": kind("", "", ""), "scope": "Cluster", "singularResource": "", "verbs": [],
                "subresources": [{"subresource": "scale", "responseKind": kind("autoscaling", "v1", "Scale"),
                    "verbs": ["get"]}]}])
        );
    }

    #[test]
    fn what_clients_could_not_read_is_not_passed_on() {
        for lie in [
            json!({"items": [{"metadata": {"name": "g"}, "versions": [{"version": "v1", "resources": [{"resource": 7}]}]}]}),
            json!({"items": [{"metadata": {"name": "g"}, "versions": [{"version": "v1",
                "resources": [{"resource": "a", "scope": "Everywhere"}]}]}]}),
            json!({"items": {"a": 1}}),
        ] {
            assert!(read::<GroupList>("/apis", &lie.to_string().into()).is_err(), "{lie}");
        }
        assert!(is_aggregated("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"));
        assert!(!is_aggregated("application/json"));
    }
}
