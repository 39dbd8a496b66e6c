//! Answers in the notation that a client asks for: protobuf as client-go speaks it, JSON where there is no message, gzip.

use flate2::read::GzDecoder;
use pintle_apiserver::authn::User;
use pintle_apiserver::request::Peer;
use pintle_schema::protobuf::{self, envelope::Body};
use pintle_testkit::{Answer, Cluster};
use serde_json::{Value, json};
use std::io::Read;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

async fn ask(cluster: &Cluster, accept: &str, (method, path): (&str, &str), (media, body): (&str, Vec<u8>)) -> Answer {
    let admin = Peer::Internal(User::internal("kubernetes-admin").into());
    cluster.request_as(admin, &[("accept", accept)], method, path, media, body).await
}

async fn get(cluster: &Cluster, accept: &str, path: &str) -> Answer {
    ask(cluster, accept, ("GET", path), ("", Vec::new())).await
}

fn media_type(answer: &Answer) -> &str {
    answer.headers["content-type"].to_str().unwrap()
}

/// What a body says, with its kind.
fn opened(type_name: &str, bytes: &[u8]) -> (String, Value) {
    let envelope = protobuf::open(bytes).unwrap_or_else(|error| panic!("{type_name}: {error}"));
    let value = protobuf::decode(type_name, envelope.raw).unwrap_or_else(|error| panic!("{type_name}: {error}"));
    (format!("{} {}", envelope.api_version, envelope.kind), value)
}

fn sealed(object: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let body = Body { api_version: "v1", kind: "ConfigMap", type_name: "core.v1.ConfigMap" };
    body.seal(object.to_string().as_bytes(), &mut out).unwrap();
    out
}

/// The events of a watch: their types, and the bodies that they carry.
fn events(mut stream: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut events = Vec::new();
    while let Some((length, rest)) = stream.split_at_checked(4) {
        let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
        let (frame, rest) = rest.split_at(length);
        stream = rest;
        // The type, then a message with the body in its only field. Both are found by what they must look like.
        let kind = String::from_utf8(frame[2..2 + usize::from(frame[1])].to_vec()).unwrap();
        let body = frame.windows(4).position(|part| part == b"k8s\0").expect("an event has a body");
        events.push((kind, frame[body..].to_vec()));
    }
    events
}

#[tokio::test(start_paused = true)]
async fn a_protobuf_client_creates_reads_patches_lists_and_watches() {
    let cluster = Cluster::bare().await;
    let before = get(&cluster, "", MAPS).await.body["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let object =
        json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "v"}, "binaryData": {"b": "AAEC"}});
    let created = ask(&cluster, PROTOBUF, ("POST", MAPS), (PROTOBUF, sealed(&object))).await;
    assert_eq!((created.code, media_type(&created)), (201, PROTOBUF), "{}", created.body);
    let (kind, value) = opened("core.v1.ConfigMap", &created.bytes);
    assert_eq!(
        (kind.as_str(), &value["data"], &value["binaryData"]),
        ("v1 ConfigMap", &object["data"], &object["binaryData"])
    );
    assert!(value["metadata"]["uid"].is_string() && value["metadata"]["creationTimestamp"].is_string());
    assert!(value["metadata"]["managedFields"][0]["fieldsV1"]["f:data"].is_object(), "{value}");

    let path = format!("{MAPS}/a");
    let patch = ("application/merge-patch+json", br#"{"data":{"k":"w"}}"#.to_vec());
    let patched = ask(&cluster, PROTOBUF, ("PATCH", &path), patch).await;
    assert_eq!(opened("core.v1.ConfigMap", &patched.bytes).1["data"]["k"], "w");
    let read = get(&cluster, PROTOBUF, &path).await;
    assert_eq!(read.bytes, patched.bytes);
    let in_json = get(&cluster, "application/json", &path).await;
    let (_, mut same) = opened("core.v1.ConfigMap", &read.bytes);
    (same["kind"], same["apiVersion"]) = ("ConfigMap".into(), "v1".into());
    assert_eq!(same, in_json.body);

    let listed = get(&cluster, PROTOBUF, MAPS).await;
    let (kind, list) = opened("core.v1.ConfigMapList", &listed.bytes);
    assert_eq!(kind, "v1 ConfigMapList");
    assert!(list["items"].as_array().unwrap().iter().any(|item| item["metadata"]["name"] == "a"));
    assert!(list["metadata"]["resourceVersion"].is_string());

    let watched = get(
        &cluster,
        &format!("{PROTOBUF};stream=watch"),
        &format!("{MAPS}?watch=1&timeoutSeconds=2&resourceVersion={before}&allowWatchBookmarks=true"),
    )
    .await;
    assert_eq!(media_type(&watched), "application/vnd.kubernetes.protobuf;stream=watch");
    let seen: Vec<(String, String)> = events(&watched.bytes)
        .iter()
        .filter(|(kind, _)| kind != "BOOKMARK")
        .map(|(kind, body)| {
            (kind.clone(), opened("core.v1.ConfigMap", body).1["data"]["k"].as_str().unwrap_or_default().to_owned())
        })
        .collect();
    assert_eq!(seen, [("ADDED".to_owned(), "v".to_owned()), ("MODIFIED".to_owned(), "w".to_owned())]);

    let deleted = ask(&cluster, PROTOBUF, ("DELETE", &path), ("", Vec::new())).await;
    let (kind, status) = opened("meta.v1.Status", &deleted.bytes);
    assert_eq!((kind.as_str(), &status["status"]), ("v1 Status", &json!("Success")));
}

