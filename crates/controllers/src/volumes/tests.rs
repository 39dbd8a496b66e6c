//! What people who keep data in a cluster would lose.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use pintle_runtime::storage;
use serde_json::{Value, json};

use super::plan::{self, Around, ClaimVerdict, Reclaim, VolumeVerdict};

fn merged(mut base: Value, extra: &Value) -> Value {
    for (field, value) in extra.as_object().into_iter().flatten() {
        base[field] = value.clone();
    }
    base
}

fn volume(name: &str, spec: Value, phase: &str) -> Arc<PersistentVolume> {
    let spec = merged(json!({"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"]}), &spec);
    let metadata = json!({"name": name, "uid": format!("uid-{name}"), "resourceVersion": "3"});
    Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}})).unwrap())
}

fn claim(spec: Value, annotations: Value) -> PersistentVolumeClaim {
    let asked = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}});
    let metadata = json!({"name": "data", "namespace": "shop", "uid": "u1", "resourceVersion": "4",
        "annotations": annotations});
    let claim = json!({"metadata": metadata, "spec": merged(asked, &spec), "status": {"phase": "Pending"}});
    serde_json::from_value(claim).unwrap()
}

fn class(name: &str, provisioner: &str, mode: &str, is_default: bool) -> Arc<StorageClass> {
    let annotations = json!({"storageclass.kubernetes.io/is-default-class": is_default.to_string()});
    let class = json!({"metadata": {"name": name, "annotations": annotations}, "provisioner": provisioner,
        "volumeBindingMode": mode});
    Arc::new(serde_json::from_value(class).unwrap())
}

/// What is decided, in a few words.
fn verdict(claim: &PersistentVolumeClaim, volumes: &[Arc<PersistentVolume>], classes: &[Arc<StorageClass>]) -> String {
    let waiting = [];
    match plan::judge_claim(claim, &Around { volumes, classes, waiting: &waiting }) {
        ClaimVerdict::Bind(volume) => format!("bind {}", volume.metadata.name.as_deref().unwrap()),
        ClaimVerdict::Classify(class) => format!("class {class}"),
        ClaimVerdict::Provision(provisioner) => format!("ask {provisioner}"),
        ClaimVerdict::Wait(None) => "wait".to_owned(),
        ClaimVerdict::Wait(Some(note)) => format!("wait, {}: {}", note.reason, note.message),
        ClaimVerdict::Lost(note) => format!("lost, {}", note.reason),
    }
}

#[test]
fn a_claim_finds_a_volume_or_says_what_it_waits_for() {
    let free = volume("free", json!({}), "Available");
    let reserved = volume("reserved", json!({"claimRef": {"namespace": "shop", "name": "data"}}), "Available");
    let taken = volume("taken", json!({"claimRef": {"namespace": "shop", "name": "other", "uid": "u2"}}), "Bound");
    let small = volume("small", json!({"capacity": {"storage": "1Gi"}}), "Available");
    let local = volume("local", json!({"storageClassName": "local"}), "Available");
    let held = volume(
        "held",
        json!({"storageClassName": "local",
        "claimRef": {"namespace": "shop", "name": "data", "uid": "u1"}}),
        "Available",
    );
    let classes = [
        class("local", storage::NO_PROVISIONER, "WaitForFirstConsumer", false),
        class("outside", "example.com/disk", "Immediate", false),
        class("later", "example.com/disk", "WaitForFirstConsumer", false),
        class("inside", storage::NO_PROVISIONER, "Immediate", false),
    ];
    let of = |class: &str| json!({"storageClassName": class});
    let none = json!({});
    let chosen = json!({storage::SELECTED_NODE: "n"});
    let waits = "wait, WaitForFirstConsumer: waiting for first consumer to be created before binding";
    for (spec, annotations, volumes, expected) in [
        (json!({}), &none, vec![&free], "bind free"),
        (json!({}), &none, vec![&free, &reserved], "bind reserved"),
        (json!({"volumeName": "free"}), &none, vec![&reserved, &free], "bind free"),
        (json!({"volumeName": "reserved"}), &none, vec![&reserved], "bind reserved"),
        (json!({"volumeName": "later"}), &none, vec![&free], "wait"),
        (
            json!({"volumeName": "small"}),
            &none,
            vec![&small],
            "wait, VolumeMismatch: Cannot bind to requested volume \"small\": requested PV is too small",
        ),
        (
            json!({"volumeName": "taken"}),
            &none,
            vec![&taken],
            "wait, FailedBinding: volume \"taken\" already bound to a different claim.",
        ),
        (
            json!({}),
            &none,
            vec![&taken, &small, &local],
            "wait, FailedBinding: no persistent volumes available for this claim and no storage class is set",
        ),
        // Where the first Pod goes decides.
        (of("local"), &none, vec![&local], waits),
        (of("local"), &none, vec![&local, &held], "bind held"),
        (of("later"), &none, vec![], waits),
        (of("later"), &chosen, vec![], "ask example.com/disk"),
        (of("outside"), &none, vec![&free], "ask example.com/disk"),
        (
            of("inside"),
            &none,
            vec![],
            "wait, ProvisioningFailed: no volume plugin matched name: kubernetes.io/no-provisioner",
        ),
        (of("gone"), &none, vec![], "wait, ProvisioningFailed: storageclass.storage.k8s.io \"gone\" not found"),
    ] {
        let volumes: Vec<_> = volumes.into_iter().cloned().collect();
        assert_eq!(verdict(&claim(spec.clone(), annotations.clone()), &volumes, &classes), expected, "{spec}");
    }
}

