//! The parts of a request that are fuzzed, one function each: what it answers is sent in order.

use crate::mutate::{Mutator, pointers};
use crate::samples::Sample;
use crate::{Case, Source, protobuf as messages};
use serde_json::{Value, json};

const JSON: &str = "application/json";

fn sample<'a>(source: &'a Source<'_>) -> &'a Sample {
    source.mutator.pick(source.samples)
}

/// An object of a sample under a new name or none, changed.
fn changed(source: &Source<'_>, sample: &Sample) -> Value {
    let mut object = sample.object.clone();
    if object["metadata"]["name"].is_null() {
        object["metadata"]["name"] = format!("x{}", source.mutator.random.below(1_000_000)).into();
    }
    if source.mutator.one_in(4) {
        object["metadata"]["labels"] = json!({"a": "b"});
        object["metadata"]["annotations"] = json!({"a": "b"});
        object["metadata"]["finalizers"] = json!(["example.com/f"]);
        object["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]);
    }
    source.mutator.value(&mut object);
    object
}

fn name_of(sample: &Sample) -> &str {
    sample.object["metadata"]["name"].as_str().unwrap_or("base")
}

fn options(mutator: &Mutator<'_>) -> &'static str {
    mutator.text_of(&["", "", "?fieldValidation=Strict", "?fieldValidation=Ignore", "?dryRun=All", "?fieldManager=m"])
}

/// Created, or put in the place of what is there.
fn written(source: &Source<'_>, sample: &Sample, media: &str, body: Vec<u8>) -> Vec<Case> {
    let query = options(&source.mutator);
    vec![if source.mutator.one_in(3) {
        Case::new("PUT", format!("{}/{}{query}", sample.collection, name_of(sample)), media, body)
    } else {
        Case::new("POST", format!("{}{query}", sample.collection), media, body)
    }]
}

pub fn json(source: &Source<'_>) -> Vec<Case> {
    let sample = sample(source);
    let mut body = changed(source, sample).to_string().into_bytes();
    if source.mutator.one_in(3) {
        source.mutator.bytes(&mut body);
    }
    written(source, sample, JSON, body)
}

pub fn yaml(source: &Source<'_>) -> Vec<Case> {
    let sample = sample(source);
    let object = changed(source, sample);
    let mut body = Vec::new();
    block(&object, 0, &mut body);
    if source.mutator.one_in(2) {
        source.mutator.bytes(&mut body);
    }
    written(source, sample, "application/yaml", body)
}

/// A value as YAML's blocks; what has no block is JSON, which is YAML.
fn block(value: &Value, indent: usize, out: &mut Vec<u8>) {
    let margin = " ".repeat(indent);
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, below) in map {
                out.extend(format!("\n{margin}{}:", Value::from(key.as_str())).bytes());
                block(below, indent + 1, out);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for below in list {
                out.extend(format!("\n{margin}-").bytes());
                block(below, indent + 1, out);
            }
        }
        other => out.extend(format!(" {other}").bytes()),
    }
}

pub fn protobuf(source: &Source<'_>) -> Vec<Case> {
    let sample = sample(source);
    let path: Vec<&str> = sample.collection.split('/').collect();
    let version = match path.as_slice() {
        ["", "api", version, ..] => (*version).to_owned(),
        ["", "apis", group, version, ..] => format!("{group}/{version}"),
        _ => String::new(),
    };
    const KINDS: &[&str] = &[
        "ConfigMap",
        "Secret",
        "Pod",
        "Service",
        "Node",
        "Event",
        "Namespace",
        "Deployment",
        "StatefulSet",
        "DaemonSet",
        "ReplicaSet",
        "Job",
        "CronJob",
        "Ingress",
        "NetworkPolicy",
        "Lease",
        "Role",
        "RoleBinding",
        "CustomResourceDefinition",
        "EndpointSlice",
        "StorageClass",
        "DeleteOptions",
        "LimitRange",
        "PersistentVolume",
    ];
    let plural = path.last().copied().unwrap_or_default();
    let own = KINDS.iter().find(|kind| plural.starts_with(&kind.to_lowercase()));
    let kind = own.filter(|_| !source.mutator.one_in(20)).unwrap_or_else(|| source.mutator.pick(KINDS));
    let mut body = messages::envelope(&version, kind, &messages::message(&source.mutator));
    if source.mutator.one_in(3) {
        source.mutator.bytes(&mut body);
    }
    written(source, sample, "application/vnd.kubernetes.protobuf", body)
}

