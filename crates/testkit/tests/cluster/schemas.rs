//! The schema of a definition at work: what it refuses, what it fills in, and what it leaves alone because it was there before.

use pintle_testkit::Cluster;
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SHIPS: &str = "/apis/harbour.example.com/v1/namespaces/default/ships";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

fn definition(properties: &Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "ships.harbour.example.com"},
        "spec": {"group": "harbour.example.com", "scope": "Namespaced", "names": {"plural": "ships", "kind": "Ship"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}]}})
}

fn spec(fields: &Value) -> Value {
    json!({"spec": {"type": "object", "properties": fields}, "status": {"type": "object", "properties": {"phase": {"type": "string"}}}})
}

async fn defined(properties: &Value) -> Cluster {
    let cluster = Cluster::bare().await;
    let answer = cluster.request("POST", DEFINITIONS, JSON, definition(properties).to_string()).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    cluster
}

async fn redefine(cluster: &Cluster, properties: &Value) {
    let change = json!({"spec": definition(properties)["spec"]}).to_string();
    let path = format!("{DEFINITIONS}/ships.harbour.example.com");
    let answer = cluster.request("PATCH", &path, MERGE, change).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
}

fn ship(spec: &Value) -> Value {
    json!({"apiVersion": "harbour.example.com/v1", "kind": "Ship", "metadata": {"name": "argo"}, "spec": spec})
}

#[tokio::test(start_paused = true)]
async fn a_definition_with_a_wrong_schema_is_refused_where_it_is_wrong() {
    let cluster = Cluster::bare().await;
    let wrong = definition(&spec(&json!({"masts": {"type": "integer", "default": "two"}, "sails": {"type": "array"}})));
    let refused = cluster.request("POST", DEFINITIONS, JSON, wrong.to_string()).await;
    assert_eq!(refused.code, 422, "{}", refused.body);
    assert_eq!(
        refused.message(),
        "CustomResourceDefinition.apiextensions.k8s.io \"ships.harbour.example.com\" is invalid: spec.validation.openAPIV3Schema.properties[spec].properties[sails].items: Required value: must be specified"
    );
    let wrong = definition(&spec(&json!({"masts": {"type": "integer", "default": "two"}})));
    let refused = cluster.request("POST", DEFINITIONS, JSON, wrong.to_string()).await;
    let field = "spec.validation.openAPIV3Schema.properties[spec].properties[masts].default";
    assert_eq!((refused.code, &refused.body["details"]["causes"][0]["field"]), (422, &json!(field)));
    let mut odd = definition(&spec(&json!({"port": {"type": "string", "format": "harbour"}})));
    odd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["port"]["items"] =
        json!({"type": "string", "unheard": "of"});
    let taken = cluster.request("POST", DEFINITIONS, JSON, odd.to_string()).await;
    assert_eq!(taken.code, 201, "{}", taken.body);
    assert_eq!(taken.warnings(), ["299 - \"unrecognized format \\\"harbour\\\"\""]);
}

