//! What a set would lose if its history were kept wrongly.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Value, json};

use super::*;

fn template(image: &str) -> PodTemplateSpec {
    serde_json::from_value(json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": image, "resources": {}}]}}))
    .unwrap()
}

fn revision(name: &str, number: i64, image: &str) -> Arc<ControllerRevision> {
    Arc::new(ControllerRevision {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some(RawExtension(data_of(&template(image)))),
        revision: number,
    })
}

fn set(name: &str) -> StatefulSet {
    serde_json::from_value(
        json!({"metadata": {"name": name, "namespace": "shop", "uid": "u", "annotations": {"a": "b"}},
        "spec": {"selector": {}, "template": {}}}),
    )
    .unwrap()
}

#[test]
fn a_revision_is_what_kubernetes_own_controllers_would_have_written() {
    let data = data_of(&template("a<b"));
    // Keys are sorted, and `$` comes before letters.
    let text = r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"image":"a\u003cb","name":"c","resources":{}}]}}}}"#;
    assert_eq!(escaped(&data.to_string()), text);
    assert_eq!(data_hash(&template("a<b"), 0), pintle_rules::hash::revision_hash(text.as_bytes(), Some(0)));
    assert_eq!(template_in(&revision("r", 1, "a<b")), Some(template("a<b")));
}

#[test]
fn fields_that_older_versions_spell_out_make_no_new_revision() {
    let mut old = data_of(&template("a"));
    old["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
    let old = ControllerRevision { data: Some(RawExtension(old)), ..ControllerRevision::default() };
    assert!(is_of(&old, &template("a")));
    assert!(!is_of(&old, &template("b")));
    assert!(!is_of(&ControllerRevision::default(), &template("a")), "data that cannot be read is no template");
}

#[test]
fn a_name_that_another_template_has_is_passed_over_and_counted() {
    let hash_of = |collisions: i32| format!("h{collisions}");
    let place = |taken: &[(&str, &str)], collisions: i32| {
        let taken: Vec<_> = taken.iter().map(|(name, image)| revision(name, 1, image)).collect();
        let named = |name: &str| taken.iter().find(|revision| super::name(revision) == name).cloned();
        match super::place(&set("web").metadata, &template("new"), collisions, hash_of, named) {
            Place::Free(proposal) => format!("{} after {}", proposal.name, proposal.collisions),
            Place::Taken(revision) => format!("{} is there", super::name(&revision)),
        }
    };
    assert_eq!(place(&[], 0), "web-h0 after 0");
    assert_eq!(place(&[], 3), "web-h3 after 3");
    assert_eq!(place(&[("web-h0", "other"), ("web-h1", "another")], 0), "web-h2 after 2");
    assert_eq!(place(&[("web-h0", "other"), ("web-h1", "new")], 0), "web-h1 is there");
    assert_eq!(revision_name(&"x".repeat(253), "hash").len(), LONGEST_PREFIX + 5);
}

#[test]
fn a_revision_belongs_to_its_set_and_is_labelled_like_its_pods() {
    let proposal = Proposal { hash: "h".into(), name: "web-h".into(), collisions: 0 };
    let body = creation(&set("web"), &template("a"), 7, &proposal, "hash").body();
    assert_eq!(body["metadata"]["labels"], json!({"app": "web", "hash": "h"}));
    assert_eq!(body["metadata"]["annotations"], json!({"a": "b"}));
    assert_eq!(body["metadata"]["ownerReferences"][0]["kind"], "StatefulSet");
    assert_eq!((&body["metadata"]["name"], &body["revision"]), (&json!("web-h"), &json!(7)));
}

#[test]
fn only_the_oldest_revisions_that_nothing_uses_go() {
    let mut revisions =
        vec![revision("c", 3, "c"), revision("a", 1, "a"), revision("b", 2, "b"), revision("b0", 2, "d")];
    sort(&mut revisions);
    assert_eq!(revisions.iter().map(|revision| name(revision)).collect::<Vec<_>>(), ["a", "b", "b0", "c"]);
    assert_eq!((next_number(&revisions), next_number(&[])), (4, 1));
    let gone = |in_use: &[&str], limit: Option<i32>| -> Vec<String> {
        let in_use: BTreeSet<&str> = in_use.iter().copied().collect();
        surplus(&revisions, &in_use, limit).map(|revision| name(revision).to_owned()).collect()
    };
    assert_eq!(gone(&["c"], Some(1)), ["a", "b"]);
    assert_eq!(gone(&["a", "c"], Some(1)), ["b"]);
    assert_eq!(gone(&["a", "c"], Some(0)), ["b", "b0"]);
    assert!(gone(&["c"], None).is_empty(), "ten are kept");
    assert!(gone(&[], Some(-1)).is_empty(), "a limit below zero is none");
}
