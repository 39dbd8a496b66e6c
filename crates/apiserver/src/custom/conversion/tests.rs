//! Conversion by a webhook: one that converts, and such as fail, lose objects or lie.

use super::*;
use crate::testing::Cluster;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

fn object(version: &str, name: &str) -> Value {
    json!({"apiVersion": version, "kind": "Web", "metadata": {"name": name, "uid": "u", "resourceVersion": "7"}})
}

#[test]
fn a_conversion_may_change_labels_and_annotations_and_no_other_metadata() {
    let original = object("e.com/v1", "a");
    let mut answer = object("e.com/v2", "a");
    answer["metadata"]["labels"] = json!({"x": "y"});
    answer["metadata"]["finalizers"] = json!(["e.com/stays"]);
    answer["metadata"]["resourceVersion"] = "8".into();
    answer["spec"] = json!({"size": 3});
    let accepted = accept(&original, answer, "e.com/v2").unwrap();
    let metadata = json!({"name": "a", "uid": "u", "resourceVersion": "7", "labels": {"x": "y"}});
    assert_eq!((&accepted["metadata"], &accepted["spec"]), (&metadata, &json!({"size": 3})));
    for (answer, why) in [
        (object("e.com/v1", "a"), "invalid groupVersion (expected e.com/v2, received e.com/v1)"),
        (object("e.com/v2", "b"), "must have the same name: a != b"),
        (json!({"apiVersion": "e.com/v2", "kind": "Other"}), "invalid kind (expected Web, received Other)"),
    ] {
        assert_eq!(accept(&original, answer, "e.com/v2").unwrap_err(), why);
    }
}

#[test]
fn an_answer_counts_only_if_it_answers_the_question() {
    let review = |response: Value| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response}).to_string()
    };
    let told = |response: Value| read(review(response).as_bytes(), "v1", "u");
    let success = json!({"status": "Success"});
    assert_eq!(told(json!({"uid": "u", "result": success, "convertedObjects": [1]})), Ok(vec![json!(1)]));
    assert_eq!(told(Value::Null).unwrap_err(), "no response provided");
    assert_eq!(told(json!({"uid": "x", "result": success})).unwrap_err(), "expected response.uid=\"u\", got \"x\"");
    assert_eq!(told(json!({"uid": "u"})).unwrap_err(), "response.result.status was '', not 'Success'");
    let failed = json!({"uid": "u", "result": {"status": "Failed", "message": "no way"}});
    assert_eq!(told(failed).unwrap_err(), "no way");
    assert!(read(b"<html>", "v1", "u").is_err());
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Two versions that look different; the first is stored.
fn definition(cluster: &Cluster, path: &str) -> Value {
    let integer = json!({"type": "integer"});
    let version = |name: &str, stored: bool, properties: Value| {
        json!({"name": name, "served": true, "storage": stored,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}})
    };
    let client = json!({"url": format!("https://127.0.0.1:{}/{path}", cluster.hooks.port),
        "caBundle": STANDARD.encode(&cluster.hooks.authority)});
    json!({"metadata": {"name": "webs.e.com"}, "spec": {"group": "e.com", "scope": "Namespaced",
        "names": {"plural": "webs", "singular": "web", "kind": "Web"},
        "versions": [version("v1", true, json!({"size": integer})),
            version("v2", false, json!({"spec": {"type": "object", "properties": {"size": integer}}}))],
        "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client}}}})
}

fn webs(version: &str, name: &str) -> String {
    format!("/apis/e.com/{version}/namespaces/a/webs{name}")
}

#[tokio::test]
async fn each_version_is_written_and_read_in_its_own_form() {
    let cluster = Cluster::start().await;
    assert_eq!(cluster.post(DEFINITIONS, definition(&cluster, "convert")).await.code, 201);
    let first = json!({"apiVersion": "e.com/v1", "kind": "Web", "metadata": {"name": "one"}, "size": 1});
    assert_eq!(cluster.post(&webs("v1", ""), first).await.code, 201);
    assert!(cluster.hooks.seen().is_empty(), "the stored version needs nobody");
    let second = json!({"apiVersion": "e.com/v2", "kind": "Web", "metadata": {"name": "two"}, "spec": {"size": 2}});
    let answer = cluster.post(&webs("v2", ""), second).await;
    assert_eq!((answer.code, &answer.body["spec"]["size"]), (201, &json!(2)), "{}", answer.body);
    let get = async |path: String| cluster.send("GET", &path, &Value::Null, "").await.body;
    assert_eq!(get(webs("v1", "/two")).await["size"], 2);
    assert_eq!(get(webs("v2", "/one")).await["spec"], json!({"size": 1}));
    let list = get(webs("v2", "")).await;
    let sizes: Vec<&Value> = list["items"].as_array().unwrap().iter().map(|item| &item["spec"]["size"]).collect();
    assert_eq!(sizes, [1, 2]);
    // What has not changed is not asked about again.
    let asked = cluster.hooks.seen().len();
    get(webs("v2", "")).await;
    assert_eq!(cluster.hooks.seen().len(), asked);
    // A patch sees the version of its path.
    let patch = json!([{"op": "replace", "path": "/spec/size", "value": 7}]);
    let answer = cluster.send("PATCH", &webs("v2", "/one"), &patch, "application/json-patch+json").await;
    assert_eq!((answer.code, &answer.body["spec"]["size"]), (200, &json!(7)), "{}", answer.body);
    assert_eq!(get(webs("v1", "/one")).await["size"], 7);
    let applied = json!({"apiVersion": "e.com/v2", "kind": "Web", "metadata": {"name": "three"}, "spec": {"size": 3}});
    let path = webs("v2", "/three?fieldManager=t");
    assert_eq!(cluster.send("PATCH", &path, &applied, "application/apply-patch+yaml").await.code, 201);
    assert_eq!(get(webs("v1", "/three")).await["size"], 3);
    assert_eq!(cluster.delete(&webs("v2", "/three")).await.code, 200);
}

#[tokio::test]
async fn a_conversion_that_fails_is_told_and_nothing_is_stored() {
    for (path, why) in [
        ("convert-fails", "conversion webhook for e.com/v2, Kind=Web failed: cannot do that"),
        ("convert-loses", "conversion webhook for e.com/v2, Kind=Web returned 0 objects, expected 1"),
        (
            "convert-renames",
            "conversion webhook for e.com/v2, Kind=Web returned invalid converted object at index 0: must have the same name: x != another",
        ),
        ("500", "conversion webhook for e.com/v2, Kind=Web failed: the server could not convert"),
    ] {
        let cluster = Cluster::start().await;
        assert_eq!(cluster.post(DEFINITIONS, definition(&cluster, path)).await.code, 201);
        let object = json!({"apiVersion": "e.com/v2", "kind": "Web", "metadata": {"name": "x"}, "spec": {"size": 2}});
        let answer = cluster.post(&webs("v2", ""), object).await;
        assert_eq!(answer.code, 500, "{}", answer.body);
        if path != "500" {
            assert_eq!(answer.message(), why);
        }
        assert_eq!(cluster.send("GET", &webs("v1", "/x"), &Value::Null, "").await.code, 404);
    }
}