#[tokio::test(start_paused = true)]
async fn errors_are_told_in_protobuf_too() {
    let cluster = Cluster::bare().await;
    let missing = get(&cluster, "application/vnd.kubernetes.protobuf,application/json", &format!("{MAPS}/none")).await;
    assert_eq!((missing.code, media_type(&missing)), (404, PROTOBUF));
    let (_, status) = opened("meta.v1.Status", &missing.bytes);
    assert_eq!((&status["reason"], &status["code"]), (&json!("NotFound"), &json!(404)));
    assert_eq!(status["details"], json!({"name": "none", "kind": "configmaps"}));
    let broken =
        ask(&cluster, PROTOBUF, ("POST", MAPS), (PROTOBUF, b"k8s\0\x12\x05\x12\x03\x0A\x7F\x01".to_vec())).await;
    assert_eq!((broken.code, media_type(&broken)), (400, PROTOBUF));
    let expired = get(&cluster, PROTOBUF, &format!("{MAPS}?watch=1&resourceVersion=99999999")).await;
    assert_eq!(media_type(&expired), PROTOBUF, "{}", expired.body);
    // Whoever accepts no error gets it as JSON.
    let only_metadata = get(&cluster, METADATA, &format!("{MAPS}/none")).await;
    assert_eq!((only_metadata.code, media_type(&only_metadata)), (404, "application/json"));
}

#[tokio::test(start_paused = true)]
async fn custom_kinds_are_json_and_their_metadata_is_protobuf() {
    let cluster = Cluster::bare().await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "ships.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "ships", "kind": "Ship"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "additionalProperties": {"type": "string"}},
                    "size": {"x-kubernetes-int-or-string": true, "default": 5, "maximum": 10}}}}}],
        },
    });
    cluster.create(definition).await.unwrap();
    let (path, definitions) =
        ("/apis/example.com/v1/namespaces/default/ships", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions");
    let ship = json!({"apiVersion": "example.com/v1", "kind": "Ship", "metadata": {"name": "s"}, "spec": {"a": "b"}});
    ask(&cluster, "", ("POST", path), ("application/json", ship.to_string().into_bytes())).await;
    let refused = get(&cluster, PROTOBUF, path).await;
    assert_eq!((refused.code, media_type(&refused)), (406, PROTOBUF));
    let both = get(&cluster, "application/vnd.kubernetes.protobuf, application/json", path).await;
    assert_eq!((both.code, &both.body["kind"]), (200, &json!("ShipList")));
    let metadata = get(&cluster, METADATA, path).await;
    let (kind, list) = opened("meta.v1.PartialObjectMetadataList", &metadata.bytes);
    assert_eq!(
        (kind.as_str(), &list["items"][0]["metadata"]["name"]),
        ("meta.k8s.io/v1 PartialObjectMetadataList", &json!("s"))
    );
    // Their definitions are a built-in kind.
    let one = get(&cluster, PROTOBUF, &format!("{definitions}/ships.example.com")).await;
    let (_, definition) = opened("apiextensions.v1.CustomResourceDefinition", &one.bytes);
    let in_json = get(&cluster, "", &format!("{definitions}/ships.example.com")).await.body;
    assert_eq!((&definition["metadata"], &definition["spec"]), (&in_json["metadata"], &in_json["spec"]));
}

