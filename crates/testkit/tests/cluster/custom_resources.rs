//! Custom resources are served by the same registry: checked, completed, printed and found as soon as they are defined.

use pintle_runtime::discovery::Discoverer;
use pintle_testkit::Cluster;
use serde_json::{Value, json};
use std::time::Duration;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SHIPS: &str = "/apis/harbour.example.com/v1/namespaces/default/ships";
const JSON: &str = "application/json";

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "ships.harbour.example.com"},
        "spec": {
            "group": "harbour.example.com", "scope": "Namespaced",
            "names": {"plural": "ships", "singular": "ship", "kind": "Ship", "shortNames": ["sh"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.masts", "statusReplicasPath": ".status.masts"}},
                "additionalPrinterColumns": [{"name": "Masts", "type": "integer", "jsonPath": ".spec.masts"}],
                "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {
                    "spec": {"type": "object", "required": ["masts"], "properties": {
                        "masts": {"type": "integer", "minimum": 1, "maximum": 7},
                        "flag": {"type": "string", "default": "none"},
                    }},
                    "status": {"type": "object", "properties": {"masts": {"type": "integer"}, "phase": {"type": "string"}}},
                }}},
            }],
        },
    })
}

fn ship(name: &str, spec: &Value) -> String {
    json!({"apiVersion": "harbour.example.com/v1", "kind": "Ship", "metadata": {"name": name}, "spec": spec})
        .to_string()
}

