//! What a machine that joins would lose, and what a stranger must not win.

use std::collections::BTreeSet;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use super::plan::{Step, may_serve, steps};
use crate::csr::{Asked, CLIENT, NODE_CLIENT, NODE_SERVING, refusal};

/// Made with OpenSSL: CN=system:node:a, O=system:nodes, with IP 10.0.0.1 and DNS a where it says so.
const FOR_CLIENT: &str = include_str!("testdata/client.b64");
const FOR_SERVING: &str = include_str!("testdata/serving.b64");
/// The same with a second common name, system:node:b.
const FOR_TWO: &str = include_str!("testdata/two_names.b64");

fn request(signer: &str, user: &str, usage: &str, pem: &str) -> CertificateSigningRequest {
    serde_json::from_value(json!({"metadata": {"name": "r"}, "spec": {"signerName": signer, "username": user,
        "usages": ["digital signature", usage], "request": pem.trim()}}))
    .unwrap()
}

fn node(addresses: &[(&str, &str)]) -> Node {
    let addresses: Vec<_> = addresses.iter().map(|(kind, text)| json!({"type": kind, "address": text})).collect();
    serde_json::from_value(json!({"metadata": {"name": "a"}, "status": {"addresses": addresses}})).unwrap()
}

#[test]
fn a_request_is_read_whole() {
    let asked = Asked::of(&request(NODE_SERVING, "u", "server auth", FOR_SERVING)).unwrap();
    assert_eq!((asked.node(), asked.organizations.as_slice()), (Some("a"), ["system:nodes".to_owned()].as_slice()));
    assert_eq!((asked.names.join(" "), asked.addresses[0].to_string()), ("a".to_owned(), "10.0.0.1".to_owned()));
}

#[test]
fn who_joins_and_who_renews_are_asked_for_different_rights() {
    let asks = |user: &str| {
        let steps = steps(&request(NODE_CLIENT, user, "client auth", FOR_CLIENT), None, &BTreeSet::new());
        let subresources = steps.iter().map(|step| match step {
            Step::Ask { subresource, .. } => *subresource,
            Step::Approve(_) => "at once",
        });
        subresources.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(asks("system:bootstrap:abcdef"), "nodeclient");
    assert_eq!(asks("system:node:a"), "selfnodeclient nodeclient");
}

#[test]
fn a_node_serves_under_its_own_names_and_no_others() {
    let is_approved = |user: &str, node: Option<&Node>| {
        !steps(&request(NODE_SERVING, user, "server auth", FOR_SERVING), node, &BTreeSet::new()).is_empty()
    };
    let own = node(&[("InternalIP", "10.0.0.1"), ("Hostname", "a")]);
    assert!(is_approved("system:node:a", Some(&own)));
    assert!(!is_approved("system:node:b", Some(&own)));
    assert!(!is_approved("system:node:a", None));
    assert!(!is_approved("system:node:a", Some(&node(&[("InternalIP", "10.0.0.2"), ("Hostname", "a")]))));
}

#[test]
fn a_node_cannot_pose_as_the_api_server_or_as_another_node() {
    let request = request(NODE_SERVING, "system:node:a", "server auth", FOR_SERVING);
    let own = node(&[("InternalIP", "10.0.0.1"), ("Hostname", "a")]);
    let others = BTreeSet::from(["10.0.0.1".to_owned()]);
    assert!(steps(&request, Some(&own), &others).is_empty(), "an address that another node has");
    let asks = |names: &[&str], addresses: &[&str]| {
        let name = |text: &&str| (*text).to_owned();
        let node_name = names.first().copied().unwrap_or("a");
        let own: Vec<(&str, &str)> = names.iter().chain(addresses).map(|address| ("ExternalDNS", *address)).collect();
        let mut node = node(&own);
        node.metadata.name = Some(node_name.to_owned());
        let asked = Asked {
            names: names.iter().map(name).collect(),
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
            ..Asked::default()
        };
        may_serve(&node, &BTreeSet::new(), &asked)
    };
    assert!(asks(&["worker-1.example.com"], &["10.0.0.1", "fd00::1"]));
    for name in [
        "kubernetes",
        "kubernetes.default",
        "Kubernetes.Default.svc",
        "kubernetes.default.svc.cluster.local",
        "web.shop.svc",
        "web.shop.svc.",
        "localhost",
    ] {
        assert!(!asks(&[name], &[]), "{name}");
    }
    assert!(!asks(&["a", "b"], &[]), "a second name, though its status has it");
    for address in ["10.96.0.1", "10.100.3.4", "::ffff:10.96.0.1", "0.0.0.0", "224.0.0.1"] {
        assert!(!asks(&["a"], &[address]), "{address}");
    }
}

#[test]
fn a_request_with_two_common_names_is_for_nobody() {
    let two = request(NODE_CLIENT, "system:node:a", "client auth", FOR_TWO);
    assert_eq!(Asked::of(&two), None);
    assert!(steps(&two, None, &BTreeSet::new()).is_empty());
}

#[test]
fn what_was_decided_is_left_alone() {
    let mut csr = request(NODE_CLIENT, "system:node:a", "client auth", FOR_CLIENT);
    csr.status = serde_json::from_value(json!({"conditions": [{"type": "Denied", "status": "True"}]})).unwrap();
    assert!(steps(&csr, None, &BTreeSet::new()).is_empty());
}

#[test]
fn a_signer_refuses_what_is_not_for_it() {
    let client = Asked::of(&request(NODE_CLIENT, "u", "client auth", FOR_CLIENT)).unwrap();
    let serving = Asked::of(&request(NODE_SERVING, "u", "server auth", FOR_SERVING)).unwrap();
    let admin = Asked { common_name: "me".to_owned(), ..Asked::default() };
    let usages = |own: &str| vec!["digital signature".to_owned(), own.to_owned()];
    for (signer, asked, usage, refused) in [
        (NODE_CLIENT, &client, "client auth", false),
        (NODE_CLIENT, &client, "server auth", true),
        (NODE_CLIENT, &serving, "client auth", true),
        (NODE_CLIENT, &admin, "client auth", true),
        (NODE_SERVING, &serving, "server auth", false),
        (NODE_SERVING, &client, "server auth", true),
        (CLIENT, &admin, "client auth", false),
        (CLIENT, &admin, "server auth", true),
        (CLIENT, &admin, "cert sign", true),
    ] {
        assert_eq!(refusal(signer, asked, &usages(usage)).is_some(), refused, "{signer} {usage} {asked:?}");
    }
}