pub fn patches(source: &Source<'_>) -> Vec<Case> {
    let mutator = &source.mutator;
    let sample = sample(source);
    let mut whole = sample.object.clone();
    mutator.value(&mut whole);
    let (media, patch) = match mutator.random.below(4) {
        0 => ("application/json-patch+json", operations(mutator, &sample.object)),
        1 => ("application/merge-patch+json", whole),
        2 => ("application/strategic-merge-patch+json", whole),
        _ => {
            let path: Vec<&str> = sample.collection.split('/').collect();
            let version = if path[1] == "api" { path[2].to_owned() } else { format!("{}/{}", path[2], path[3]) };
            if whole.get("kind").is_none() && whole.is_object() {
                whole["apiVersion"] = version.into();
                whole["kind"] = "ConfigMap".into();
            }
            ("application/apply-patch+yaml", whole)
        }
    };
    let mut body = patch.to_string().into_bytes();
    if mutator.one_in(8) {
        mutator.bytes(&mut body);
    }
    let below =
        mutator.pick(&["", "", "", "/status", "/scale", "/finalize", "/resize", "/approval", "/ephemeralcontainers"]);
    let query = match media {
        "application/apply-patch+yaml" => {
            mutator.pick(&["?fieldManager=a", "?fieldManager=b&force=true", "?fieldManager=a&dryRun=All"])
        }
        _ => options(mutator),
    };
    vec![Case::new("PATCH", format!("{}/{}{below}{query}", sample.collection, name_of(sample)), media, body)]
}

fn operations(mutator: &Mutator<'_>, object: &Value) -> Value {
    let mut places = vec!["/metadata/labels".to_owned(), "/metadata/finalizers/-".to_owned(), "/-".to_owned()];
    pointers(object, "", &mut places);
    let place = || {
        let place = mutator.pick(&places);
        match mutator.random.below(5) {
            0 => mutator.text(place),
            1 => format!("{place}/{}", mutator.word().replace('/', "~1")),
            2 => format!("{place}/{}", mutator.index(5)),
            _ => place.clone(),
        }
    };
    let operation = |_| {
        let name = mutator.pick(&["add", "add", "replace", "remove", "move", "copy", "test", "dance"]);
        let mut operation = json!({"op": name, "path": place(), "from": place(), "value": mutator.odd()});
        if mutator.one_in(10) {
            mutator.value(&mut operation);
        }
        operation
    };
    (0..mutator.random.below(12)).map(operation).collect()
}

pub fn selectors(source: &Source<'_>) -> Vec<Case> {
    let mutator = &source.mutator;
    const LABELS: &[&str] = &[
        "a=b",
        "a!=b,c",
        "!a",
        "a in (b,c)",
        "a notin (b)",
        "a",
        "a==b",
        "x>1",
        "x<2",
        "app.kubernetes.io/name=x",
        "a in ()",
        ",",
    ];
    const FIELDS: &[&str] = &[
        "metadata.name=base",
        "metadata.namespace!=x",
        "spec.nodeName=",
        "status.phase=Running",
        "type=Opaque",
        "involvedObject.kind=Pod",
        "a.b=c\\,d",
        "metadata.name==base",
    ];
    let (mut labels, mut fields) = ((*mutator.pick(LABELS)).to_owned(), (*mutator.pick(FIELDS)).to_owned());
    for _ in 0..mutator.random.below(3) {
        labels = format!("{labels},{}", mutator.pick(LABELS));
        fields = format!("{fields},{}", mutator.pick(FIELDS));
    }
    if !mutator.one_in(4) {
        labels = mutator.text(&labels);
    }
    if !mutator.one_in(4) {
        fields = mutator.text(&fields);
    }
    let query = match mutator.random.below(3) {
        0 => format!("labelSelector={}", encoded(&labels)),
        1 => format!("fieldSelector={}", encoded(&fields)),
        _ => format!("labelSelector={}&fieldSelector={}&limit=2", encoded(&labels), encoded(&fields)),
    };
    let method = if mutator.one_in(50) { "DELETE" } else { "GET" };
    let watch = if mutator.one_in(20) { "&watch=1&timeoutSeconds=1" } else { "" };
    vec![Case::new(method, format!("{}?{query}{watch}", sample(source).collection), JSON, "")]
}

fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Owners' field paths, and the JSON paths of a definition's columns and scale.
pub fn field_paths(source: &Source<'_>) -> Vec<Case> {
    let mutator = &source.mutator;
    if mutator.one_in(2) {
        let step = || {
            const STEPS: &[&str] = &[
                "f:metadata",
                "f:labels",
                "f:data",
                "f:a",
                "k:{\"name\":\"c\"}",
                "k:{\"port\":80,\"protocol\":\"TCP\"}",
                "v:\"x\"",
                "v:1",
                "i:0",
                ".",
                "f:spec",
                "f:containers",
            ];
            if mutator.one_in(3) { mutator.text(mutator.text_of(STEPS)) } else { (*mutator.pick(STEPS)).to_owned() }
        };
        let mut fields = json!({});
        for _ in 0..mutator.random.below(5) {
            let path: Vec<String> = (0..=mutator.random.below(6)).map(|_| step()).collect();
            let branch = path.iter().rev().fold(json!({}), |inner, step| json!({step.as_str(): inner}));
            fields = merged(fields, branch);
        }
        let mut entries = json!([{"manager": "m", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields}]);
        if mutator.one_in(3) {
            mutator.value(&mut entries);
        }
        let map = "/api/v1/namespaces/default/configmaps/base";
        let put = json!({"metadata": {"name": "base", "managedFields": entries}, "data": {"a": "1"}});
        let apply = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "base"}, "data": {"a": mutator.index(3).to_string()}});
        let query = "?fieldManager=f&force=true";
        return vec![
            Case::new("PUT", map, JSON, put.to_string()),
            Case::new("PATCH", format!("{map}{query}"), "application/apply-patch+yaml", apply.to_string()),
        ];
    }
    const PATHS: &[&str] = &[
        ".spec.masts",
        ".spec.crew[0].name",
        ".spec.crew[*].age",
        ".metadata['name']",
        ".spec.crew[?(@.name==\"a\")].age",
        "..name",
        ".spec.crew[-1:]",
        "{.spec.masts}",
        ".spec.free.x[0]",
        "$.spec",
    ];
    let path =
        || if mutator.one_in(4) { (*mutator.pick(PATHS)).to_owned() } else { mutator.text(mutator.text_of(PATHS)) };
    let columns = json!([{"op": "replace", "path": "/spec/versions/0/additionalPrinterColumns", "value": [
        {"name": "A", "type": mutator.pick(&["string", "integer", "date", "number", "boolean"]), "jsonPath": path()}]},
        {"op": "replace", "path": "/spec/versions/0/subresources/scale/specReplicasPath", "value": path()}]);
    let mut table = Case::new("GET", "/apis/example.com/v1/namespaces/default/ships", JSON, "");
    table.headers.push(("accept".to_owned(), b"application/json;as=Table;v=v1;g=meta.k8s.io".to_vec()));
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ships.example.com";
    vec![
        Case::new("PATCH", definition, "application/json-patch+json", columns.to_string()),
        table,
        Case::new("GET", "/apis/example.com/v1/namespaces/default/ships/base/scale", JSON, ""),
    ]
}

fn merged(left: Value, right: Value) -> Value {
    match (left, right) {
        (Value::Object(mut left), Value::Object(right)) => {
            for (key, value) in right {
                let old = left.remove(&key).unwrap_or(json!({}));
                left.insert(key, merged(old, value));
            }
            Value::Object(left)
        }
        (_, right) => right,
    }
}

