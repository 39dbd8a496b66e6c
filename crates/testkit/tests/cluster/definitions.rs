//! Definitions beside each other: names belong to who had them first, and each version of a kind has its own schema.

use pintle_apiserver::authn::User;
use pintle_apiserver::request::Peer;
use pintle_schema::protobuf::envelope::Body;
use pintle_testkit::Cluster;
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const JSON: &str = "application/json";

fn definition(plural: &str, kind: &str, versions: &Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.harbour.example.com")},
        "spec": {"group": "harbour.example.com", "scope": "Namespaced", "versions": versions,
            "names": {"plural": plural, "singular": plural.trim_end_matches('s'), "kind": kind, "listKind": format!("{kind}List")}}})
}

fn version(name: &str, storage: bool, spec: &Value) -> Value {
    json!({"name": name, "served": true, "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}})
}

fn plain() -> Value {
    json!([version("v1", true, &json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}))])
}

async fn define(cluster: &Cluster, definition: &Value) {
    let answer = cluster.request("POST", DEFINITIONS, JSON, definition.to_string()).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
}

/// What a condition of a definition says: its status, its reason and its message.
async fn condition(cluster: &Cluster, plural: &str, kind: &str) -> [String; 3] {
    let path = format!("{DEFINITIONS}/{plural}.harbour.example.com");
    let said =
        |condition: &Value| ["status", "reason", "message"].map(|key| condition[key].as_str().unwrap_or("").to_owned());
    cluster
        .eventually("the definition has a status", || async {
            let found = cluster.request("GET", &path, "", "").await;
            let conditions = found.body["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().find(|c| c["type"] == kind).map(said)
        })
        .await
}

#[tokio::test(start_paused = true)]
async fn two_definitions_do_not_share_a_kind_and_the_second_gets_it_when_the_first_is_gone() {
    let cluster = Cluster::bare().await;
    define(&cluster, &definition("ships", "Ship", &plain())).await;
    define(&cluster, &definition("boats", "Ship", &plain())).await;
    assert_eq!(condition(&cluster, "ships", "Established").await[0], "True");
    let refused = ["False", "ListKindConflict", "\"ShipList\" is already in use"];
    assert_eq!(condition(&cluster, "boats", "NamesAccepted").await, refused);
    assert_eq!(condition(&cluster, "boats", "Established").await[..2], ["False", "NotAccepted"]);
    let boats = "/apis/harbour.example.com/v1/namespaces/default/boats";
    assert_eq!(cluster.request("GET", boats, "", "").await.code, 404);
    cluster.request("DELETE", &format!("{DEFINITIONS}/ships.harbour.example.com"), "", "").await;
    cluster
        .eventually("the second definition is served", || async {
            (cluster.request("GET", boats, "", "").await.code == 200).then_some(())
        })
        .await;
    cluster
        .eventually("and says so", || async {
            (condition(&cluster, "boats", "Established").await[0] == "True").then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_object_is_checked_and_pruned_by_the_schema_of_the_version_that_it_names() {
    let cluster = Cluster::bare().await;
    let old = json!({"type": "object", "required": ["masts"], "properties": {"masts": {"type": "integer"}}});
    let new = json!({"type": "object", "required": ["rigging"], "properties": {"rigging": {"type": "string"}}});
    let mut versions = json!([version("v1alpha1", false, &old), version("v1", true, &new)]);
    versions[0]["deprecated"] = true.into();
    define(&cluster, &definition("ships", "Ship", &versions)).await;
    let post = |version: &'static str, spec: Value| {
        let cluster = &cluster;
        async move {
            let ship = json!({"apiVersion": format!("harbour.example.com/{version}"), "kind": "Ship",
                "metadata": {"name": "argo"}, "spec": spec});
            let path = format!("/apis/harbour.example.com/{version}/namespaces/default/ships");
            cluster.request("POST", &path, JSON, ship.to_string()).await
        }
    };
    let refused = post("v1", json!({"masts": 1})).await;
    assert_eq!(refused.code, 422, "{}", refused.body);
    let refused = post("v1alpha1", json!({"rigging": "square"})).await;
    assert_eq!(refused.code, 422, "{}", refused.body);
    let created = post("v1alpha1", json!({"masts": 2, "rigging": "square"})).await;
    assert_eq!((created.code, &created.body["spec"]), (201, &json!({"masts": 2})), "{}", created.body);
    assert_eq!(created.body["metadata"]["managedFields"][0]["apiVersion"], "harbour.example.com/v1alpha1");
    let warnings: Vec<&str> = created.headers.get_all("warning").iter().filter_map(|v| v.to_str().ok()).collect();
    let deprecated = "299 - \"harbour.example.com/v1alpha1 Ship is deprecated\"";
    assert!(warnings.contains(&deprecated), "{warnings:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_new_is_created_while_its_definition_is_going() {
    let cluster = Cluster::bare().await;
    define(&cluster, &definition("ships", "Ship", &plain())).await;
    let path = "/apis/harbour.example.com/v1/namespaces/default/ships";
    let ship = |name: &str| {
        json!({"apiVersion": "harbour.example.com/v1", "kind": "Ship",
            "metadata": {"name": name, "finalizers": ["harbour.example.com/anchor"]}})
        .to_string()
    };
    assert_eq!(cluster.request("POST", path, JSON, ship("argo")).await.code, 201);
    cluster.request("DELETE", &format!("{DEFINITIONS}/ships.harbour.example.com"), "", "").await;
    let refused = cluster.request("POST", path, JSON, ship("fram")).await;
    assert_eq!(refused.code, 403, "{}", refused.body);
    assert!(refused.message().contains("custom resource definition is terminating"), "{}", refused.message());
}

#[tokio::test(start_paused = true)]
async fn a_custom_kind_is_listed_and_watched_by_the_fields_that_its_definition_declares() {
    let cluster = Cluster::bare().await;
    let spec = json!({"type": "object", "properties": {"port": {"type": "string"}, "masts": {"type": "integer"}}});
    let mut versions = json!([version("v1", true, &spec)]);
    versions[0]["selectableFields"] = json!([{"jsonPath": ".spec.port"}, {"jsonPath": ".spec.masts"}]);
    define(&cluster, &definition("ships", "Ship", &versions)).await;
    let path = "/apis/harbour.example.com/v1/namespaces/default/ships";
    for (name, port, masts) in [("argo", "Iolcus", 1), ("fram", "Oslo", 3), ("vega", "Oslo", 2)] {
        let ship = json!({"apiVersion": "harbour.example.com/v1", "kind": "Ship", "metadata": {"name": name},
            "spec": {"port": port, "masts": masts}});
        assert_eq!(cluster.request("POST", path, JSON, ship.to_string()).await.code, 201);
    }
    let names = |selector: &'static str| {
        let cluster = &cluster;
        async move {
            let list = cluster.request("GET", &format!("{path}?fieldSelector={selector}"), "", "").await;
            let items = list.body["items"].as_array().cloned().unwrap_or_default();
            let names: Vec<String> =
                items.iter().map(|i| i["metadata"]["name"].as_str().unwrap_or("").to_owned()).collect();
            (list.code, names.join(" "))
        }
    };
    assert_eq!(names("spec.port%3DOslo").await, (200, "fram vega".to_owned()));
    assert_eq!(names("spec.port%3DOslo,spec.masts%3D2").await, (200, "vega".to_owned()));
    assert_eq!(names("spec.port!%3DOslo").await, (200, "argo".to_owned()));
    let refused = cluster.request("GET", &format!("{path}?fieldSelector=spec.flag%3Dred"), "", "").await;
    assert_eq!((refused.code, refused.message()), (400, "field label not supported: spec.flag"));
}

#[tokio::test(start_paused = true)]
async fn clients_read_schemas_again_only_when_their_own_definition_has_changed() {
    let cluster = Cluster::bare().await;
    define(&cluster, &definition("ships", "Ship", &plain())).await;
    let url = || async {
        let index = cluster.request("GET", "/openapi/v3", "", "").await;
        index.body["paths"]["apis/harbour.example.com/v1"]["serverRelativeURL"].as_str().unwrap_or("").to_owned()
    };
    let before = url().await;
    condition(&cluster, "ships", "Established").await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}});
    cluster.request("POST", "/api/v1/namespaces/default/configmaps", JSON, map.to_string()).await;
    assert_eq!(url().await, before);
    let schema = json!([version("v1", true, &json!({"type": "object", "properties": {"masts": {"type": "integer"}}}))]);
    let change = json!({"spec": {"versions": schema}}).to_string();
    let path = format!("{DEFINITIONS}/ships.harbour.example.com");
    assert_eq!(cluster.request("PATCH", &path, "application/merge-patch+json", change).await.code, 200);
    assert_ne!(url().await, before);
}

