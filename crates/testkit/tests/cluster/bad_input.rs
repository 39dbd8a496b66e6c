//! Whatever is sent, the answer is a 4xx with a Status that says what is wrong, and nothing else notices.

use pintle_testkit::{Answer, Cluster};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";

fn assert_refused(answer: &Answer, code: u16, what: &str) {
    assert_eq!(answer.code, code, "{what}: {}", answer.body);
    assert_eq!(answer.body["kind"], "Status", "{what}");
    assert_eq!(answer.body["status"], "Failure", "{what}");
    assert_eq!(answer.body["code"], code, "{what}");
    assert!(!answer.message().is_empty(), "{what}");
}

#[tokio::test(start_paused = true)]
async fn malformed_bodies_get_a_status_that_says_so() {
    let cluster = Cluster::bare().await;
    let named = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let bodies: Vec<(&str, Vec<u8>, &str, u16)> = vec![
        ("nothing", vec![], JSON, 400),
        ("half an object", b"{\"a\":".to_vec(), JSON, 400),
        ("a list", b"[1]".to_vec(), JSON, 400),
        ("a number", b"7".to_vec(), JSON, 400),
        ("noise", vec![0, 159, 146, 150], JSON, 400),
        ("trailing noise", [named("x").to_string().as_bytes(), b"}"].concat(), JSON, 400),
        ("20,000 open brackets", vec![b'['; 20_000], JSON, 400),
        ("20,000 nested objects", "{\"a\":".repeat(20_000).into_bytes(), JSON, 400),
        (
            "another kind",
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}).to_string().into(),
            JSON,
            400,
        ),
        (
            "another version",
            json!({"apiVersion": "v9", "kind": "ConfigMap", "metadata": {"name": "x"}}).to_string().into(),
            JSON,
            400,
        ),
        ("another namespace", json!({"metadata": {"name": "x", "namespace": "other"}}).to_string().into(), JSON, 400),
        ("a list for data", json!({"metadata": {"name": "x"}, "data": [1]}).to_string().into(), JSON, 400),
        ("a number for a name", json!({"metadata": {"name": 5}}).to_string().into(), JSON, 400),
        ("a string for metadata", json!({"metadata": "x"}).to_string().into(), JSON, 400),
        ("no name", json!({"metadata": {}}).to_string().into(), JSON, 422),
        ("a name with capitals", named("Nope").to_string().into(), JSON, 422),
        ("a name with a slash", named("a/b").to_string().into(), JSON, 422),
        ("a name that is too long", named(&"a".repeat(300)).to_string().into(), JSON, 422),
        ("a bad label", json!({"metadata": {"name": "x", "labels": {"a b": "c"}}}).to_string().into(), JSON, 422),
        ("a bad label value", json!({"metadata": {"name": "x", "labels": {"a": "-"}}}).to_string().into(), JSON, 422),
        ("a bad finalizer", json!({"metadata": {"name": "x", "finalizers": ["nope"]}}).to_string().into(), JSON, 422),
        ("plain text", b"hello".to_vec(), "text/plain", 415),
        ("broken yaml", b"a: [".to_vec(), "application/yaml", 400),
        ("protobuf without its magic", b"xxxx".to_vec(), "application/vnd.kubernetes.protobuf", 400),
        ("broken protobuf", b"k8s\0\x0a\xff\xff".to_vec(), "application/vnd.kubernetes.protobuf", 400),
    ];
    for (what, body, media, code) in bodies {
        assert_refused(&cluster.request("POST", MAPS, media, body).await, code, what);
    }
    let fine = cluster.request("POST", MAPS, JSON, named("fine").to_string()).await;
    assert_eq!(fine.code, 201, "a good request after all the bad ones: {}", fine.body);
}

#[tokio::test(start_paused = true)]
async fn errors_name_the_field_the_reason_and_the_value() {
    let cluster = Cluster::bare().await;
    let answer = cluster.request("POST", MAPS, JSON, json!({"metadata": {"name": "Nope"}}).to_string()).await;
    let cause = &answer.body["details"]["causes"][0];
    assert_eq!(cause["field"], "metadata.name");
    assert_eq!(cause["reason"], "FieldValueInvalid");
    assert!(cause["message"].as_str().unwrap().starts_with("Invalid value: \"Nope\": a lowercase RFC 1123 subdomain"));
}

