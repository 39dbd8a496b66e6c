//! OpenAPI of registered servers: where their documents of v3 are, and their part of the one document of v2.

use super::{Registered, ask};
use crate::ApiServer;
use crate::authn::User;
use crate::outbound::Failure;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Documents are large, and made when they are first asked for.
const PATIENCE: Duration = Duration::from_secs(60);

/// References that are followed from one another, at most: a document may refer to itself.
const MAX_DEFINITIONS: usize = 20_000;

const DEFINITIONS: &str = "#/definitions/";
const PARAMETERS: &str = "#/parameters/";

/// What a server has on one of its versions.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Documents {
    /// Where its document of v3 is, for clients of this server; the server itself is asked for it.
    pub v3_url: Option<String>,
    /// Paths and definitions of v2.
    pub v2: Option<Arc<Value>>,
}

/// Asks a server for what it has. What cannot be read is as it was before.
pub(super) async fn documents(server: &ApiServer, registered: &Registered, before: &Documents) -> Documents {
    let mut documents = before.clone();
    if let Ok(index) = fetch(server, registered, "/openapi/v3").await {
        documents.v3_url = index.and_then(|index| v3_url(&index, registered));
    }
    if let Ok(document) = fetch(server, registered, "/openapi/v2").await {
        let part = document.map(|document| part_of(&document, &format!("{}/", registered.path())));
        documents.v2 = part.map(Arc::new);
    }
    documents
}

/// A document; none if the server has none or says something else.
async fn fetch(server: &ApiServer, registered: &Registered, path: &str) -> Result<Option<Value>, Failure> {
    let user = User { groups: Vec::new(), ..User::new("system:aggregator", &[]) };
    let answer = ask(server, registered, (path, "application/json"), &user, PATIENCE).await?;
    Ok(if answer.status() == 200 { serde_json::from_slice(answer.body()).ok() } else { None })
}

/// Only a path at which this server will ask: a client would follow any other to wherever it leads.
fn v3_url(index: &Value, registered: &Registered) -> Option<String> {
    let path = registered.path();
    let said = index["paths"].get(path.trim_start_matches('/'))?["serverRelativeURL"].as_str()?;
    let own = format!("/openapi/v3{path}");
    let hash = said.strip_prefix(&own).and_then(|rest| rest.strip_prefix("?hash="));
    let hash = hash.filter(|hash| hash.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    Some(hash.map_or_else(|| own.clone(), |hash| format!("{own}?hash={hash}")))
}

/// The paths of a version, and the definitions that they lead to.
fn part_of(document: &Value, prefix: &str) -> Value {
    let shared = document["parameters"].as_object();
    let mut paths = Map::new();
    for (path, operations) in document["paths"].as_object().into_iter().flatten() {
        // Its own path is that of discovery.
        if path.starts_with(prefix) && operations.is_object() {
            let mut operations = operations.clone();
            resolve_parameters(&mut operations, shared);
            paths.insert(path.clone(), operations);
        }
    }
    let known = document["definitions"].as_object();
    let mut definitions = Map::new();
    let mut wanted = BTreeSet::new();
    paths.values().for_each(|path| references(path, &mut wanted));
    while let Some(name) = wanted.pop_first() {
        let Some(definition) = known.and_then(|known| known.get(&name)) else { continue };
        if definitions.len() < MAX_DEFINITIONS && !definitions.contains_key(&name) {
            definitions.insert(name, definition.clone());
            let mut further = BTreeSet::new();
            references(definition, &mut further);
            wanted.extend(further.into_iter().filter(|name| !definitions.contains_key(name)));
        }
    }
    json!({"paths": paths, "definitions": definitions})
}

/// Puts shared parameters where they are used.
fn resolve_parameters(operations: &mut Value, shared: Option<&Map<String, Value>>) {
    match operations {
        Value::Object(fields) => {
            let name = fields.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix(PARAMETERS));
            match name.map(|name| shared.and_then(|shared| shared.get(name)).cloned().unwrap_or_default()) {
                Some(parameter) => *operations = parameter,
                None => fields.values_mut().for_each(|below| resolve_parameters(below, shared)),
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|below| resolve_parameters(below, shared)),
        _ => {}
    }
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            let name = fields.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix(DEFINITIONS));
            found.extend(name.map(str::to_owned));
            fields.values().for_each(|below| references(below, found));
        }
        Value::Array(items) => items.iter().for_each(|below| references(below, found)),
        _ => {}
    }
}

/// Adds a part to the whole document of v2. A definition whose name means something else already gets another name.
pub(crate) fn merge(document: &mut Value, part: &Value) {
    let mut renamed = BTreeMap::new();
    for (name, definition) in part["definitions"].as_object().into_iter().flatten() {
        let known = |name: &str| document["definitions"].get(name);
        if known(name).is_some_and(|known| known != definition) {
            let free = (2..).map(|number| format!("{name}_v{number}")).find(|name| known(name).is_none());
            renamed.extend(free.map(|free| (name.clone(), free)));
        }
    }
    for (name, definition) in part["definitions"].as_object().into_iter().flatten() {
        let mut definition = definition.clone();
        rename(&mut definition, &renamed);
        document["definitions"][renamed.get(name).unwrap_or(name)] = definition;
    }
    for (path, operations) in part["paths"].as_object().into_iter().flatten() {
        if document["paths"].get(path).is_none() {
            let mut operations = operations.clone();
            rename(&mut operations, &renamed);
            document["paths"][path] = operations;
        }
    }
}