#[tokio::test(start_paused = true)]
async fn a_definition_says_what_its_deletion_waits_for() {
    let cluster = Cluster::bare().await;
    define(&cluster, &definition("ships", "Ship", &plain())).await;
    assert_eq!(condition(&cluster, "ships", "Established").await[0], "True");
    let path = "/apis/harbour.example.com/v1/namespaces/default/ships";
    let ship = json!({"apiVersion": "harbour.example.com/v1", "kind": "Ship",
        "metadata": {"name": "argo", "finalizers": ["harbour.example.com/anchor"]}});
    assert_eq!(cluster.request("POST", path, JSON, ship.to_string()).await.code, 201);
    let gone = format!("{DEFINITIONS}/ships.harbour.example.com");
    let deleted = cluster.request("DELETE", &gone, "", "").await;
    let conditions = deleted.body["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let last = conditions.last().cloned().unwrap_or_default();
    assert_eq!((&last["type"], &last["reason"]), (&json!("Terminating"), &json!("InstanceDeletionPending")));
    let reason = |wanted: &'static str| {
        let cluster = &cluster;
        cluster.eventually(wanted, move || async move {
            let said = condition(cluster, "ships", "Terminating").await;
            (said[1] == wanted).then_some(said)
        })
    };
    let running = reason("InstanceDeletionInProgress").await;
    assert_eq!(running[..], ["True", "InstanceDeletionInProgress", "CustomResource deletion is in progress"]);
    cluster.advance(std::time::Duration::from_secs(70)).await;
    let held = reason("InstanceDeletionCheck").await;
    assert_eq!(held[2], "could not confirm zero CustomResources remaining: context deadline exceeded");
    assert_eq!(condition(&cluster, "ships", "Established").await[0], "True", "other conditions stay");
    let free = json!({"metadata": {"finalizers": null}}).to_string();
    let freed = cluster.request("PATCH", &format!("{path}/argo"), "application/merge-patch+json", free).await;
    assert_eq!(freed.code, 200, "{}", freed.body);
    cluster
        .eventually("the definition is gone", || async {
            (cluster.request("GET", &gone, "", "").await.code == 404).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_definition_takes_its_objects_along_though_it_no_longer_serves_them() {
    let cluster = Cluster::bare().await;
    define(&cluster, &definition("ships", "Ship", &plain())).await;
    assert_eq!(condition(&cluster, "ships", "Established").await[0], "True");
    let path = "/apis/harbour.example.com/v1/namespaces/default/ships";
    let ship = json!({"apiVersion": "harbour.example.com/v1", "kind": "Ship", "metadata": {"name": "argo"}});
    assert_eq!(cluster.request("POST", path, JSON, ship.to_string()).await.code, 201);
    let own = format!("{DEFINITIONS}/ships.harbour.example.com");
    let unserved = json!([{"op": "replace", "path": "/spec/versions/0/served", "value": false}]).to_string();
    assert_eq!(cluster.request("PATCH", &own, "application/json-patch+json", unserved).await.code, 200);
    cluster.request("DELETE", &own, "", "").await;
    cluster
        .eventually("the definition is gone", || async {
            (cluster.request("GET", &own, "", "").await.code == 404).then_some(())
        })
        .await;
    define(&cluster, &definition("ships", "Ship", &plain())).await;
    let list = cluster.request("GET", path, "", "").await;
    assert_eq!(list.body["items"], json!([]), "{}", list.body);
}

#[tokio::test(start_paused = true)]
async fn the_published_schema_of_a_custom_kind_is_the_one_that_was_written() {
    let cluster = Cluster::start().await;
    let schema = json!({"description": "Foo CRD for Testing", "type": "object", "properties": {
        "spec": {"type": "object", "description": "Specification of Foo", "properties": {
            "bars": {"description": "List of Bars and their specs.", "type": "array", "items": {
                "type": "object", "required": ["name"], "properties": {
                    "name": {"description": "Name of Bar.", "type": "string"},
                    "feeling": {"description": "Whether Bar is feeling great.", "type": "string", "enum": ["Great", "Down"]},
                    "bazs": {"description": "List of Bazs.", "type": "array", "items": {"type": "string"}}}}}}},
        "status": {"description": "Status of Foo", "type": "object", "properties": {
            "bars": {"type": "array", "items": {"type": "object", "properties": {
                "available": {"type": "boolean"},
                "quxType": {"description": "d", "pattern": "in-tree|out-of-tree", "type": "string"}}}}}}}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "e2e-test-1-crds.a-test-foo.example.com"},
        "spec": {"group": "a-test-foo.example.com", "scope": "Namespaced",
            "names": {"plural": "e2e-test-1-crds", "kind": "e2e-test-1-crd"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    // As client-go sends it: with every empty string and every false.
    let mut sealed = Vec::new();
    let body = Body {
        api_version: "apiextensions.k8s.io/v1",
        kind: "CustomResourceDefinition",
        type_name: "apiextensions.v1.CustomResourceDefinition",
    };
    body.seal(definition.to_string().as_bytes(), &mut sealed).unwrap();
    let admin = Peer::Internal(User::internal("kubernetes-admin").into());
    let media = "application/vnd.kubernetes.protobuf";
    let created =
        cluster.request_as(admin, &[("accept", "application/json")], "POST", DEFINITIONS, media, sealed).await;
    assert_eq!(created.code, 201, "{}", created.body);
    cluster.settle().await;
    let request = http::Request::get("/openapi/v2").body(Vec::new()).unwrap();
    let document: Value = cluster.client().request(request).await.unwrap();
    let mut published = document["definitions"]["com.example.a-test-foo.v1.e2e-test-1-crd"].clone();
    for (added, says) in
        [("apiVersion", "APIVersion defines"), ("kind", "Kind is a"), ("metadata", "Standard object's")]
    {
        let added = published["properties"].as_object_mut().unwrap().remove(added).unwrap();
        assert!(added["description"].as_str().unwrap().starts_with(says), "{added}");
    }
    assert!(published.as_object_mut().unwrap().remove("x-kubernetes-group-version-kind").is_some());
    // What `kubectl explain` says of the metadata is in the document of the group.
    let request = http::Request::get("/openapi/v3/apis/a-test-foo.example.com/v1").body(Vec::new()).unwrap();
    let group: Value = cluster.client().request(request).await.unwrap();
    let metadata = &group["components"]["schemas"]["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"];
    let created = metadata["creationTimestamp"]["description"].as_str().unwrap_or_default();
    assert!(created.starts_with("CreationTimestamp is a timestamp"), "{created}");
    assert_eq!(published, schema);
}