#[tokio::test(start_paused = true)]
async fn malformed_patches_are_refused() {
    let cluster = Cluster::bare().await;
    cluster.request("POST", MAPS, JSON, json!({"metadata": {"name": "x"}}).to_string()).await;
    let path = format!("{MAPS}/x");
    let step = json!({"op": "add", "path": "/data", "value": {}});
    let many = |n: usize| Value::Array(vec![step.clone(); n]).to_string();
    let (patch, merge, strategic, apply) = (
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    );
    for (what, media, body, code) in [
        ("not json", patch, "{".to_owned(), 400),
        ("not a list", patch, json!({"op": "add"}).to_string(), 400),
        ("an unknown operation", patch, json!([{"op": "dance", "path": "/a"}]).to_string(), 422),
        ("a failed test", patch, json!([{"op": "test", "path": "/data", "value": 1}]).to_string(), 422),
        ("10,001 steps", patch, many(10_001), 413),
        ("a merge patch that is a list", merge, "[]".to_owned(), 400),
        ("a merge patch that breaks the type", merge, json!({"data": [1]}).to_string(), 400),
        ("a strategic patch that is text", strategic, "\"x\"".to_owned(), 400),
        ("an unknown patch type", "application/nonsense", "{}".to_owned(), 415),
        ("an apply without a manager", apply, json!({"apiVersion": "v1", "kind": "ConfigMap"}).to_string(), 422),
    ] {
        assert_refused(&cluster.request("PATCH", &path, media, body).await, code, what);
    }
    let fine = cluster.request("PATCH", &path, patch, many(10_000)).await;
    assert_eq!(fine.code, 200, "ten thousand steps are fine: {}", fine.body);
}

#[tokio::test(start_paused = true)]
async fn malformed_queries_and_paths_are_refused() {
    let cluster = Cluster::bare().await;
    for (query, code) in [
        ("?labelSelector=a%20b%20c", 400),
        ("?labelSelector=%21%21", 400),
        ("?fieldSelector=x", 400),
        ("?fieldSelector=spec.nonsense%3D1", 400),
        ("?resourceVersion=abc", 400),
        ("?resourceVersion=999999999999", 504),
        ("?continue=abc", 400),
        ("?resourceVersionMatch=Exact", 422),
        ("?limit=x", 400),
        ("?timeoutSeconds=x", 400),
    ] {
        assert_refused(&cluster.request("GET", &format!("{MAPS}{query}"), "", "").await, code, query);
    }
    for (method, path, code) in [
        ("PUT", MAPS.to_owned(), 405),
        ("POST", format!("{MAPS}/x"), 405),
        ("GET", format!("{MAPS}/x/nosuch"), 404),
        ("POST", "/api/v1/pods".to_owned(), 405),
        ("GET", "/api/v1/nosuch".to_owned(), 404),
        ("POST", "/api/v1/namespaces/absent/configmaps".to_owned(), 404),
    ] {
        let body = json!({"metadata": {"name": "x"}}).to_string();
        assert_refused(&cluster.request(method, &path, JSON, body).await, code, &path);
    }
}

#[tokio::test(start_paused = true)]
async fn duplicate_keys_do_not_stall_everyone() {
    let cluster = Cluster::bare().await;
    let repeated = ",\"a\":\"1\"".repeat(20_000);
    let body = format!(
        "{{\"metadata\":{{\"name\":\"x\",\"annotations\":{{\"a\":\"1\"{repeated}}}}}{}}}",
        ",\"q\":1".repeat(20_000)
    );
    let answer = cluster.request("POST", MAPS, JSON, body.clone()).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    let duplicate = "299 - \"duplicate field \\\"metadata.annotations.a\\\"\"";
    assert_eq!(answer.warnings(), [duplicate, "299 - \"unknown field \\\"q\\\"\""]);
    let many: String = (0..5_000).map(|i| format!(",\"k{i}\":\"1\",\"k{i}\":\"2\"")).collect();
    let body = format!("{{\"metadata\":{{\"name\":\"y\"}},\"data\":{{\"a\":\"1\"{many}}}}}");
    let answer = cluster.request("POST", MAPS, JSON, body.clone()).await;
    assert_eq!((answer.code, answer.warnings().len()), (201, 100), "as many warnings as are readable");
    let refused = cluster.request("POST", &format!("{MAPS}?fieldValidation=Strict"), JSON, body).await;
    assert_refused(&refused, 400, "strict");
    assert!(refused.message().len() < 10_000);
}

#[tokio::test(start_paused = true)]
async fn strict_validation_reports_fields_as_they_were_sent() {
    let cluster = Cluster::bare().await;
    let json = r#"{"metadata":{"name":"x"},"zeta":1,"data":{"a":"1","a":"2"},"beta":1}"#;
    let answer = cluster.request("POST", &format!("{MAPS}?fieldValidation=Strict"), JSON, json).await;
    assert_refused(&answer, 400, "json");
    let wanted = r#"strict decoding error: unknown field "zeta", duplicate field "data.a", unknown field "beta""#;
    assert!(answer.message().ends_with(wanted), "{}", answer.message());
    let yaml =
        "\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndata:\n  unknown: uk1\n  foo: foo1\n  foo: foo2\n";
    let apply = format!("{MAPS}/x?fieldManager=me&fieldValidation=Strict");
    let answer = cluster.request("PATCH", &apply, "application/apply-patch+yaml", yaml).await;
    assert_refused(&answer, 400, "yaml");
    assert!(answer.message().contains("line 9: key \"foo\" already set in map"), "{}", answer.message());
    let loose = cluster.request("PATCH", &apply.replace("Strict", "Warn"), "application/apply-patch+yaml", yaml).await;
    assert_eq!((loose.code, &loose.body["data"]["foo"]), (201, &json!("foo2")), "the last one wins");
    assert_eq!(loose.warnings(), ["299 - \"line 9: key \\\"foo\\\" already set in map\""]);
}