#[test]
fn a_claim_that_leaves_its_class_open_gets_the_default_of_later_too() {
    let default = [class("plain", "example.com/disk", "Immediate", true), class("other", "x.io/y", "Immediate", false)];
    assert_eq!(verdict(&claim(json!({}), json!({})), &[], &default), "class plain");
    let free = [volume("free", json!({}), "Available")];
    assert_eq!(verdict(&claim(json!({}), json!({})), &free, &default), "bind free", "a volume is better than a class");
    let without = claim(json!({"storageClassName": ""}), json!({}));
    assert!(verdict(&without, &[], &default).starts_with("wait, FailedBinding"), "it said that it wants none");
}

#[test]
fn a_claim_that_loses_its_volume_says_so() {
    let done = json!({storage::BIND_COMPLETED: "yes"});
    let named = json!({"volumeName": "v"});
    let holder = |uid: &str| json!({"claimRef": {"namespace": "shop", "name": "data", "uid": uid}});
    for (spec, volumes, expected) in [
        (json!({}), vec![], "lost, ClaimLost"),
        (named.clone(), vec![], "lost, ClaimLost"),
        (named.clone(), vec![volume("v", holder("u2"), "Bound")], "lost, ClaimMisbound"),
        (named.clone(), vec![volume("v", holder("u1"), "Bound")], "bind v"),
        (named.clone(), vec![volume("v", json!({}), "Available")], "bind v"),
    ] {
        assert_eq!(verdict(&claim(spec, done.clone()), &volumes, &[]), expected);
    }
}

#[test]
fn a_waiting_claim_names_the_pods_that_wait_with_it() {
    let classes = [class("local", storage::NO_PROVISIONER, "WaitForFirstConsumer", false)];
    let claim = claim(json!({"storageClassName": "local"}), json!({}));
    for (waiting, expected) in [
        (vec!["a".to_owned()], "waiting for pod a to be scheduled"),
        (vec!["a".to_owned(), "b".to_owned()], "waiting for pods a,b to be scheduled"),
    ] {
        let around = Around { volumes: &[], classes: &classes, waiting: &waiting };
        let ClaimVerdict::Wait(Some(note)) = plan::judge_claim(&claim, &around) else { panic!("it waits") };
        assert_eq!((note.reason, note.message.as_str()), ("WaitForPodScheduled", expected));
    }
}

#[test]
fn a_volume_is_given_up_only_when_its_own_claim_is_gone() {
    let holder = |uid: &str| json!({"claimRef": {"namespace": "shop", "name": "data", "uid": uid}});
    let bound = |name: &str| claim(json!({"volumeName": name}), json!({}));
    for (spec, claim, expected) in [
        (json!({}), None, VolumeVerdict::Phase("Available")),
        (holder(""), None, VolumeVerdict::Phase("Available")),
        (holder("u1"), Some(bound("v")), VolumeVerdict::Phase("Bound")),
        (holder("u1"), Some(bound("")), VolumeVerdict::Await(None)),
        (holder("u1"), Some(bound("other")), VolumeVerdict::Unbind),
        (holder("u1"), None, VolumeVerdict::Release),
        // Another claim of the same name is not the one whose data it holds.
        (holder("u0"), Some(bound("v")), VolumeVerdict::Release),
    ] {
        assert_eq!(plan::judge_volume(&volume("v", spec.clone(), "Bound"), claim.as_ref()), expected, "{spec}");
    }
    let device = volume("v", merged(holder("u1"), &json!({"volumeMode": "Block"})), "Available");
    let VolumeVerdict::Await(Some([of_volume, of_claim])) = plan::judge_volume(&device, Some(&bound(""))) else {
        panic!("it waits")
    };
    assert!(of_volume.message.contains("\"data\" due to incompatible volumeMode."), "{of_volume:?}");
    assert!(of_claim.message.contains("\"v\" to requested"), "{of_claim:?}");
}

