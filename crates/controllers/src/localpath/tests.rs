//! What a user of the cluster's own volumes would lose.

use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};

use super::LocalVolumes;
use super::directories::Directories;
use super::plan::{self, Around, ClaimStep, VolumeStep};

const UID: &str = "6c0d3c9e-9d5f-4f7e-8a39-8f5a8c6a5b11";

fn here() -> LocalVolumes {
    LocalVolumes::Below { directory: "/data/volumes".into(), node: "laptop".to_owned() }
}

fn node(name: &str) -> Arc<Node> {
    let labels = json!({"kubernetes.io/hostname": format!("{name}.lan")});
    Arc::new(serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap())
}

fn class(change: Value) -> StorageClass {
    let mut class = json!({"metadata": {"name": "local-path"}, "provisioner": "pintle.dev/local-path",
        "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer"});
    class.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    serde_json::from_value(class).unwrap()
}

fn asked_of(provisioner: &str, node: Option<&str>) -> Value {
    json!({"volume.kubernetes.io/storage-provisioner": provisioner, "volume.kubernetes.io/selected-node": node})
}

fn claim(annotations: Value, spec: Value, status: Value) -> PersistentVolumeClaim {
    let mut whole = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "local-path",
        "resources": {"requests": {"storage": "1Gi"}}});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let annotations: Value =
        annotations.as_object().unwrap().clone().into_iter().filter(|(_, value)| !value.is_null()).collect();
    let metadata =
        json!({"name": "data", "namespace": "shop", "uid": UID, "resourceVersion": "7", "annotations": annotations});
    serde_json::from_value(json!({"metadata": metadata, "spec": whole, "status": status})).unwrap()
}

fn judged(claim: &PersistentVolumeClaim, place: &LocalVolumes, class: &StorageClass) -> String {
    let nodes = [node("laptop"), node("other")];
    match plan::claim(claim, &Around { place, class: Some(class), volume: None, nodes: &nodes }) {
        ClaimStep::Nothing => "nothing".to_owned(),
        ClaimStep::Do(plan) => {
            plan.events[0].message.replace("failed to provision volume with StorageClass \"local-path\": ", "")
        }
        ClaimStep::Make { name, plan } => format!("{name}: {plan}"),
    }
}

#[test]
fn a_claim_gets_a_directory_once_its_pod_has_a_node() {
    let ours = |node| asked_of("pintle.dev/local-path", node);
    let made = format!("pvc-{UID}: check persistentvolumeclaims/data, create persistentvolumes/pvc-{UID}");
    let immediate = json!({"volumeBindingMode": "Immediate"});
    let one_machine = "a directory of one node supports ReadWriteOnce and ReadWriteOncePod alone, not ReadWriteMany";
    // The claim's annotations and spec, the class; what is done.
    let cases = [
        (ours(None), json!({}), json!({}), "nothing"),
        (ours(Some("laptop")), json!({}), json!({}), made.as_str()),
        (ours(None), json!({}), immediate.clone(), &made),
        (
            ours(Some("other")),
            json!({}),
            json!({}),
            "volumes are made on node \"laptop\" alone, and the Pod goes to \"other\"",
        ),
        (asked_of("example.com/disks", Some("laptop")), json!({}), json!({}), "nothing"),
        (ours(Some("laptop")), json!({}), json!({"provisioner": "example.com/disks"}), "nothing"),
        (ours(Some("laptop")), json!({"volumeName": "mine"}), json!({}), "nothing"),
        (ours(Some("laptop")), json!({"volumeMode": "Block"}), json!({}), "a directory is no block device"),
        (ours(Some("laptop")), json!({"accessModes": ["ReadWriteOncePod"]}), json!({}), &made),
        (ours(Some("laptop")), json!({"accessModes": ["ReadWriteOnce", "ReadWriteMany"]}), json!({}), one_machine),
        (ours(Some("laptop")), json!({"selector": {}}), json!({}), "claim.spec.selector is not supported"),
        (
            ours(Some("laptop")),
            json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "other"}}),
            json!({}),
            "volumes cannot be filled from snapshots or other claims",
        ),
    ];
    for (annotations, spec, change, expected) in cases {
        let claim = claim(annotations.clone(), spec.clone(), json!({}));
        assert_eq!(judged(&claim, &here(), &class(change)), expected, "{annotations} {spec}");
    }
    let elsewhere = claim(ours(Some("other")), json!({}), json!({}));
    assert_eq!(judged(&elsewhere, &LocalVolumes::Simulated, &class(json!({}))), made);
    let nowhere = claim(ours(Some("gone")), json!({}), json!({}));
    assert_eq!(judged(&nowhere, &LocalVolumes::Simulated, &class(json!({}))), "nothing");
}

