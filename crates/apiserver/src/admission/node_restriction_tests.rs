//! What one node could do to others, and must not.

use super::*;
use serde_json::json;

/// A change, and what is said of it.
type Case = (fn(&mut Value), &'static str);

#[test]
fn a_node_keeps_its_taints_and_the_labels_that_people_trust() {
    let old = json!({"metadata": {"name": "a", "labels": {"team": "x"}}, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
    let with = |change: fn(&mut Value)| {
        let mut node = old.clone();
        change(&mut node);
        own_node("a", Some(&old), &node).err().unwrap_or_default()
    };
    assert_eq!(with(|_| {}), "");
    assert_eq!(with(|n| n["metadata"]["labels"]["kubernetes.io/hostname"] = "a".into()), "");
    assert_eq!(with(|n| n["metadata"]["labels"]["x.node.kubernetes.io/y"] = "a".into()), "");
    assert_eq!(with(|n| n["metadata"]["labels"]["team"] = "y".into()), "");
    assert_eq!(with(|n| n["spec"]["taints"] = json!([])), "node \"a\" is not allowed to modify taints");
    assert_eq!(
        with(|n| n["metadata"]["labels"]["node-restriction.kubernetes.io/x"] = "1".into()),
        "is not allowed to modify labels: node-restriction.kubernetes.io/x"
    );
    assert_eq!(
        with(|n| n["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = "".into()),
        "is not allowed to modify labels: node-role.kubernetes.io/control-plane"
    );
    assert_eq!(with(|n| n["metadata"]["name"] = "b".into()), "node \"a\" is not allowed to modify node \"b\"");
}

#[test]
fn a_mirror_pod_stands_for_a_pod_of_its_own_node_and_opens_nothing() {
    let pod = json!({"metadata": {"name": "p-a", "annotations": {MIRROR: "h"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "u", "controller": true}]},
        "spec": {"nodeName": "a", "containers": [{"name": "c"}]}});
    let with = |change: fn(&mut Value)| {
        let mut pod = pod.clone();
        change(&mut pod);
        mirror("a", "u", &pod).err().unwrap_or_default()
    };
    assert_eq!(with(|_| {}), "");
    let table: [Case; 6] = [
        (|p| p["metadata"]["annotations"] = json!({}), "can only create mirror pods"),
        (|p| p["spec"]["nodeName"] = "b".into(), "spec.nodeName set to itself"),
        (|p| p["metadata"]["ownerReferences"] = json!([]), "with an owner reference set to itself"),
        (|p| p["metadata"]["ownerReferences"][0]["uid"] = "x".into(), "UID mismatch"),
        (|p| p["metadata"]["ownerReferences"][0]["controller"] = false.into(), "controller owner reference"),
        (|p| p["spec"]["volumes"] = json!([{"secret": {"secretName": "s"}}]), "reference secrets"),
    ];
    for (change, expected) in table {
        assert!(with(change).contains(expected), "{} does not say {expected}", with(change));
    }
}

#[test]
fn a_node_speaks_only_of_its_own_pods() {
    let pod =
        |node: &str| json!({"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"nodeName": node}, "status": {}});
    assert_eq!(status("a", Some(&pod("a")), &pod("a")), Ok(()));
    assert!(status("a", Some(&pod("b")), &pod("b")).is_err());
    let mut relabelled = pod("a");
    relabelled["metadata"]["labels"]["a"] = "c".into();
    assert!(status("a", Some(&pod("a")), &relabelled).is_err());
}

#[test]
fn a_token_is_given_for_the_audience_that_the_pod_names() {
    let pod = json!({"spec": {"volumes": [{"projected": {"sources": [{"serviceAccountToken": {"audience": "vault"}}]}},
        {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]}});
    assert!(names_audience(&pod, "vault"));
    assert!(names_audience(&pod, ""));
    assert!(!names_audience(&pod, "other"));
}
