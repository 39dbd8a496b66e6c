//! Claims are made before the Pods that mount them, and go when the policy says so.

use super::*;

/// A set with a claim for each Pod, and a policy.
fn with_claims(replicas: i64, deleted: &str, scaled: &str) -> World {
    World::of(
        replicas,
        json!({"spec": {
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": deleted, "whenScaled": scaled},
        "volumeClaimTemplates": [{"metadata": {"name": "data", "labels": {"tier": "db"}},
                                  "spec": {"accessModes": ["ReadWriteOnce"]}}]}}),
    )
}

fn mounted(ordinal: u32) -> Value {
    json!({"spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": format!("data-web-{ordinal}")}}]}})
}

fn owned(owners: Value) -> Value {
    json!({"metadata": {"ownerReferences": owners}})
}

fn by_set(uid: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": uid, "controller": true,
           "blockOwnerDeletion": true})
}

fn by_pod(ordinal: u32, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "name": format!("web-{ordinal}"), "uid": uid, "controller": true,
           "blockOwnerDeletion": true})
}

#[test]
fn a_claim_is_made_before_its_pod_and_mounted_in_the_place_of_a_volume_of_its_name() {
    let world = with_claims(1, "Retain", "Retain").with(json!({"spec": {"template": {"spec": {"volumes": [
        {"name": "data", "emptyDir": {}}, {"name": "cache", "emptyDir": {}}]}}}}));
    // The template is another one now.
    let mut world = World { revisions: Vec::new(), ..world };
    let made = world.plan();
    let revision: ControllerRevision = serde_json::from_value(made.writes[0].body()).unwrap();
    world.revisions.push(revision);
    let plan = world.plan();
    let writes: Vec<String> = plan.writes.iter().map(ToString::to_string).collect();
    assert_eq!(writes, ["create persistentvolumeclaims/data-web-0", "create pods/web-0"]);
    let claim = plan.writes[0].body();
    assert_eq!(claim["metadata"]["labels"], json!({"app": "web", "tier": "db"}));
    assert_eq!(claim["metadata"]["ownerReferences"], Value::Null, "what is retained is nobody's");
    let volumes = &plan.writes[1].body()["spec"]["volumes"];
    assert_eq!(volumes[0], json!({"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}));
    assert_eq!((&volumes[1]["name"], volumes.as_array().unwrap().len()), (&json!("cache"), 2));
    assert_eq!(
        plan.writes[0].said.if_done.as_ref().unwrap().1,
        "Create Claim data-web-0 Pod web-0 in StatefulSet web success"
    );
}

#[test]
fn a_claim_that_cannot_be_made_keeps_only_its_own_pod_from_being_made() {
    let world = with_claims(3, "Retain", "Retain").with(json!({"spec": {"podManagementPolicy": "Parallel"}}));
    let world = world.claim("data-web-2", json!({}));
    let expected = [
        "create pods/web-2",
        "create persistentvolumeclaims/data-web-0",
        "create persistentvolumeclaims/data-web-1",
        "create pods/web-0",
        "create pods/web-1",
    ];
    assert_eq!(world.writes(), expected);
}

#[test]
fn a_pod_waits_for_the_end_of_a_claim_that_goes() {
    let world =
        with_claims(2, "Retain", "Retain").claim("data-web-0", json!({"metadata": {"deletionTimestamp": ago(1)}}));
    assert!(world.writes().is_empty());
    let told = "true FailedCreate: Create Pod web-0 in StatefulSet web failed error: pvc data-web-0 is being deleted";
    assert_eq!(events(&world.plan()), [told]);
    // One that belongs to an earlier Pod of the name is about to go.
    let stale =
        |scaled: &str| with_claims(1, "Retain", scaled).claim("data-web-0", owned(json!([by_pod(0, "earlier")])));
    assert!(stale("Delete").writes().is_empty());
    assert_eq!(stale("Retain").writes(), ["create pods/web-0"]);
}

#[test]
fn a_claim_that_was_deleted_under_a_waiting_pod_is_made_again() {
    let world = with_claims(2, "Retain", "Retain").pod(0, "new", "Pending", mounted(0));
    assert_eq!(world.writes(), ["create persistentvolumeclaims/data-web-0"]);
    assert!(with_claims(1, "Retain", "Retain").pod(0, "new", "ready", mounted(0)).writes().is_empty(), "it runs");
}

/// The owners that the claim of the Pod gets, by kind; nothing if it is left alone.
fn owners(world: &World) -> Option<Vec<String>> {
    let plan = world.plan();
    let patch = plan.writes.iter().find(|write| write.to_string().starts_with("patch persistentvolumeclaims"))?;
    let owners = patch.body()["metadata"]["ownerReferences"].as_array().unwrap().clone();
    Some(owners.iter().map(|owner| owner["kind"].as_str().unwrap().to_owned()).collect())
}

#[test]
fn a_claim_belongs_to_whatever_it_is_to_go_with() {
    let (none, set, pod) = (json!([]), json!([by_set("set")]), json!([by_pod(0, "uid-0")]));
    let cases = [
        ("Retain", "Retain", &none, 1, None),
        ("Retain", "Retain", &set, 1, Some(vec![])),
        ("Delete", "Retain", &none, 1, Some(vec!["StatefulSet"])),
        ("Delete", "Retain", &set, 1, None),
        ("Delete", "Retain", &none, 0, Some(vec!["StatefulSet"])),
        ("Retain", "Delete", &none, 1, None),
        ("Retain", "Delete", &none, 0, Some(vec!["Pod"])),
        ("Retain", "Delete", &pod, 0, None),
        ("Retain", "Delete", &pod, 1, Some(vec![])),
        ("Delete", "Delete", &none, 1, Some(vec!["StatefulSet"])),
        ("Delete", "Delete", &set, 0, Some(vec!["Pod"])),
        ("Delete", "Delete", &pod, 1, Some(vec!["StatefulSet"])),
    ];
    for (deleted, scaled, owners_now, replicas, expected) in cases {
        let world = with_claims(replicas, deleted, scaled).pod(0, "new", "ready", mounted(0));
        let world = world.claim("data-web-0", owned(owners_now.clone()));
        let expected = expected.map(|kinds| kinds.into_iter().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(owners(&world), expected, "{deleted}/{scaled}, {replicas} wanted, {owners_now}");
    }
    let made = with_claims(1, "Delete", "Delete").plan().writes[0].body();
    assert_eq!(made["metadata"]["ownerReferences"], json!([by_set("set")]));
}

#[test]
fn a_pod_that_is_scaled_away_owns_its_claim_before_it_goes() {
    let world = with_claims(0, "Retain", "Delete").pod(0, "new", "ready", mounted(0)).claim("data-web-0", json!({}));
    assert_eq!(world.writes(), ["patch persistentvolumeclaims/data-web-0", "delete pods/web-0"]);
}

#[test]
fn a_claim_of_somebody_else_is_left_to_them() {
    let other = json!({"apiVersion": "example.com/v1", "kind": "Backup", "name": "b", "uid": "b", "controller": true});
    let world = |owners: Value| {
        with_claims(1, "Delete", "Delete").pod(0, "new", "ready", mounted(0)).claim("data-web-0", owned(owners))
    };
    assert_eq!(owners(&world(json!([other]))), None);
    let both = world(json!([other, by_set("set")]));
    assert_eq!(owners(&both), Some(vec!["Backup".to_owned()]));
    assert!(events(&both.plan())[0].starts_with("true ConflictingController: PersistentVolumeClaim data-web-0 has"));
    assert_eq!(owners(&world(json!([by_set("an earlier one")]))), None, "the garbage collector decides");
    // One that is the set's in name only.
    let mut weak = by_set("set");
    weak["controller"] = json!(false);
    assert_eq!(owners(&world(json!([weak]))), Some(vec!["StatefulSet".to_owned()]));
}

#[test]
fn the_end_of_a_claim_concerns_the_set_that_it_was_made_for() {
    use crate::statefulset::plan::identity::has_claim_named;
    let set: StatefulSet = serde_json::from_value(with_claims(1, "Retain", "Retain").set).unwrap();
    for (name, expected) in
        [("data-web-0", true), ("data-web-17", true), ("data-web", false), ("data-webs-0", false), ("x", false)]
    {
        assert_eq!(has_claim_named(&set, name), expected, "{name}");
    }
}
