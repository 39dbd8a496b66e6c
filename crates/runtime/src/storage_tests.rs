//! Which volume a claim gets, and which it must not get.

use super::*;

fn volume(name: &str, spec: Value) -> PersistentVolume {
    let mut all = json!({"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"]});
    for (field, value) in spec.as_object().into_iter().flatten() {
        all[field] = value.clone();
    }
    let metadata = json!({"name": name, "labels": {"tier": name}, "resourceVersion": "7"});
    serde_json::from_value(json!({"metadata": metadata, "spec": all, "status": {"phase": "Available"}})).unwrap()
}

fn claim(spec: Value) -> PersistentVolumeClaim {
    let mut all = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        all[field] = value.clone();
    }
    let metadata = json!({"name": "data", "namespace": "shop", "uid": "u1", "resourceVersion": "9"});
    serde_json::from_value(json!({"metadata": metadata, "spec": all})).unwrap()
}

fn name(volume: Option<&PersistentVolume>) -> &str {
    volume.and_then(|volume| volume.metadata.name.as_deref()).unwrap_or("none")
}

#[test]
fn a_claim_gets_the_volume_that_wastes_least() {
    let size = |size: &str| json!({"capacity": {"storage": size}});
    let cases = [
        (json!({}), vec![("a", size("10Gi")), ("b", size("3Gi")), ("c", size("1Gi"))], "b"),
        (json!({}), vec![("a", size("1Gi"))], "none"),
        (json!({}), vec![("b", size("3Gi")), ("a", size("3Gi"))], "a"),
        // More ways of access are a greater waste than more room.
        (
            json!({}),
            vec![
                ("a", json!({"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce", "ReadWriteMany"]})),
                ("b", size("9Gi")),
            ],
            "b",
        ),
        (json!({"accessModes": ["ReadWriteMany"]}), vec![("a", json!({}))], "none"),
        (json!({"storageClassName": "fast"}), vec![("a", json!({})), ("b", json!({"storageClassName": "fast"}))], "b"),
        (json!({"storageClassName": ""}), vec![("a", json!({"storageClassName": "fast"})), ("b", json!({}))], "b"),
        (json!({"volumeMode": "Block"}), vec![("a", json!({})), ("b", json!({"volumeMode": "Block"}))], "b"),
        (json!({"volumeMode": "Filesystem"}), vec![("a", json!({}))], "a"),
        (json!({"selector": {"matchLabels": {"tier": "b"}}}), vec![("a", json!({})), ("b", json!({}))], "b"),
        (json!({}), vec![("a", json!({"claimRef": {"namespace": "shop", "name": "other"}}))], "none"),
    ];
    for (spec, volumes, expected) in cases {
        let volumes: Vec<PersistentVolume> = volumes.into_iter().map(|(name, spec)| volume(name, spec)).collect();
        assert_eq!(name(smallest(&claim(spec.clone()), &volumes)), expected, "{spec}");
    }
    let mut going = volume("a", json!({}));
    going.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert_eq!(name(smallest(&claim(json!({})), [&going])), "none");
    let mut released = volume("a", json!({}));
    released.status.as_mut().unwrap().phase = Some("Released".into());
    assert_eq!(name(smallest(&claim(json!({})), [&released])), "none", "what a former owner wrote is still there");
}

#[test]
fn a_volume_that_is_reserved_for_a_claim_is_no_one_elses() {
    for (holder, is_held) in [
        (json!({"namespace": "shop", "name": "data"}), true),
        (json!({"namespace": "shop", "name": "data", "uid": "u1"}), true),
        (json!({"namespace": "shop", "name": "data", "uid": "the one before"}), false),
        (json!({"namespace": "other", "name": "data"}), false),
        (json!({"namespace": "shop", "name": "logs"}), false),
    ] {
        // A person may reserve a volume of any class.
        let volume = volume("v", json!({"claimRef": holder, "storageClassName": "fast"}));
        assert_eq!(held(&claim(json!({})), [&volume]).is_some(), is_held, "{holder}");
    }
    let small = volume("v", json!({"claimRef": {"namespace": "shop", "name": "data"}, "capacity": {"storage": "1Gi"}}));
    assert!(held(&claim(json!({})), [&small]).is_none());
}

#[test]
fn a_claim_is_told_why_it_cannot_have_the_volume_it_names() {
    for (spec, expected) in [
        (json!({}), None),
        (json!({"capacity": {"storage": "1Gi"}}), Some("requested PV is too small")),
        (json!({"storageClassName": "fast"}), Some("storageClassName does not match")),
        (json!({"volumeAttributesClassName": "gold"}), Some("volumeAttributesClassName does not match")),
        (json!({"volumeMode": "Block"}), Some("incompatible volumeMode")),
        (json!({"accessModes": ["ReadOnlyMany"]}), Some("incompatible accessMode")),
    ] {
        assert_eq!(mismatch(&volume("v", spec.clone()), &claim(json!({}))).as_deref(), expected, "{spec}");
    }
}

#[test]
fn a_reservation_says_who_made_it_and_is_made_once() {
    let claim = claim(json!({}));
    let free = reservation(&volume("v", json!({})), &claim).unwrap();
    assert_eq!(free["metadata"]["resourceVersion"], "7");
    assert_eq!(free["metadata"]["annotations"][BOUND_BY_CONTROLLER], "yes");
    assert_eq!(free["spec"]["claimRef"]["uid"], "u1");
    // A person reserved it: only the UID is missing, and no loop may take it back.
    let named = volume("v", json!({"claimRef": {"namespace": "shop", "name": "data"}}));
    let patch = reservation(&named, &claim).unwrap();
    assert_eq!((patch["spec"]["claimRef"]["uid"].as_str(), patch["metadata"].get("annotations")), (Some("u1"), None));
    let bound = volume("v", json!({"claimRef": {"namespace": "shop", "name": "data", "uid": "u1"}}));
    assert_eq!(reservation(&bound, &claim), None);
}