#[tokio::test(start_paused = true)]
async fn an_object_from_before_a_rule_is_updated_as_long_as_it_leaves_that_field_alone() {
    let loose = spec(&json!({"masts": {"type": "integer"}, "port": {"type": "string"}}));
    let cluster = defined(&loose).await;
    assert_eq!(
        cluster.request("POST", SHIPS, JSON, ship(&json!({"masts": 9, "port": "Oslo"})).to_string()).await.code,
        201
    );
    redefine(&cluster, &spec(&json!({"masts": {"type": "integer", "maximum": 7}, "port": {"type": "string"}}))).await;
    let path = format!("{SHIPS}/argo");
    let patch = |path: &str, change: Value| {
        let (cluster, path) = (&cluster, path.to_owned());
        async move { cluster.request("PATCH", &path, MERGE, change.to_string()).await }
    };
    let moved = patch(&path, json!({"spec": {"port": "Bergen"}})).await;
    assert_eq!((moved.code, &moved.body["spec"]["masts"]), (200, &json!(9)), "{}", moved.body);
    let refused = patch(&path, json!({"spec": {"masts": 8}})).await;
    assert_eq!(refused.code, 422, "{}", refused.body);
    assert_eq!(refused.body["details"]["causes"][0]["field"], "spec.masts");
    // A status is judged by itself.
    let status = patch(&format!("{path}/status"), json!({"status": {"phase": 5}})).await;
    assert_eq!(status.code, 422, "{}", status.body);
    let cause = &status.body["details"]["causes"][0];
    assert_eq!(cause["field"], "status.phase");
    assert_eq!(cause["message"], "Invalid value: \"integer\": phase in body must be of type string: \"integer\"");
    assert_eq!(patch(&format!("{path}/status"), json!({"status": {"phase": "Sailing"}})).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn a_status_has_its_defaults_and_is_written_through_its_own_path_alone() {
    let with_status =
        |fields: Value, status: Value| json!({"spec": {"type": "object", "properties": fields}, "status": status});
    let status =
        json!({"type": "object", "default": {}, "properties": {"phase": {"type": "string", "default": "New"}}});
    let cluster = defined(&with_status(json!({"port": {"type": "string"}}), status.clone())).await;
    let mut new = ship(&json!({"port": "Oslo"}));
    new["status"] = json!({"phase": "Sunk"});
    let made = cluster.request("POST", SHIPS, JSON, new.to_string()).await;
    assert_eq!((made.code, &made.body["status"]), (201, &json!({"phase": "New"})), "{}", made.body);
    let path = format!("{SHIPS}/argo");
    let change = json!({"spec": {"port": "Bergen"}, "status": {"phase": "Sunk"}}).to_string();
    let changed = cluster.request("PATCH", &path, MERGE, change.clone()).await;
    assert_eq!((&changed.body["spec"]["port"], &changed.body["status"]["phase"]), (&json!("Bergen"), &json!("New")));
    let change = json!({"spec": {"port": "Oslo"}, "status": {"phase": "Sunk"}}).to_string();
    let changed = cluster.request("PATCH", &format!("{path}/status"), MERGE, change).await;
    assert_eq!((&changed.body["spec"]["port"], &changed.body["status"]["phase"]), (&json!("Bergen"), &json!("Sunk")));
    // A default that comes later is read, and not lost when something else is written.
    redefine(
        &cluster,
        &with_status(json!({"port": {"type": "string"}, "flag": {"type": "string", "default": "red"}}), status),
    )
    .await;
    assert_eq!(cluster.request("GET", &path, "", "").await.body["spec"]["flag"], "red");
    let change = json!({"status": {"phase": "Raised"}}).to_string();
    let changed = cluster.request("PATCH", &format!("{path}/status"), MERGE, change).await;
    assert_eq!((&changed.body["spec"]["flag"], &changed.body["metadata"]["generation"]), (&json!("red"), &json!(2)));
    assert_eq!(cluster.request("GET", &path, "", "").await.body["spec"]["flag"], "red");
}

#[tokio::test(start_paused = true)]
async fn metadata_that_no_client_could_read_does_not_come_in() {
    let cluster = defined(&spec(&json!({"pod": {"type": "object", "x-kubernetes-embedded-resource": true,
        "properties": {"metadata": {"type": "object"}}}})))
    .await;
    let mut wrong = ship(&json!({}));
    wrong["metadata"]["labels"] = json!({"masts": 2});
    let refused = cluster.request("POST", SHIPS, JSON, wrong.to_string()).await;
    let cannot = "Ship in version \"v1\" cannot be handled as a Ship: ";
    let why = "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string";
    assert_eq!((refused.code, refused.message()), (400, format!("{cannot}{why}").as_str()));
    let refused = cluster.request("POST", SHIPS, JSON, ship(&json!({"pod": {"kind": 5}})).to_string()).await;
    let why = "spec.pod.kind: Invalid value: 5: must be a string";
    assert_eq!((refused.code, refused.message()), (400, format!("{cannot}{why}").as_str()));
    let refused = cluster.request("POST", SHIPS, JSON, ship(&json!({"pod": {"kind": "Pod"}})).to_string()).await;
    assert_eq!((refused.code, &refused.body["details"]["causes"][0]["field"]), (422, &json!("spec.pod.apiVersion")));
    let mut odd = ship(&json!({}));
    odd["metadata"]["finalizers"] = json!(["anchor"]);
    let taken = cluster.request("POST", SHIPS, JSON, odd.to_string()).await;
    assert_eq!(taken.code, 201, "{}", taken.body);
    let warning = "299 - \"metadata.finalizers: \\\"anchor\\\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers\"";
    assert_eq!(taken.warnings(), [warning]);
}

#[tokio::test(start_paused = true)]
async fn a_status_without_a_path_of_its_own_counts_as_a_change() {
    let cluster = Cluster::bare().await;
    let mut plain = definition(&spec(&json!({"port": {"type": "string"}})));
    plain["spec"]["versions"][0]["subresources"] = Value::Null;
    assert_eq!(cluster.request("POST", DEFINITIONS, JSON, plain.to_string()).await.code, 201);
    assert_eq!(cluster.request("POST", SHIPS, JSON, ship(&json!({})).to_string()).await.code, 201);
    let change = json!({"status": {"phase": "Sailing"}}).to_string();
    let changed = cluster.request("PATCH", &format!("{SHIPS}/argo"), MERGE, change).await;
    assert_eq!(
        (&changed.body["status"]["phase"], &changed.body["metadata"]["generation"]),
        (&json!("Sailing"), &json!(2))
    );
}
