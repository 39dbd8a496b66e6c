//! What a user of storage would lose.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use serde_json::{Value, json};

use super::plan;

fn claim(change: Value) -> PersistentVolumeClaim {
    let mut metadata = json!({"name": "data", "uid": "c", "resourceVersion": "3", "finalizers": [plan::CLAIM]});
    metadata.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

fn deleted() -> Value {
    json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})
}

fn pod(phase: &str, node: &str, claim: &str) -> Pod {
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
    let spec = json!({"containers": [], "nodeName": node, "volumes": volumes});
    serde_json::from_value(json!({"spec": spec, "status": {"phase": phase}})).unwrap()
}

/// The finalizers that the plan leaves; none if it writes nothing.
fn left(plan: pintle_runtime::Plan) -> Option<Value> {
    plan.writes.first().map(|write| write.body()["metadata"]["finalizers"].clone())
}

#[test]
fn a_claim_is_kept_while_a_node_may_have_it_mounted() {
    let cases = [
        (vec![], true),
        (vec![pod("Running", "n1", "data")], false),
        (vec![pod("Pending", "", "data")], true),
        (vec![pod("Succeeded", "n1", "data")], false),
        (vec![pod("Running", "n1", "other")], true),
    ];
    for (pods, may_go) in cases {
        let plan = plan::of_claim(&claim(deleted()), pods.iter());
        assert_eq!(left(plan), may_go.then(|| json!([])), "{pods:?}");
        assert_eq!(left(plan::of_claim(&claim(json!({})), pods.iter())), None, "nobody deleted it");
    }
}

#[test]
fn the_claim_of_an_ephemeral_volume_is_kept_for_its_own_pod_until_that_is_shut_down() {
    let volumes = json!([{"name": "v", "ephemeral": {}}]);
    let pod = |change: Value| -> Pod {
        let mut metadata = json!({"name": "web", "uid": "p"});
        metadata.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let spec = json!({"containers": [], "nodeName": "n1", "volumes": volumes});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    };
    let owned_by = |uid: &str| {
        let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid, "controller": true}]);
        claim(json!({"name": "web-v", "deletionTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": owner}))
    };
    let shut_down = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0});
    assert_eq!(left(plan::of_claim(&owned_by("p"), [pod(json!({}))].iter())), None);
    assert_eq!(left(plan::of_claim(&owned_by("other"), [pod(json!({}))].iter())), Some(json!([])));
    assert_eq!(left(plan::of_claim(&owned_by("p"), [pod(shut_down)].iter())), Some(json!([])));
}

#[test]
fn a_claim_from_before_the_protection_is_protected_too() {
    let plan = plan::of_claim(&claim(json!({"finalizers": ["example.com/own"]})), [].iter());
    let write = &plan.writes[0];
    assert_eq!(write.body()["metadata"]["resourceVersion"], "3", "finalizers of others are not lost");
    assert_eq!(left(plan), Some(json!(["example.com/own", plan::CLAIM])));
}

#[test]
fn a_bound_volume_is_kept() {
    let volume = |status: Value| -> PersistentVolume {
        let metadata = json!({"name": "v", "finalizers": [plan::VOLUME], "deletionTimestamp": "2026-01-01T00:00:00Z"});
        serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
    };
    assert_eq!(left(plan::of_volume(&volume(json!({"phase": "Bound"})))), None);
    assert_eq!(left(plan::of_volume(&volume(json!({"phase": "Released"})))), Some(json!([])));
    assert_eq!(left(plan::of_volume(&volume(json!({})))), Some(json!([])));
}