#[test]
fn a_volume_says_where_it_is_and_whose() {
    let claim = claim(asked_of("pintle.dev/local-path", Some("laptop")), json!({}), json!({}));
    let (place, nodes) = (here(), [node("laptop")]);
    let class = class(json!({"reclaimPolicy": "Retain"}));
    let around = Around { place: &place, class: Some(&class), volume: None, nodes: &nodes };
    let ClaimStep::Make { plan, .. } = plan::claim(&claim, &around) else { panic!("a volume is made") };
    let volume = plan.writes[1].body();
    let spec = &volume["spec"];
    assert_eq!(spec["local"]["path"], format!("/data/volumes/pvc-{UID}"));
    assert_eq!((&spec["capacity"]["storage"], &spec["storageClassName"]), (&json!("1Gi"), &json!("local-path")));
    assert_eq!(spec["persistentVolumeReclaimPolicy"], "Retain");
    let reference =
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data", "uid": UID});
    assert_eq!(spec["claimRef"], reference);
    let term = &spec["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0];
    assert_eq!(term, &json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["laptop.lan"]}));
    assert_eq!(volume["metadata"]["annotations"], json!({"pv.kubernetes.io/provisioned-by": "pintle.dev/local-path"}));
}

fn volume(change: Value) -> PersistentVolume {
    let name = format!("pvc-{UID}");
    let mut volume = json!({
        "metadata": {"name": name, "uid": "v", "resourceVersion": "9", "finalizers": ["kubernetes.io/pv-protection", "pintle.dev/local-path"],
            "annotations": {"pv.kubernetes.io/provisioned-by": "pintle.dev/local-path"}},
        "spec": {"capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {"namespace": "shop", "name": "data", "uid": UID}, "local": {"path": format!("/data/volumes/{name}")}},
        "status": {"phase": "Released"}});
    merge(&mut volume, change);
    serde_json::from_value(volume).unwrap()
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            from.into_iter().for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value));
        }
        (into, from) => *into = from,
    }
}