/// Paths, queries and headers.
pub fn requests(source: &Source<'_>) -> Vec<Case> {
    let mutator = &source.mutator;
    const STEPS: &[&str] = &[
        "api",
        "apis",
        "v1",
        "apps",
        "namespaces",
        "default",
        "pods",
        "base",
        "status",
        "scale",
        "log",
        "exec",
        "attach",
        "portforward",
        "proxy",
        "token",
        "eviction",
        "binding",
        "finalize",
        "approval",
        "nodes",
        "services",
        "configmaps",
        "customresourcedefinitions",
        "apiextensions.k8s.io",
        "example.com",
        "ships",
        "openapi",
        "v2",
        "v3",
        "metrics",
        "healthz",
        "livez",
        "readyz",
        "version",
        "logs",
        "debug",
        ".well-known",
        "openid-configuration",
        "openid",
        "jwks",
        "metrics.k8s.io",
        "v1beta1",
        "watch",
        "",
        ".",
        "..",
        "%2e%2e",
        "%2F",
        "%00",
        "%zz",
        "a%20b",
        "%C3%A9",
    ];
    let path = match mutator.random.below(3) {
        0 => format!("/{}", (0..mutator.random.below(9)).map(|_| *mutator.pick(STEPS)).collect::<Vec<_>>().join("/")),
        1 => format!("{}/{}", sample(source).collection, mutator.pick(STEPS)),
        _ => format!("{}/{}/{}", sample(source).collection, name_of(sample(source)), mutator.pick(STEPS)),
    };
    const KEYS: &[&str] = &[
        "watch",
        "limit",
        "continue",
        "resourceVersion",
        "resourceVersionMatch",
        "sendInitialEvents",
        "allowWatchBookmarks",
        "timeoutSeconds",
        "labelSelector",
        "fieldSelector",
        "fieldManager",
        "fieldValidation",
        "force",
        "dryRun",
        "gracePeriodSeconds",
        "propagationPolicy",
        "orphanDependents",
        "pretty",
        "includeObject",
        "timeout",
        "follow",
        "tailLines",
        "sinceSeconds",
        "sinceTime",
        "limitBytes",
        "container",
        "previous",
        "command",
        "stdin",
        "stdout",
        "tty",
        "path",
        "ports",
        "exclude",
        "verbose",
        "hash",
        "insecureSkipTLSVerifyBackend",
    ];
    const VALUES: &[&str] = &[
        "",
        "0",
        "1",
        "true",
        "false",
        "-1",
        "5",
        "9223372036854775807",
        "18446744073709551615",
        "99999999999999999999",
        "abc",
        "All",
        "NotOlderThan",
        "Exact",
        "Strict",
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0",
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYSJ9",
        "Background",
        "Orphan",
        "%00",
        "%FF",
        "%F0%9F%92%A5",
        "a%3Db",
        "1.5",
        "1e9",
        "None",
        "*",
    ];
    let query: Vec<String> =
        (0..mutator.random.below(5)).map(|_| format!("{}={}", mutator.pick(KEYS), mutator.pick(VALUES))).collect();
    const HEADERS: &[(&str, &str)] = &[
        ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io"),
        ("accept", "application/yaml"),
        ("accept", "application/vnd.kubernetes.protobuf"),
        ("accept", "*/*;q=0"),
        ("accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
        ("accept", "text/html"),
        ("accept-encoding", "gzip"),
        ("authorization", "Bearer x"),
        ("authorization", "Basic eDp5"),
        ("authorization", "Bearer a.b.c"),
        ("impersonate-user", "ann"),
        ("impersonate-group", "system:masters"),
        ("impersonate-uid", "u"),
        ("impersonate-extra-a", "b"),
        ("user-agent", "x/y z"),
        ("if-none-match", "\"x\""),
        ("content-type", "application/json; charset=x"),
        ("content-type", "x"),
        ("content-encoding", "gzip"),
        ("upgrade", "websocket"),
        ("connection", "Upgrade"),
        ("sec-websocket-protocol", "v5.channel.k8s.io"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-version", "13"),
        ("x-stream-protocol-version", "v4.channel.k8s.io"),
        ("pintle-cause", "{}"),
        ("pintle-cause", "x"),
        ("expect", "100-continue"),
        ("range", "bytes=0-"),
    ];
    let mut headers = Vec::new();
    for _ in 0..mutator.random.below(4) {
        let (name, value) = *mutator.pick(HEADERS);
        let mut value = value.as_bytes().to_vec();
        if mutator.one_in(2) {
            mutator.bytes(&mut value);
        }
        headers.push((name.to_owned(), value));
    }
    let method =
        *mutator.pick(&["GET", "GET", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "DANCE"]);
    let body = match mutator.random.below(4) {
        0 => json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": mutator.odd(), "propagationPolicy": mutator.odd(), "preconditions": mutator.odd()}).to_string(),
        1 => mutator.odd().to_string(),
        _ => String::new(),
    };
    let question = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    vec![Case { method, path: format!("{path}{question}"), headers, body: body.into_bytes() }]
}