#[test]
fn nothing_is_removed_but_directories_made_to_be() {
    let host = |path: &str| json!({"hostPath": {"path": path}, "persistentVolumeReclaimPolicy": "Delete"});
    let removed = |path: &str| format!("remove {path}");
    let refused = |path: &str| {
        format!("VolumeFailedDelete: host_path deleter only supports /tmp/.+ but received provided {path}")
    };
    for (spec, expected) in [
        (json!({"hostPath": {"path": "/tmp/x"}}), "keep".to_owned()),
        (json!({"hostPath": {"path": "/tmp/x"}, "persistentVolumeReclaimPolicy": "Retain"}), "keep".to_owned()),
        (host("/tmp/x"), removed("/tmp/x")),
        (host("/tmp/x/y"), removed("/tmp/x/y")),
        (host("/tmp"), refused("/tmp")),
        (host("/tmp/"), refused("/tmp/")),
        (host("/tmp/../etc"), refused("/tmp/../etc")),
        (host("/srv/tmp/x"), refused("/srv/tmp/x")),
        (host("tmp/x"), refused("tmp/x")),
        (
            json!({"local": {"path": "/tmp/x"}, "persistentVolumeReclaimPolicy": "Delete"}),
            "VolumeFailedDelete: error getting deleter volume plugin for volume \"v\": no deletable volume plugin matched"
                .to_owned(),
        ),
        (
            json!({"csi": {"driver": "d", "volumeHandle": "h"}, "persistentVolumeReclaimPolicy": "Delete"}),
            "leave".to_owned(),
        ),
        (
            json!({"hostPath": {"path": "/tmp/x"}, "persistentVolumeReclaimPolicy": "Recycle"}),
            "VolumeFailedRecycle: No recycler plugin found for the volume!".to_owned(),
        ),
    ] {
        let said = match plan::reclaim(&volume("v", spec.clone(), "Released")) {
            Reclaim::Keep => "keep".to_owned(),
            Reclaim::LeaveToMaker => "leave".to_owned(),
            Reclaim::Remove(path) => removed(&path.display().to_string()),
            Reclaim::Fail(note) => format!("{}: {}", note.reason, note.message),
        };
        assert_eq!(said, expected, "{spec}");
    }
}

#[test]
fn a_binding_is_written_once_on_each_side() {
    let bound = volume("v", json!({"accessModes": ["ReadWriteOnce", "ReadWriteMany"]}), "Bound");
    let mut claim = claim(json!({}), json!({}));
    let side = plan::completion(&claim, &bound).unwrap();
    assert_eq!(side["spec"]["volumeName"], "v");
    assert_eq!(
        side["metadata"]["annotations"],
        json!({storage::BIND_COMPLETED: "yes", storage::BOUND_BY_CONTROLLER: "yes"})
    );
    let status = plan::bound_status(&claim, &bound).unwrap()["status"].clone();
    assert_eq!(
        status,
        json!({"phase": "Bound", "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce", "ReadWriteMany"]})
    );
    claim.spec.as_mut().unwrap().volume_name = Some("v".into());
    // The user named it: nobody but the user may take it back.
    let side = plan::completion(&claim, &bound).unwrap();
    assert_eq!((side.get("spec"), &side["metadata"]["annotations"]), (None, &json!({storage::BIND_COMPLETED: "yes"})));
    claim.metadata.annotations = Some([(storage::BIND_COMPLETED.to_owned(), "yes".to_owned())].into());
    claim.status = serde_json::from_value(status).unwrap();
    assert_eq!((plan::completion(&claim, &bound), plan::bound_status(&claim, &bound)), (None, None));
    let lost = plan::unbound_status(&claim, "Lost").unwrap()["status"].clone();
    assert_eq!(lost, json!({"phase": "Lost", "capacity": null, "accessModes": null}));
}

#[test]
fn what_a_person_reserved_stays_reserved_when_it_is_unbound() {
    let mut held = volume("v", json!({"claimRef": {"namespace": "shop", "name": "data", "uid": "u1"}}), "Bound");
    assert_eq!(plan::unbinding(&held)["spec"], json!({"claimRef": {"uid": null}}));
    let marks = [(storage::BOUND_BY_CONTROLLER.to_owned(), "yes".to_owned())];
    Arc::get_mut(&mut held).unwrap().metadata.annotations = Some(marks.into());
    assert_eq!(plan::unbinding(&held)["spec"], json!({"claimRef": null}));
}

#[tokio::test]
async fn a_link_does_not_lead_the_removal_out_of_its_place() {
    let place = std::path::PathBuf::from(format!("/tmp/pintle-host-path-{}", std::process::id()));
    std::fs::create_dir_all(place.join("data/deep")).unwrap();
    std::fs::write(place.join("data/deep/file"), "x").unwrap();
    std::os::unix::fs::symlink("/var", place.join("link")).unwrap();
    assert!(super::host_path::remove(&place.join("link/lib")).await.is_err());
    super::host_path::remove(&place.join("link")).await.unwrap();
    super::host_path::remove(&place.join("data")).await.unwrap();
    super::host_path::remove(&place.join("data")).await.unwrap();
    assert!(std::path::Path::new("/var").exists() && !place.join("data").exists());
    std::fs::remove_dir(&place).unwrap();
}
