//! Answers as clients of Kubernetes know them: warnings, refusals, and what a write leaves behind.

use pintle_store::Store;
use pintle_testkit::Cluster;
use serde_json::{Value, json};

const JSON: &str = "application/json";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const SERVICES: &str = "/api/v1/namespaces/default/services";

fn pod_template() -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn definition(group: &str) -> Value {
    json!({
        "metadata": {"name": format!("ships.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "ships", "singular": "ship", "kind": "Ship"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}},
            }}}],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn what_has_no_effect_yet_is_said_to_whoever_creates_it() {
    let cluster = Cluster::bare().await;
    let ingress = json!({"metadata": {"name": "i"}, "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}});
    let ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let said = "299 - \"Pintle has no ingress controller: this Ingress has no effect unless one is installed\"";
    let created = cluster.request("POST", ingresses, JSON, ingress.to_string()).await;
    assert_eq!((created.code, created.warnings()), (201, vec![said]), "{}", created.body);
    let merge = "application/merge-patch+json";
    let rule = r#"{"spec":{"ingressClassName":"other"}}"#;
    let patched = cluster.request("PATCH", &format!("{ingresses}/i"), merge, rule).await;
    assert_eq!((patched.code, patched.warnings()), (200, vec![said]));
    let labels = r#"{"metadata":{"labels":{"x":"y"}}}"#;
    let labelled = cluster.request("PATCH", &format!("{ingresses}/i"), merge, labels).await;
    assert_eq!((labelled.code, labelled.warnings().len()), (200, 0), "it was said when the spec was written");
    let again = cluster.request("POST", ingresses, JSON, ingress.to_string()).await;
    assert_eq!((again.code, again.warnings().len()), (409, 0));
    let balanced = r#"{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}"#;
    let status = cluster.request("PATCH", &format!("{ingresses}/i/status"), merge, balanced).await;
    assert_eq!((status.code, status.warnings().len()), (200, 0), "{}", status.body);
    assert!(cluster.request("GET", &format!("{ingresses}/i"), "", "").await.warnings().is_empty());
    assert!(cluster.request("POST", MAPS, JSON, r#"{"metadata":{"name":"x"}}"#).await.warnings().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_binding_of_a_typed_client_needs_no_api_group() {
    let cluster = Cluster::bare().await;
    let binding = json!({"metadata": {"name": "b"}, "subjects": [{"kind": "User", "name": "ann", "apiGroup": ""}],
        "roleRef": {"apiGroup": "", "kind": "Role", "name": "r"}});
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    let answer = cluster.request("POST", path, JSON, binding.to_string()).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    assert_eq!(answer.body["roleRef"]["apiGroup"], "rbac.authorization.k8s.io");
}

#[tokio::test(start_paused = true)]
async fn a_field_manager_nobody_can_read_is_refused_for_every_verb() {
    let cluster = Cluster::bare().await;
    cluster.request("POST", MAPS, JSON, r#"{"metadata":{"name":"x"}}"#).await;
    let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}"#;
    for name in ["a%00b".to_owned(), "a%0Ab".to_owned(), "a".repeat(129), "a".repeat(60_000)] {
        for (method, path, media, options) in [
            ("POST", MAPS.to_owned(), JSON, "CreateOptions"),
            ("PUT", format!("{MAPS}/x"), JSON, "UpdateOptions"),
            ("PATCH", format!("{MAPS}/x"), "application/merge-patch+json", "PatchOptions"),
            ("PATCH", format!("{MAPS}/x"), "application/apply-patch+yaml", "PatchOptions"),
        ] {
            let answer = cluster.request(method, &format!("{path}?fieldManager={name}"), media, body).await;
            assert_eq!(answer.code, 422, "{method} {media}: {}", answer.body);
            assert!(
                answer.message().starts_with(&format!("{options}.meta.k8s.io \"\" is invalid: fieldManager:")),
                "{}",
                answer.message()
            );
            assert!(answer.message().len() < 1000);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_on_create_is_refused_where_kubernetes_refuses_it() {
    let cluster = Cluster::bare().await;
    let body = |version: &str| json!({"metadata": {"name": "x", "resourceVersion": version}}).to_string();
    let refused = cluster.request("POST", MAPS, JSON, body("5")).await;
    assert_eq!((refused.code, refused.message()), (500, "resourceVersion should not be set on objects to be created"));
    let dry = cluster.request("POST", &format!("{MAPS}?dryRun=All"), JSON, body("5")).await;
    assert_eq!((dry.code, &dry.body["metadata"]["resourceVersion"]), (201, &json!("5")), "{}", dry.body);
    let created = cluster.request("POST", MAPS, JSON, body("0")).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let again = cluster.request("POST", &format!("{MAPS}?dryRun=All"), JSON, body("")).await;
    assert_eq!(again.code, 409, "{}", again.body);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_counts_the_changes_of_its_template() {
    let cluster = Cluster::bare().await;
    let set = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pod_template()}});
    let generation = |answer: &pintle_testkit::Answer| {
        answer.body["metadata"]["annotations"]["deprecated.daemonset.template.generation"].clone()
    };
    let created = cluster.request("POST", SETS, JSON, set.to_string()).await;
    assert_eq!((created.code, generation(&created)), (201, json!("1")), "{}", created.body);
    let merge = |patch: Value| {
        let cluster = &cluster;
        async move {
            cluster.request("PATCH", &format!("{SETS}/d"), "application/merge-patch+json", patch.to_string()).await
        }
    };
    let labelled = merge(json!({"metadata": {"labels": {"x": "y"}}, "spec": {"minReadySeconds": 5}})).await;
    assert_eq!((generation(&labelled), &labelled.body["metadata"]["generation"]), (json!("1"), &json!(2)));
    let changed = merge(json!({"spec": {"template": {"metadata": {"labels": {"c": "d"}}}}})).await;
    assert_eq!((generation(&changed), &changed.body["metadata"]["generation"]), (json!("2"), &json!(3)));
    let forged = merge(json!({"metadata": {"annotations": {"deprecated.daemonset.template.generation": "77"}}})).await;
    assert_eq!(generation(&forged), json!("2"));
}

#[tokio::test(start_paused = true)]
async fn a_replication_controller_deleted_without_options_leaves_its_pods() {
    let cluster = Cluster::bare().await;
    let path = "/api/v1/namespaces/default/replicationcontrollers";
    let body = json!({"metadata": {"name": "rc"}, "spec": {"replicas": 1, "template": pod_template()}});
    assert_eq!(cluster.request("POST", path, JSON, body.to_string()).await.code, 201);
    let deleted = cluster.request("DELETE", &format!("{path}/rc"), "", "").await;
    assert_eq!(deleted.body["metadata"]["finalizers"], json!(["orphan"]), "{}", deleted.body);
}

#[tokio::test(start_paused = true)]
async fn a_review_has_no_table() {
    let cluster = Cluster::bare().await;
    let body = r#"{"spec":{"nonResourceAttributes":{"path":"/","verb":"get"}}}"#;
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let admin = || {
        pintle_apiserver::request::Peer::Internal(pintle_apiserver::authn::User::internal("kubernetes-admin").into())
    };
    let answer = cluster.request_as(admin(), &[("accept", table)], "POST", path, JSON, body).await;
    assert_eq!((answer.code, &answer.body["reason"]), (406, &json!("NotAcceptable")), "{}", answer.body);
    let either = format!("{table},application/json");
    let answer = cluster.request_as(admin(), &[("accept", &either)], "POST", path, JSON, body).await;
    assert_eq!((answer.code, &answer.body["kind"]), (201, &json!("SelfSubjectAccessReview")), "{}", answer.body);
}

#[tokio::test(start_paused = true)]
async fn a_chunked_list_goes_on_after_its_snapshot_is_gone() {
    let cluster = Cluster::bare().await;
    for index in 0..10 {
        let body = json!({"metadata": {"name": format!("m{index}")}});
        assert_eq!(cluster.request("POST", MAPS, JSON, body.to_string()).await.code, 201);
    }
    let first = cluster.request("GET", &format!("{MAPS}?limit=4"), "", "").await;
    let token = first.body["metadata"]["continue"].as_str().unwrap().to_owned();
    cluster.request("POST", MAPS, JSON, r#"{"metadata":{"name":"m99"}}"#).await;
    cluster.store.compact(cluster.store.revision());
    let expired = cluster.request("GET", &format!("{MAPS}?limit=4&continue={token}"), "", "").await;
    assert_eq!((expired.code, &expired.body["reason"]), (410, &json!("Expired")), "{}", expired.body);
    let token = expired.body["metadata"]["continue"].as_str().unwrap().to_owned();
    let rest = cluster.request("GET", &format!("{MAPS}?limit=4&continue={token}"), "", "").await;
    assert_eq!(rest.code, 200, "{}", rest.body);
    let names: Vec<&str> =
        rest.body["items"].as_array().unwrap().iter().filter_map(|i| i["metadata"]["name"].as_str()).collect();
    assert_eq!(names, ["m4", "m5", "m6", "m7"]);
    assert_eq!(rest.body["metadata"]["remainingItemCount"], 3);
    assert_ne!(rest.body["metadata"]["resourceVersion"], first.body["metadata"]["resourceVersion"]);
}

#[tokio::test(start_paused = true)]
async fn groups_of_the_community_need_an_approval() {
    let cluster = Cluster::bare().await;
    let mut definition = definition("harbour.k8s.io");
    let refused = cluster.request("POST", DEFINITIONS, JSON, definition.to_string()).await;
    assert_eq!(refused.code, 422, "{}", refused.body);
    assert_eq!(refused.body["details"]["causes"][0]["field"], "metadata.annotations[api-approved.kubernetes.io]");
    definition["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "https://example.com/pull/1"});
    assert_eq!(cluster.request("POST", DEFINITIONS, JSON, definition.to_string()).await.code, 201);
    cluster
        .eventually("the approval is a condition", || async {
            let found = cluster.request("GET", &format!("{DEFINITIONS}/ships.harbour.k8s.io"), "", "").await;
            let conditions = found.body["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let told = |c: &Value| c["type"] == "KubernetesAPIApprovalPolicyConformant" && c["status"] == "True";
            conditions.iter().any(told).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_default_added_later_shows_in_objects_from_before() {
    let cluster = Cluster::bare().await;
    let mut definition = definition("example.com");
    assert_eq!(cluster.request("POST", DEFINITIONS, JSON, definition.to_string()).await.code, 201);
    let ships = "/apis/example.com/v1/namespaces/default/ships";
    let ship =
        |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Ship", "metadata": {"name": name}, "spec": {}});
    assert_eq!(cluster.request("POST", ships, JSON, ship("old").to_string()).await.code, 201);
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["b"] =
        json!({"type": "string", "default": "B"});
    let patch = json!({"spec": {"versions": definition["spec"]["versions"]}});
    let path = format!("{DEFINITIONS}/ships.example.com");
    let patched = cluster.request("PATCH", &path, "application/merge-patch+json", patch.to_string()).await;
    assert_eq!(patched.code, 200, "{}", patched.body);
    let read = cluster.request("GET", &format!("{ships}/old"), "", "").await;
    assert_eq!(read.body["spec"], json!({"b": "B"}));
    let listed = cluster.request("GET", ships, "", "").await;
    assert_eq!(listed.body["items"][0]["spec"], json!({"b": "B"}));
    let watched = cluster.request("GET", &format!("{ships}?watch=1&timeoutSeconds=1"), "", "").await;
    assert_eq!(watched.body["object"]["spec"], json!({"b": "B"}), "{}", watched.body);
}

#[tokio::test(start_paused = true)]
async fn open_api_v2_shows_a_definition_as_it_was_given() {
    let cluster = Cluster::bare().await;
    let schema = json!({"description": "Foo CRD for Testing", "type": "object", "properties": {
        "spec": {"type": "object", "description": "Specification of Foo", "properties": {"bars": {"type": "array", "items": {
            "type": "object", "required": ["name"], "properties": {"name": {"type": "string"},
                "feeling": {"type": "string", "enum": ["Great", "Down"]}}}}}},
        "status": {"type": "object", "properties": {"quxType": {"type": "string", "pattern": "in-tree|out-of-tree"}}},
    }});
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    for (group, given, shown) in
        [("foo.example.com", schema.clone(), schema), ("free.example.com", free, json!({"type": "object"}))]
    {
        let mut definition = definition(group);
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = given;
        assert_eq!(cluster.request("POST", DEFINITIONS, JSON, definition.to_string()).await.code, 201);
        let document = cluster.request("GET", "/openapi/v2", "", "").await;
        let name = format!("com.example.{}.v1.Ship", group.split('.').next().unwrap());
        let mut found = document.body["definitions"][&name].clone();
        found.as_object_mut().unwrap().remove("x-kubernetes-group-version-kind");
        if let Some(properties) = found.get_mut("properties").and_then(Value::as_object_mut) {
            properties.retain(|key, _| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata"));
        }
        assert_eq!(found, shown);
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_on_its_way_out_gives_back_its_own_port_only() {
    let cluster = Cluster::bare().await;
    let service = |name: &str, port: u16| {
        json!({"metadata": {"name": name, "finalizers": ["example.com/keep"]},
        "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}})
        .to_string()
    };
    for (name, port) in [("victim", 30_100), ("leaving", 30_200)] {
        let answer = cluster.request("POST", SERVICES, JSON, service(name, port)).await;
        assert_eq!(answer.code, 201, "{}", answer.body);
    }
    assert_eq!(cluster.request("DELETE", &format!("{SERVICES}/leaving"), "", "").await.code, 200);
    let patch = json!({"metadata": {"finalizers": null}, "spec": {"ports": [{"port": 80, "nodePort": 30_100}]}});
    let gone = cluster
        .request("PATCH", &format!("{SERVICES}/leaving"), "application/merge-patch+json", patch.to_string())
        .await;
    assert_eq!(gone.code, 200, "{}", gone.body);
    assert_eq!(cluster.request("GET", &format!("{SERVICES}/leaving"), "", "").await.code, 404);
    let taken = cluster.request("POST", SERVICES, JSON, service("thief", 30_100)).await;
    assert_eq!(taken.code, 422, "the victim's port is still its own: {}", taken.body);
    let free = cluster.request("POST", SERVICES, JSON, service("next", 30_200)).await;
    assert_eq!(free.code, 201, "{}", free.body);
}