fn rename(value: &mut Value, renamed: &BTreeMap<String, String>) {
    if renamed.is_empty() {
        return;
    }
    match value {
        Value::Object(fields) => {
            let name = fields.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix(DEFINITIONS));
            if let Some(other) = name.and_then(|name| renamed.get(name)) {
                fields.insert("$ref".to_owned(), format!("{DEFINITIONS}{other}").into());
            }
            fields.values_mut().for_each(|below| rename(below, renamed));
        }
        Value::Array(items) => items.iter_mut().for_each(|below| rename(below, renamed)),
        _ => {}
    }
}

/// The document of v3 of a server that has only one of v2: the schemas, and the operations as far as clients look.
pub(crate) fn newer(part: &Value) -> Value {
    let schemas = schemas(&part["definitions"]);
    let mut paths = Map::new();
    for (path, methods) in part["paths"].as_object().into_iter().flatten() {
        let operations = methods.as_object().into_iter().flatten().filter(|(_, operation)| operation.is_object());
        let operations: Map<String, Value> =
            operations.map(|(method, operation)| (method.clone(), newer_operation(operation))).collect();
        paths.insert(path.clone(), operations.into());
    }
    json!({"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "unversioned"}, "paths": paths,
        "components": {"schemas": schemas}})
}

fn newer_operation(older: &Value) -> Value {
    let fields = older.as_object().into_iter().flatten();
    let mut newer: Map<String, Value> = fields
        .filter(|(key, _)| key.starts_with("x-") || matches!(key.as_str(), "description" | "operationId" | "tags"))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let mut parameters = Vec::new();
    for parameter in older["parameters"].as_array().into_iter().flatten() {
        if parameter["in"] == "body" {
            newer.insert(
                "requestBody".to_owned(),
                json!({"content": {"*/*": {"schema": schemas(&parameter["schema"])}}}),
            );
            continue;
        }
        let mut schema = Map::new();
        let mut shown = Map::new();
        for (key, value) in parameter.as_object().into_iter().flatten() {
            let place = if matches!(key.as_str(), "type" | "format" | "uniqueItems" | "items") {
                &mut schema
            } else {
                &mut shown
            };
            place.insert(key.clone(), value.clone());
        }
        shown.insert("schema".to_owned(), schema.into());
        parameters.push(Value::Object(shown));
    }
    newer.insert("parameters".to_owned(), parameters.into());
    let responses = older["responses"].as_object().into_iter().flatten().map(|(code, response)| {
        let schema = schemas(&response["schema"]);
        (
            code.clone(),
            json!({"description": response["description"], "content": {"application/json": {"schema": schema}}}),
        )
    });
    newer.insert("responses".to_owned(), responses.collect::<Map<String, Value>>().into());
    newer.into()
}

/// Schemas are the same but for where others are.
fn schemas(older: &Value) -> Value {
    match older {
        Value::Object(fields) => {
            let of_field =
                |(key, value): (&String, &Value)| match value.as_str().and_then(|s| s.strip_prefix(DEFINITIONS)) {
                    Some(name) if key == "$ref" => (key.clone(), format!("#/components/schemas/{name}").into()),
                    _ => (key.clone(), schemas(value)),
                };
            fields.iter().map(of_field).collect::<Map<String, Value>>().into()
        }
        Value::Array(items) => items.iter().map(schemas).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Value {
        json!({"parameters": {"dry": {"name": "dryRun", "in": "query", "type": "string"}},
            "definitions": {
                "Thing": {"properties": {"part": {"$ref": "#/definitions/Part"}, "self": {"$ref": "#/definitions/Thing"}}},
                "Part": {"type": "object"}, "Unused": {"type": "object"}},
            "paths": {"/apis/g/v1/things": {"get": {"parameters": [{"$ref": "#/parameters/dry"}],
                "responses": {"200": {"description": "OK", "schema": {"$ref": "#/definitions/Thing"}}}}},
                "/apis/apps/v1/deployments": {"get": {}}, "/apis/g/v10/things": {"get": {}}}})
    }

    #[test]
    fn a_server_describes_only_the_version_that_it_answers_for() {
        let part = part_of(&document(), "/apis/g/v1/");
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&part["paths"]), ["/apis/g/v1/things"]);
        assert_eq!(keys(&part["definitions"]), ["Part", "Thing"]);
        assert_eq!(part["paths"]["/apis/g/v1/things"]["get"]["parameters"][0]["name"], "dryRun");
    }

    #[test]
    fn what_a_name_means_already_it_means_still() {
        let mut whole = json!({"definitions": {"Part": {"type": "string"}}, "paths": {}});
        merge(&mut whole, &part_of(&document(), "/apis/g/v1/"));
        assert_eq!(whole["definitions"]["Part"], json!({"type": "string"}));
        assert_eq!(whole["definitions"]["Thing"]["properties"]["part"], json!({"$ref": "#/definitions/Part_v2"}));
        assert_eq!(whole["definitions"]["Part_v2"], json!({"type": "object"}));
        assert!(whole["paths"]["/apis/g/v1/things"].is_object());
    }

    #[test]
    fn a_server_that_has_only_the_older_document_is_described_in_the_newer_one() {
        let shown = newer(&part_of(&document(), "/apis/g/v1/"));
        let schema =
            &shown["paths"]["/apis/g/v1/things"]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        assert_eq!(schema, &json!({"$ref": "#/components/schemas/Thing"}));
        assert!(shown["components"]["schemas"]["Part"].is_object());
        assert_eq!(shown["paths"]["/apis/g/v1/things"]["get"]["parameters"][0]["schema"]["type"], "string");
    }
}
