//! What a user of storage would lose.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use serde_json::{Value, json};

use super::plan;

fn claim(deleted: bool) -> PersistentVolumeClaim {
    let mut metadata = json!({"name": "data", "finalizers": [plan::CLAIM]});
    if deleted {
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

fn pod(phase: &str, claim: &str) -> Pod {
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
    serde_json::from_value(json!({"spec": {"containers": [], "volumes": volumes}, "status": {"phase": phase}})).unwrap()
}

#[test]
fn a_claim_in_use_is_kept_until_its_last_pod_is_over() {
    for (pods, may_go) in [
        (vec![], true),
        (vec![pod("Running", "data")], false),
        (vec![pod("Pending", "data"), pod("Succeeded", "data")], false),
        (vec![pod("Succeeded", "data"), pod("Failed", "data")], true),
        (vec![pod("Running", "other")], true),
    ] {
        assert_eq!(plan::claim_may_go(&claim(true), pods.iter()), may_go);
        assert!(!plan::claim_may_go(&claim(false), pods.iter()), "nobody deleted it");
    }
}

#[test]
fn a_bound_volume_is_kept() {
    let volume = |status: Value| -> PersistentVolume {
        let metadata = json!({"name": "v", "finalizers": [plan::VOLUME], "deletionTimestamp": "2026-01-01T00:00:00Z"});
        serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
    };
    assert!(!plan::volume_may_go(&volume(json!({"phase": "Bound"}))));
    assert!(plan::volume_may_go(&volume(json!({"phase": "Released"}))));
    assert!(plan::volume_may_go(&volume(json!({}))));
}