#[test]
fn a_directory_goes_when_its_claim_is_gone_and_never_otherwise() {
    let (deleted, removed) =
        (format!("delete persistentvolumes/pvc-{UID}"), format!("patch persistentvolumes/pvc-{UID}"));
    let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    let keep = json!({"persistentVolumeReclaimPolicy": "Retain"});
    let cases = [
        (json!({}), format!("remove, {deleted}")),
        (json!({"status": {"phase": "Bound"}}), "nothing".to_owned()),
        (json!({"status": {"phase": "Pending"}}), "nothing".to_owned()),
        (json!({"status": {"phase": "Bound"}, "metadata": going}), "nothing".to_owned()),
        (json!({"spec": keep}), "nothing".to_owned()),
        // Somebody deletes the volume: what its policy says holds all the same.
        (json!({"metadata": going}), format!("remove, {removed}")),
        (json!({"metadata": going, "spec": keep}), removed.clone()),
        (json!({"metadata": going, "status": {"phase": "Pending"}}), format!("remove, {removed}")),
        (json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": []}}), "nothing".to_owned()),
        // Somebody else's volume, and one that lies about where it is.
        (
            json!({"metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": "example.com/disks"}}}),
            "nothing".to_owned(),
        ),
        (json!({"spec": {"local": {"path": "/etc"}}}), "VolumeFailedDelete".to_owned()),
        (
            json!({"metadata": {"name": "etc"}, "spec": {"local": {"path": "/data/volumes/etc"}}}),
            "VolumeFailedDelete".to_owned(),
        ),
        (
            json!({"metadata": {"name": ".."}, "spec": {"local": {"path": "/data/volumes/.."}}}),
            "VolumeFailedDelete".to_owned(),
        ),
        (json!({"spec": {"local": null, "hostPath": {"path": "/etc"}}}), "VolumeFailedDelete".to_owned()),
    ];
    for (change, expected) in cases {
        let step = match plan::volume(&volume(change.clone()), &here()) {
            VolumeStep::Nothing => "nothing".to_owned(),
            VolumeStep::Do(plan) if plan.writes.is_empty() => plan.events[0].reason.to_owned(),
            VolumeStep::Do(plan) => plan.to_string(),
            VolumeStep::Remove { plan, name } => {
                assert_eq!(name, format!("pvc-{UID}"));
                format!("remove, {plan}")
            }
        };
        assert_eq!(step, expected, "{change}");
    }
    let VolumeStep::Remove { plan, .. } = plan::volume(&volume(json!({"metadata": going})), &here()) else { panic!() };
    let body = plan.writes[0].body();
    assert_eq!(body["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]), "others decide for themselves");
    assert_eq!(body["metadata"]["resourceVersion"], "9");
}

#[test]
fn a_claim_grows_by_its_word() {
    let bound = json!({"pv.kubernetes.io/bind-completed": "yes"});
    let named = |size: &str| json!({"volumeName": format!("pvc-{UID}"), "resources": {"requests": {"storage": size}}});
    let told = |size: &str| json!({"phase": "Bound", "capacity": {"storage": size}});
    let (of_volume, of_claim) =
        (format!("patch persistentvolumes/pvc-{UID}"), "patch persistentvolumeclaims/data/status");
    // What is asked for, what the volume has, what the claim says that it has; what is written.
    let cases = [
        ("1Gi", "1Gi", "1Gi", String::new()),
        ("2Gi", "1Gi", "1Gi", format!("{of_volume}, {of_claim}")),
        ("2Gi", "2Gi", "1Gi", of_claim.to_owned()),
        ("2Gi", "2Gi", "2Gi", String::new()),
        ("1Gi", "2Gi", "2Gi", String::new()),
    ];
    for (asked, has, says, expected) in cases {
        let claim = claim(bound.clone(), named(asked), told(says));
        let volume = volume(json!({"spec": {"capacity": {"storage": has}}, "status": {"phase": "Bound"}}));
        let around = Around { place: &here(), class: None, volume: Some(&volume), nodes: &[] };
        let written = match plan::claim(&claim, &around) {
            ClaimStep::Do(plan) => plan.to_string(),
            ClaimStep::Nothing => String::new(),
            ClaimStep::Make { .. } => panic!("it has a volume"),
        };
        assert_eq!(written, expected, "{asked} {has} {says}");
    }
}

#[test]
fn the_cluster_has_a_default_class_unless_somebody_chose_another() {
    let plan_of = |all: Vec<StorageClass>, hostname: Option<&str>| {
        let all: Vec<Arc<StorageClass>> = all.into_iter().map(Arc::new).collect();
        plan::class(&all, hostname.map(str::to_owned))
    };
    let is_default = |plan: &pintle_runtime::Plan| {
        plan.writes.last().unwrap().body()["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"]
            .clone()
    };
    let fresh = plan_of(vec![], Some("laptop.lan"));
    let body = fresh.writes[0].body();
    assert_eq!((is_default(&fresh), &body["volumeBindingMode"]), (json!("true"), &json!("WaitForFirstConsumer")));
    let here = json!([{"matchLabelExpressions": [{"key": "kubernetes.io/hostname", "values": ["laptop.lan"]}]}]);
    assert_eq!((&body["allowedTopologies"], &body["allowVolumeExpansion"]), (&here, &json!(true)));
    assert_eq!(plan_of(vec![], None).writes[0].body().get("allowedTopologies"), None);

    let default = json!({"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}});
    let other = class(json!({"metadata": default, "provisioner": "example.com/disks"}));
    assert_eq!(is_default(&plan_of(vec![other], None)), json!("false"));

    assert!(plan_of(vec![class(json!({"allowedTopologies": here}))], Some("laptop.lan")).writes.is_empty());
    assert!(plan_of(vec![class(json!({"provisioner": "example.com/own"}))], Some("laptop.lan")).writes.is_empty());
    let moved = plan_of(vec![class(json!({"allowedTopologies": here}))], Some("desktop.lan"));
    assert_eq!(moved.to_string(), "delete storageclasses/local-path, create storageclasses/local-path");
    assert_eq!(is_default(&moved), json!("false"), "a person who took that back has the last word");
}

/// A place of this test's own.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let place = std::env::temp_dir().join(format!("pintle-local-path-{name}-{}", std::process::id()));
        std::fs::create_dir_all(place.join("volumes")).unwrap();
        Place(place)
    }

    fn directories(&self) -> Directories {
        Directories::of(&LocalVolumes::Below { directory: self.0.join("volumes"), node: "laptop".to_owned() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn a_directory_is_made_once_and_removed_with_all_that_is_in_it() {
    let place = Place::new("made");
    let (directories, path) = (place.directories(), place.0.join("volumes/pvc-a"));
    directories.make("pvc-a").await.unwrap();
    std::fs::create_dir_all(path.join("deep/deeper")).unwrap();
    std::fs::write(path.join("deep/file"), "kept").unwrap();
    directories.make("pvc-a").await.unwrap();
    assert_eq!(std::fs::read_to_string(path.join("deep/file")).unwrap(), "kept");
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o777);
    assert_eq!(std::fs::metadata(place.0.join("volumes")).unwrap().permissions().mode() & 0o777, 0o700);
    directories.remove("pvc-a").await.unwrap();
    directories.remove("pvc-a").await.unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn no_link_and_no_name_leads_out_of_the_place() {
    let place = Place::new("links");
    let (directories, treasure) = (place.directories(), place.0.join("treasure"));
    std::fs::create_dir(&treasure).unwrap();
    std::fs::write(treasure.join("gold"), "").unwrap();
    // A container made a link in its volume; somebody made one in the place of a volume.
    directories.make("pvc-a").await.unwrap();
    std::os::unix::fs::symlink(&treasure, place.0.join("volumes/pvc-a/out")).unwrap();
    std::os::unix::fs::symlink(&treasure, place.0.join("volumes/pvc-b")).unwrap();
    directories.remove("pvc-a").await.unwrap();
    assert!(directories.remove("pvc-b").await.is_err() && directories.make("pvc-b").await.is_err());
    for name in ["../treasure", "..", ".", "", "pvc-../../treasure", "pvc-a/../../treasure", "treasure", "pvc-"] {
        assert!(directories.remove(name).await.is_err() && directories.abandon(name).await.is_err(), "{name}");
        assert!(directories.make(name).await.is_err(), "{name}");
    }
    assert!(treasure.join("gold").exists());
}

/// external-provisioner issue 486: a claim that goes while its volume is made leaves the volume behind for ever.
#[tokio::test]
async fn only_what_is_empty_is_abandoned() {
    let place = Place::new("empty");
    let directories = place.directories();
    for name in ["pvc-a", "pvc-b"] {
        directories.make(name).await.unwrap();
    }
    std::fs::write(place.0.join("volumes/pvc-b/data"), "").unwrap();
    std::fs::create_dir(place.0.join("volumes/other")).unwrap();
    assert_eq!(directories.empty().await.unwrap(), ["pvc-a"]);
    for name in ["pvc-a", "pvc-b", "pvc-c"] {
        directories.abandon(name).await.unwrap();
    }
    assert!(!place.0.join("volumes/pvc-a").exists() && place.0.join("volumes/pvc-b/data").exists());
}