async fn with_ships() -> Cluster {
    let cluster = Cluster::bare().await;
    let answer = cluster.request("POST", DEFINITIONS, JSON, definition().to_string()).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    cluster
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_served_and_discovered_as_soon_as_its_definition_is_there() {
    let cluster = with_ships().await;
    let groups = cluster.request("GET", "/apis", "", "").await;
    assert!(groups.body["groups"].as_array().unwrap().iter().any(|g| g["name"] == "harbour.example.com"));
    let list = cluster.request("GET", "/apis/harbour.example.com/v1", "", "").await;
    assert_eq!(list.body["resources"][0]["shortNames"], json!(["sh"]));
    assert_eq!(cluster.request("POST", SHIPS, JSON, ship("argo", &json!({"masts": 1}))).await.code, 201);
    cluster
        .eventually("the definition is established", || async {
            let found = cluster.request("GET", &format!("{DEFINITIONS}/ships.harbour.example.com"), "", "").await;
            let conditions = found.body["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True").then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn who_asks_again_what_is_served_is_told_only_what_is_new() {
    let (cluster, mut discoverer) = (Cluster::bare().await, Discoverer::default());
    let client = cluster.client();
    assert!(discoverer.discover(&client).await.unwrap().is_some_and(|found| !found.is_empty()));
    assert!(discoverer.discover(&client).await.unwrap().is_none());
    assert_eq!(cluster.request("POST", DEFINITIONS, JSON, definition().to_string()).await.code, 201);
    let found = discoverer.discover(&client).await.unwrap().unwrap_or_default();
    assert!(found.iter().any(|found| found.resource.kind == "Ship"));
    assert!(discoverer.discover(&client).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn objects_are_completed_pruned_and_checked_by_the_schema() {
    let cluster = with_ships().await;
    let made = cluster.request("POST", SHIPS, JSON, ship("argo", &json!({"masts": 2, "wings": 4}))).await;
    assert_eq!(made.code, 201, "{}", made.body);
    assert_eq!(made.body["spec"], json!({"masts": 2, "flag": "none"}));
    assert_eq!(made.body["metadata"]["generation"], 1);
    assert_eq!(made.warnings(), ["299 - \"unknown field \\\"spec.wings\\\"\""]);
    for (spec, field) in [
        (json!({}), "spec.masts"),
        (json!({"masts": 0}), "spec.masts"),
        (json!({"masts": "two"}), "spec.masts"),
        (json!({"masts": 9}), "spec.masts"),
    ] {
        let refused = cluster.request("POST", SHIPS, JSON, ship("bad", &spec)).await;
        assert_eq!(refused.code, 422, "{spec}: {}", refused.body);
        assert_eq!(refused.body["details"]["causes"][0]["field"], field, "{spec}");
    }
}

#[tokio::test(start_paused = true)]
async fn status_scale_and_columns_work_as_for_built_in_kinds() {
    let cluster = with_ships().await;
    cluster.request("POST", SHIPS, JSON, ship("argo", &json!({"masts": 2}))).await;
    let path = format!("{SHIPS}/argo");
    let merge = "application/merge-patch+json";
    let patched = cluster
        .request(
            "PATCH",
            &format!("{path}/status"),
            merge,
            json!({"status": {"phase": "Sailing"}, "spec": {"masts": 5}}).to_string(),
        )
        .await;
    assert_eq!(
        (patched.code, &patched.body["status"]["phase"], &patched.body["spec"]["masts"]),
        (200, &json!("Sailing"), &json!(2)),
        "{}",
        patched.body
    );
    assert_eq!(patched.body["metadata"]["generation"], 1, "a status write does not count as a change of the spec");
    let scaled =
        cluster.request("PATCH", &format!("{path}/scale"), merge, json!({"spec": {"replicas": 3}}).to_string()).await;
    assert_eq!((scaled.code, &scaled.body["spec"]["replicas"]), (200, &json!(3)), "{}", scaled.body);
    let after = cluster.request("GET", &path, "", "").await;
    assert_eq!((&after.body["spec"]["masts"], &after.body["metadata"]["generation"]), (&json!(3), &json!(2)));
    let accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let admin = pintle_apiserver::request::Peer::Internal(pintle_apiserver::authn::User::internal("admin").into());
    let table = cluster.request_as(admin, &accept, "GET", &path, "", "").await;
    assert_eq!(table.body["columnDefinitions"][1]["name"], "Masts");
    assert_eq!(table.body["rows"][0]["cells"], json!(["argo", 3]));
}

#[tokio::test(start_paused = true)]
async fn deleting_a_definition_deletes_its_objects_first_and_then_the_resource_is_gone() {
    let cluster = with_ships().await;
    cluster.request("POST", SHIPS, JSON, ship("argo", &json!({"masts": 2}))).await;
    cluster.advance(Duration::from_secs(1)).await;
    assert_eq!(cluster.request("DELETE", &format!("{DEFINITIONS}/ships.harbour.example.com"), "", "").await.code, 200);
    cluster
        .eventually("the resource is gone", || async {
            (cluster.request("GET", SHIPS, "", "").await.code == 404).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_wrong_definition_is_refused_with_the_field() {
    let cluster = Cluster::bare().await;
    let mut wrong = definition();
    wrong["metadata"]["name"] = "boats.harbour.example.com".into();
    wrong["spec"]["scope"] = "Galaxy".into();
    let answer = cluster.request("POST", DEFINITIONS, JSON, wrong.to_string()).await;
    assert_eq!(answer.code, 422);
    let fields: Vec<&str> =
        answer.body["details"]["causes"].as_array().unwrap().iter().filter_map(|c| c["field"].as_str()).collect();
    assert!(fields.contains(&"metadata.name") && fields.contains(&"spec.scope"), "{fields:?}");
}

/// An object that nests `depth` levels below the field it stands in.
fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, _| json!({"a": inner}))
}

#[tokio::test(start_paused = true)]
async fn what_nests_too_deep_to_be_read_back_is_refused_and_loses_no_finalizer() {
    let cluster = Cluster::bare().await;
    let mut free = definition();
    free["spec"]["versions"][0]["schema"] =
        json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    assert_eq!(cluster.request("POST", DEFINITIONS, JSON, free.to_string()).await.code, 201);
    let body = json!({"apiVersion": "harbour.example.com/v1", "kind": "Ship", "spec": {},
        "metadata": {"name": "argo", "finalizers": ["example.com/keep"]}});
    assert_eq!(cluster.request("POST", SHIPS, JSON, body.to_string()).await.code, 201);
    let path = format!("{SHIPS}/argo");
    // As deep as may be: it reads back, also from a list.
    let fits = json!({"spec": nested(99)});
    let answer = cluster.request("PATCH", &path, "application/merge-patch+json", fits.to_string()).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    assert_eq!(cluster.request("GET", SHIPS, "", "").await.body["items"][0]["spec"], fits["spec"]);
    let step = |path: &str, value: &Value| json!([{"op": "add", "path": path, "value": value}]).to_string();
    let long = format!("/spec{}", "/a".repeat(90));
    for (what, media, patch) in [
        ("a merge", "application/merge-patch+json", json!({"spec": nested(100)}).to_string()),
        ("a deeper merge", "application/merge-patch+json", json!({"spec": nested(126)}).to_string()),
        ("an operation", "application/json-patch+json", step("/spec", &nested(100))),
        ("an operation on what is deep already", "application/json-patch+json", step(&long, &nested(60))),
    ] {
        let answer = cluster.request("PATCH", &path, media, patch).await;
        assert!(matches!(answer.code, 400 | 422), "{what}: {}", answer.body);
    }
    let mut deep = body.clone();
    (deep["metadata"]["name"], deep["spec"]) = ("deep".into(), nested(110));
    for media in [JSON, "application/yaml"] {
        assert_eq!(cluster.request("POST", SHIPS, media, deep.to_string()).await.code, 400, "{media}");
    }
    let apply = format!("{SHIPS}/deep?fieldManager=me");
    deep["spec"] = nested(99);
    let applied = cluster.request("PATCH", &apply, "application/apply-patch+yaml", deep.to_string()).await;
    assert_eq!(applied.code, 201, "with its managed fields it still reads: {}", applied.body);
    let deleted = cluster.request("DELETE", &path, "", "").await;
    assert_eq!(deleted.code, 200, "{}", deleted.body);
    let kept = cluster.request("GET", &path, "", "").await;
    assert!(kept.body["metadata"]["deletionTimestamp"].is_string(), "its finalizer keeps it: {}", kept.body);
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_not_patched_out_of_service() {
    let cluster = with_ships().await;
    let path = format!("{DEFINITIONS}/ships.harbour.example.com");
    let add = |path: &str, value: Value| json!([{"op": "add", "path": path, "value": value}]).to_string();
    let schema =
        (0..70).fold(json!({"type": "string"}), |inner, _| json!({"type": "object", "properties": {"a": inner}}));
    let to = "/spec/versions/0/schema/openAPIV3Schema/properties/deep";
    let answer = cluster.request("PATCH", &path, "application/json-patch+json", add(to, schema)).await;
    assert!(matches!(answer.code, 400 | 422), "{}", answer.body);
    let default = json!({"type": "array", "items": {"type": "integer"}, "default": vec![0; 100_000]});
    let answer = cluster.request("PATCH", &path, "application/json-patch+json", add(to, default)).await;
    assert_eq!(answer.code, 422, "{}", answer.message());
    assert!(answer.message().contains("properties[deep].default"), "{}", answer.message());
    assert_eq!(cluster.request("POST", SHIPS, JSON, ship("argo", &json!({"masts": 1}))).await.code, 201);
}
