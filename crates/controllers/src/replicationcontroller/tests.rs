//! What a user of a ReplicationController would lose.

use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use kube::Resource;
use pintle_runtime::owner;
use serde_json::{Value, json};

use crate::replicaset::Replicated;

fn controller(change: Value) -> ReplicationController {
    let mut object = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "rc"},
        "spec": {"selector": {"app": "web"}, "template": {"metadata": {"labels": {"app": "web"}}}}});
    for (key, value) in change.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

#[test]
fn it_takes_in_pods_by_their_labels_and_keeps_one_unless_told_otherwise() {
    let pod: Pod =
        serde_json::from_value(json!({"metadata": {"name": "a", "labels": {"app": "web", "x": "y"}}})).unwrap();
    let controller = controller(json!({}));
    assert!(owner::matches(&controller.selector().unwrap(), pod.meta()));
    assert_eq!((controller.wanted(), controller.min_ready_seconds()), (1, 0));
    assert_eq!(self::controller(json!({"replicas": 0, "minReadySeconds": 7})).wanted(), 0);
}

#[test]
fn what_is_known_to_fail_stays_known() {
    let mut controller = controller(json!({}));
    let status = json!({"replicas": 2, "conditions": [
        {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota",
         "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    controller.status = Some(serde_json::from_value(status.clone()).unwrap());
    assert_eq!(serde_json::to_value(Replicated::status(&controller).unwrap()).unwrap(), status);
}
