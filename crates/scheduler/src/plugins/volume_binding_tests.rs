//! Where Pods with claims go, and what they are told.

use std::sync::Arc;

use pintle_runtime::Key;
use serde_json::{Value, json};

use super::super::testing::verdicts;
use super::*;
use crate::testing::{node, pod};

const NO_VOLUME: &str = "node(s) didn't find available persistent volumes to bind";
const ELSEWHERE: &str = "node(s) didn't match PersistentVolume's node affinity";

/// Two nodes, and a class whose claims wait for their first Pod.
fn cache() -> Cache {
    let mut cache = Cache::default();
    for name in ["a", "b"] {
        cache.set_node(node(name, json!({})));
    }
    for (name, provisioner) in [("local", "kubernetes.io/no-provisioner"), ("disk", "example.com/disk")] {
        let zone = json!([{"matchLabelExpressions": [{"key": "kubernetes.io/hostname", "values": ["b"]}]}]);
        let class = json!({"metadata": {"name": name}, "provisioner": provisioner, "allowedTopologies": zone,
            "volumeBindingMode": "WaitForFirstConsumer"});
        cache.storage.set_class(name, Some(Arc::new(serde_json::from_value(class).unwrap())));
    }
    cache
}

fn add_claim(cache: &mut Cache, name: &str, spec: Value, annotations: Value) {
    let mut asked = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        asked[field] = value.clone();
    }
    let metadata = json!({"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "annotations": annotations});
    let claim = serde_json::from_value(json!({"metadata": metadata, "spec": asked})).unwrap();
    cache.storage.set_claim(Key::new("shop", name), Some(Arc::new(claim)));
}

/// A volume of the class `local` that only one node reaches.
fn add_volume(cache: &mut Cache, name: &str, node: &str, holder: Option<&str>) {
    let terms = json!([{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]);
    let mut volume = json!({"metadata": {"name": name}, "status": {"phase": "Available"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}});
    if let Some(claim) = holder {
        volume["spec"]["claimRef"] = json!({"namespace": "shop", "name": claim, "uid": format!("uid-{claim}")});
    }
    cache.storage.set_volume(name, Some(Arc::new(serde_json::from_value(volume).unwrap())));
}

fn using(name: &str, claims: &[&str]) -> Arc<PodInfo> {
    let volumes: Vec<Value> =
        claims.iter().map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}})).collect();
    pod(name, json!({"volumes": volumes}))
}

fn bound(volume: &str) -> (Value, Value) {
    (json!({"volumeName": volume}), json!({"pv.kubernetes.io/bind-completed": "yes"}))
}

#[test]
fn a_pod_goes_where_its_volume_is() {
    let mut cache = cache();
    let (spec, annotations) = bound("here");
    add_claim(&mut cache, "data", spec, annotations.clone());
    add_volume(&mut cache, "here", "b", Some("data"));
    assert_eq!(verdicts(&VolumeBinding, &using("p", &["data"]), &cache), [ELSEWHERE, ""]);
    let (spec, annotations) = bound("gone");
    add_claim(&mut cache, "data", spec, annotations);
    let gone = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
    assert_eq!(verdicts(&VolumeBinding, &using("p", &["data"]), &cache), [gone, gone]);
    assert_eq!(verdicts(&VolumeBinding, &using("p", &[]), &cache), ["", ""]);
}

#[test]
fn a_pod_is_told_what_is_wrong_with_its_claims() {
    let mut cache = cache();
    add_claim(&mut cache, "unbound", json!({"storageClassName": ""}), json!({}));
    add_claim(&mut cache, "half", json!({"volumeName": "v", "storageClassName": "local"}), json!({}));
    let immediate = "pod has unbound immediate PersistentVolumeClaims";
    for (claim, expected) in
        [("unbound", immediate), ("half", immediate), ("missing", "persistentvolumeclaim \"missing\" not found")]
    {
        let refusal = VolumeBinding.refusal(&using("p", &[claim]), &cache);
        assert_eq!(refusal.as_deref(), Some(expected));
    }
    let made = pod("p", json!({"volumes": [{"name": "scratch", "ephemeral": {}}]}));
    let waits = "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-scratch\"";
    assert_eq!(VolumeBinding.refusal(&made, &cache).as_deref(), Some(waits));
    add_claim(&mut cache, "p-scratch", json!({"storageClassName": "local"}), json!({}));
    assert!(VolumeBinding.refusal(&made, &cache).is_some_and(|why| why.contains("was not created for pod")));
}

#[test]
fn the_first_pod_of_a_claim_decides_which_volume_it_gets() {
    let mut cache = cache();
    let local = || json!({"storageClassName": "local"});
    for name in ["one", "two"] {
        add_claim(&mut cache, name, local(), json!({}));
    }
    assert_eq!(verdicts(&VolumeBinding, &using("p", &["one"]), &cache), [NO_VOLUME, NO_VOLUME]);
    add_volume(&mut cache, "v1", "b", None);
    let first = using("first", &["one"]);
    assert_eq!(verdicts(&VolumeBinding, &first, &cache), [NO_VOLUME, ""]);
    assert_eq!(
        verdicts(&VolumeBinding, &using("p", &["one", "two"]), &cache),
        [NO_VOLUME, NO_VOLUME],
        "one is not two"
    );
    let choice = cache.storage.choice_for(&first, cache.node("b").unwrap());
    assert_eq!((choice.bindings.len(), choice.provisions.len()), (1, 0));
    cache.storage.assume(&choice, "b");
    // It is taken before anything is written, and free again if that fails.
    assert_eq!(verdicts(&VolumeBinding, &using("second", &["two"]), &cache), [NO_VOLUME, NO_VOLUME]);
    assert_eq!(verdicts(&VolumeBinding, &first, &cache), [NO_VOLUME, ""]);
    cache.storage.forget(&choice);
    assert_eq!(verdicts(&VolumeBinding, &using("second", &["two"]), &cache), [NO_VOLUME, ""]);
    // Written, and then lost: the next scheduler finds it held.
    add_volume(&mut cache, "v1", "b", Some("one"));
    add_volume(&mut cache, "v2", "a", None);
    assert_eq!(verdicts(&VolumeBinding, &first, &cache), [NO_VOLUME, ""]);
    assert_eq!(verdicts(&VolumeBinding, &using("second", &["two"]), &cache), ["", NO_VOLUME]);
}

#[test]
fn a_volume_that_is_asked_for_is_asked_for_on_one_node() {
    let mut cache = cache();
    add_claim(&mut cache, "data", json!({"storageClassName": "disk"}), json!({}));
    let user = using("p", &["data"]);
    assert_eq!(verdicts(&VolumeBinding, &user, &cache), [NO_VOLUME, ""], "the class serves node b alone");
    let choice = cache.storage.choice_for(&user, cache.node("b").unwrap());
    assert_eq!((choice.bindings.len(), choice.provisions.len()), (0, 1));
    for (node, expected) in [("b", [NO_VOLUME, ""]), ("a", [NO_VOLUME, NO_VOLUME])] {
        let annotations = json!({"volume.kubernetes.io/selected-node": node});
        add_claim(&mut cache, "data", json!({"storageClassName": "disk"}), annotations);
        assert_eq!(verdicts(&VolumeBinding, &user, &cache), expected, "{node}");
    }
}