#[tokio::test(start_paused = true)]
async fn tables_have_no_protobuf_and_watches_no_yaml() {
    let cluster = Cluster::bare().await;
    let table = format!("{PROTOBUF};as=Table;g=meta.k8s.io;v=v1");
    assert_eq!(get(&cluster, &table, MAPS).await.code, 406);
    let shown = get(&cluster, &format!("{table},application/json;as=Table;g=meta.k8s.io;v=v1"), MAPS).await;
    assert_eq!(shown.body["kind"], "Table");
    let watch = get(&cluster, "application/yaml", &format!("{MAPS}?watch=1&timeoutSeconds=1")).await;
    assert_eq!(watch.code, 406);
    let listed = get(&cluster, "application/yaml", MAPS).await;
    assert!(media_type(&listed) == "application/yaml" && listed.bytes.starts_with(b"apiVersion: v1"));
}

#[tokio::test(start_paused = true)]
async fn every_built_in_kind_is_listed_and_discovered_in_protobuf() {
    let cluster = Cluster::builder().start().await;
    let mut versions = vec!["/api/v1".to_owned()];
    let groups = get(&cluster, PROTOBUF, "/apis").await;
    let (_, groups) = opened("meta.v1.APIGroupList", &groups.bytes);
    for version in groups["groups"].as_array().unwrap().iter().flat_map(|group| group["versions"].as_array().unwrap()) {
        versions.push(format!("/apis/{}", version["groupVersion"].as_str().unwrap()));
    }
    let mut listed = 0;
    for version in versions.iter().filter(|version| !version.contains("metrics.k8s.io")) {
        let resources = get(&cluster, PROTOBUF, version).await;
        let (_, resources) = opened("meta.v1.APIResourceList", &resources.bytes);
        for resource in resources["resources"].as_array().unwrap() {
            let can_list = resource["verbs"].as_array().unwrap().iter().any(|verb| verb == "list");
            if !can_list || resource["name"] == "componentstatuses" {
                continue;
            }
            let path = format!("{version}/{}", resource["name"].as_str().unwrap());
            let answer = get(&cluster, PROTOBUF, &path).await;
            assert_eq!((answer.code, media_type(&answer)), (200, PROTOBUF), "{path}: {}", answer.body);
            let envelope = protobuf::open(&answer.bytes).unwrap();
            let in_json = get(&cluster, "", &path).await.body;
            assert_eq!(
                (envelope.kind, envelope.api_version),
                (in_json["kind"].as_str().unwrap(), in_json["apiVersion"].as_str().unwrap())
            );
            let type_name = pintle_apiserver::catalogue::type_name(
                envelope.api_version.split_once('/').map_or("", |(group, _)| group),
                envelope.api_version.rsplit('/').next().unwrap(),
                envelope.kind,
            );
            let list = protobuf::decode(&type_name, envelope.raw).unwrap();
            let items = |list: &Value| list["items"].as_array().map_or(0, Vec::len);
            assert_eq!(items(&list), items(&in_json), "{path}");
            for (item, other) in
                list["items"].as_array().into_iter().flatten().zip(in_json["items"].as_array().unwrap())
            {
                assert_eq!(item["metadata"], other["metadata"], "{path}");
            }
            listed += 1;
        }
    }
    assert!(listed > 50, "{listed}");
}

#[tokio::test(start_paused = true)]
async fn long_lists_are_compressed_for_who_accepts_it() {
    let cluster = Cluster::bare().await;
    for i in 0..40 {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{i}"), "namespace": "default"}, "data": {"k": "v".repeat(10_000)}});
        cluster.create(map).await.unwrap();
    }
    let admin = || Peer::Internal(User::internal("kubernetes-admin").into());
    for accept in ["application/json", PROTOBUF, "application/yaml"] {
        let headers = [("accept", accept), ("accept-encoding", "deflate, gzip")];
        let answer = cluster.request_as(admin(), &headers, "GET", MAPS, "", "").await;
        assert_eq!(answer.headers["content-encoding"], "gzip", "{accept}");
        assert_eq!(answer.headers["vary"], "Accept-Encoding");
        let mut whole = Vec::new();
        GzDecoder::new(&answer.bytes[..]).read_to_end(&mut whole).unwrap();
        assert_eq!(whole, get(&cluster, accept, MAPS).await.bytes, "{accept}");
        assert!(answer.bytes.len() < whole.len() / 10);
        let short = cluster.request_as(admin(), &headers, "GET", &format!("{MAPS}?limit=2"), "", "").await;
        assert!(!short.headers.contains_key("content-encoding"));
        if accept != "application/yaml" {
            let watch = format!("{MAPS}?watch=1&timeoutSeconds=1");
            let watch = cluster.request_as(admin(), &headers, "GET", &watch, "", "").await;
            assert!(!watch.headers.contains_key("content-encoding") && watch.bytes.len() > 400_000);
        }
    }
}
