//! What a user of ephemeral volumes would lose.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use serde_json::{Value, json};

use super::plan;

fn pod(change: Value) -> Pod {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let template = json!({"metadata": {"labels": {"of": "scratch"}, "annotations": {"why": "space"}}, "spec": spec});
    let mut metadata = json!({"name": "web", "namespace": "shop", "uid": "p"});
    metadata.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    serde_json::from_value(json!({"metadata": metadata, "spec": {"containers": [], "volumes": [
        {"name": "config", "configMap": {"name": "c"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}},
        {"name": "cache", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]}}))
    .unwrap()
}

fn claim(name: &str, owner: &str) -> Arc<PersistentVolumeClaim> {
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": owner, "controller": true}]);
    let claim = json!({"metadata": {"name": name, "namespace": "shop", "ownerReferences": owner}});
    Arc::new(serde_json::from_value(claim).unwrap())
}

fn planned(pod: &Pod, claims: &[Arc<PersistentVolumeClaim>]) -> pintle_runtime::Plan {
    plan::plan(pod, |name| claims.iter().find(|claim| claim.metadata.name.as_deref() == Some(name)).cloned())
}

#[test]
fn a_pod_gets_the_claims_that_are_missing_and_owns_them() {
    let plan = planned(&pod(json!({})), &[]);
    assert_eq!(plan.to_string(), "create persistentvolumeclaims/web-scratch, create persistentvolumeclaims/web-cache");
    let body = plan.writes[0].body();
    assert_eq!(body["metadata"]["labels"], json!({"of": "scratch"}));
    assert_eq!(body["metadata"]["annotations"], json!({"why": "space"}));
    let owner = &body["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["uid"], &owner["controller"]), (&json!("Pod"), &json!("p"), &json!(true)));
    assert_eq!(body["spec"]["resources"]["requests"]["storage"], "1Gi");
    let rest = planned(&pod(json!({})), &[claim("web-scratch", "p")]);
    assert_eq!(rest.to_string(), "create persistentvolumeclaims/web-cache");
}

/// A Pod must not get at the data of a claim that only happens to have the name.
#[test]
fn a_claim_of_somebody_else_is_not_taken() {
    for other in ["q", ""] {
        let plan = planned(&pod(json!({})), &[claim("web-scratch", other), claim("web-cache", "p")]);
        assert_eq!((plan.writes.len(), plan.events[0].reason), (0, "FailedBinding"));
        let message =
            "ephemeral volume scratch: PVC shop/web-scratch was not created for pod shop/web (pod is not owner)";
        assert_eq!(plan.events[0].message, message);
        assert!(plan.again.is_some());
    }
}

#[test]
fn a_pod_on_its_way_out_gets_nothing_more() {
    assert!(planned(&pod(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})), &[]).writes.is_empty());
}
