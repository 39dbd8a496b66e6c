//! What clients accept, and what they then get.

use super::negotiate::{Offer, Shape, Wanted};
use super::{Items, List, ListWriter, Notation, gzip};
use bytes::Bytes;
use flate2::read::GzDecoder;
use futures::StreamExt;
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use pintle_schema::protobuf;
use serde_json::json;
use std::io::Read;

const BUILT_IN: Offer = Offer { tables: true, metadata: true, protobuf: true, aggregated: false };
const CUSTOM: Offer = Offer { protobuf: false, ..BUILT_IN };

fn wanted(accept: &str, offer: Offer) -> Option<(Shape, Notation)> {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, accept.parse().unwrap());
    Wanted::negotiate(&headers, offer).ok().map(|wanted| (wanted.shape, wanted.notation))
}

#[test]
fn the_accept_header_chooses_shape_and_notation() {
    use Notation::{Json, Protobuf, Yaml};
    use Shape::{Aggregated, Object, PartialMetadata, Table};
    let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
    let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    let client_go = "application/vnd.kubernetes.protobuf,application/json";
    let table_in_protobuf = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1";
    let cases = [
        (kubectl, BUILT_IN, Some((Table, Json))),
        (kubectl, Offer { tables: false, ..BUILT_IN }, Some((Object, Json))),
        (client_go, BUILT_IN, Some((Object, Protobuf))),
        (client_go, CUSTOM, Some((Object, Json))),
        ("application/vnd.kubernetes.protobuf", CUSTOM, None),
        ("application/vnd.kubernetes.protobuf;stream=watch", BUILT_IN, Some((Object, Protobuf))),
        ("application/vnd.kubernetes.protobuf;stream=other", BUILT_IN, None),
        (metadata, CUSTOM, Some((PartialMetadata, Protobuf))),
        (table_in_protobuf, BUILT_IN, None),
        ("application/json;q=0.5, application/vnd.kubernetes.protobuf", BUILT_IN, Some((Object, Protobuf))),
        ("application/json, application/vnd.kubernetes.protobuf;q=0.9", BUILT_IN, Some((Object, Json))),
        ("*/*, application/yaml;q=0.1", BUILT_IN, Some((Object, Yaml))),
        ("application/*", BUILT_IN, Some((Object, Json))),
        ("*/*", BUILT_IN, Some((Object, Json))),
        ("", BUILT_IN, Some((Object, Json))),
        ("application/yaml", BUILT_IN, Some((Object, Yaml))),
        ("text/html", BUILT_IN, None),
        ("application/json;v=v1", BUILT_IN, None),
        (
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
            Offer::DISCOVERY,
            Some((Aggregated, Json)),
        ),
        (
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
            BUILT_IN,
            Some((Object, Json)),
        ),
    ];
    for (accept, offer, expected) in cases {
        assert_eq!(wanted(accept, offer), expected, "{accept}");
    }
}

#[test]
fn an_endless_accept_header_is_not_sorted_for_ever() {
    let many = (0..100_000).map(|i| format!("a/b;q=0.{i:06}")).collect::<Vec<_>>().join(",");
    assert_eq!(wanted(&many, BUILT_IN), None);
}

#[test]
fn every_notation_says_the_same() {
    let metadata = json!({"resourceVersion": "7"});
    let list = List {
        kind: "ConfigMapList",
        api_version: "v1",
        metadata: &metadata,
        items: Items::Objects { type_name: "core.v1.ConfigMap", cut: crate::codec::head("ConfigMap", "v1").len() },
    };
    let item = br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"k":"v"}}"#;
    let whole = |notation: Notation| {
        let mut writer = ListWriter::new(notation, &list, 1000).unwrap();
        writer.item(item).unwrap();
        writer.item(item).unwrap();
        writer.finish().unwrap().concat()
    };
    let expected: serde_json::Value = serde_json::from_slice(&whole(Notation::Json)).unwrap();
    assert_eq!(expected["items"].as_array().map(Vec::len), Some(2));
    let yaml: serde_json::Value = serde_saphyr::from_slice(&whole(Notation::Yaml)).unwrap();
    assert_eq!(yaml, expected);
    let bytes = whole(Notation::Protobuf);
    let envelope = protobuf::open(&bytes).unwrap();
    assert_eq!((envelope.kind, envelope.api_version), ("ConfigMapList", "v1"));
    let message = protobuf::decode("core.v1.ConfigMapList", envelope.raw).unwrap();
    assert_eq!((&message["items"], &message["metadata"]), (&expected["items"], &expected["metadata"]));
    // The same list, made from its JSON.
    assert_eq!(Notation::Protobuf.value(&expected).unwrap().len(), bytes.len());
    assert_eq!(Notation::Protobuf.object(Bytes::from(whole(Notation::Json))).unwrap().len(), bytes.len());
}

#[test]
fn a_watch_event_about_what_has_no_message_is_an_error_event() {
    let event = Notation::Protobuf.watch_event("ADDED", br#"{"kind":"Widget","apiVersion":"example.com/v1"}"#);
    assert_eq!(u32::from_be_bytes(event[..4].try_into().unwrap()) as usize, event.len() - 4);
    assert_eq!(event[4..11], *b"\x0A\x05ERROR");
    let line = Notation::Json.watch_event("ADDED", b"{}");
    assert_eq!(line, "{\"type\":\"ADDED\",\"object\":{}}\n");
    assert_eq!(Notation::Yaml.stream_media_type().unwrap_err().code, 406);
}

#[tokio::test]
async fn a_compressed_answer_reads_as_it_was() {
    let text: Vec<u8> = (0..1_000_000u32).flat_map(|i| (i / 100).to_le_bytes()).collect();
    let body = gzip::compress(gzip::in_pieces(Bytes::from(text.clone())));
    let compressed = body.collect().await.unwrap().to_bytes();
    assert!(compressed.len() < text.len() / 2);
    let mut back = Vec::new();
    GzDecoder::new(&compressed[..]).read_to_end(&mut back).unwrap();
    assert_eq!(back, text);
    assert_eq!(gzip::in_pieces(Bytes::new()).count().await, 0);
}
