//! Pods come and go in order, and look as they should.

use super::*;

#[test]
fn a_pod_is_made_when_all_before_it_are_available() {
    let cases = [
        ("nothing is there", World::of(3, json!({})), vec!["create pods/web-0"]),
        ("the first is pending", World::of(3, json!({})).pod(0, "new", "Pending", json!({})), vec![]),
        ("the first is not ready", World::of(3, json!({})).pod(0, "new", "running", json!({})), vec![]),
        ("the first is ready", World::of(3, json!({})).ready([0], "new"), vec!["create pods/web-1"]),
        ("the first is going", World::of(3, json!({})).pod(0, "new", "going", json!({})), vec![]),
        ("a gap", World::of(3, json!({})).ready([0, 2], "new"), vec!["create pods/web-1"]),
        ("all are there", World::of(2, json!({})).ready([0, 1], "new"), vec![]),
        (
            "the first is ready, not yet for long enough",
            World::of(2, json!({"spec": {"minReadySeconds": 30}})).pod(0, "new", "fresh", json!({})),
            vec![],
        ),
        (
            "numbers begin at 5",
            World::of(2, json!({"spec": {"ordinals": {"start": 5}}})).ready([5], "new"),
            vec!["create pods/web-6"],
        ),
        ("the set goes", World::of(3, json!({"metadata": {"deletionTimestamp": ago(1)}})), vec![]),
        ("none are wanted", World::of(0, json!({})), vec![]),
    ];
    for (why, world, expected) in cases {
        assert_eq!(world.writes(), expected, "{why}");
    }
}

#[test]
fn a_pod_that_ended_is_deleted_and_made_again_when_it_is_gone() {
    for ended in ["Failed", "Succeeded"] {
        let world = World::of(2, json!({})).pod(0, "new", ended, json!({})).ready([1], "new");
        assert_eq!(world.writes(), ["delete pods/web-0"], "{ended}");
        let going = World::of(2, json!({})).pod(0, "new", ended, json!({"metadata": {"deletionTimestamp": ago(1)}}));
        assert!(going.writes().is_empty(), "{ended}");
    }
    let parallel = World::parallel(3).pod(0, "new", "Failed", json!({}));
    assert_eq!(parallel.writes(), ["create pods/web-1", "create pods/web-2", "delete pods/web-0"]);
}

#[test]
fn a_set_shrinks_from_the_highest_number_one_pod_at_a_time() {
    let shrunk = |states: &[(u32, &str)]| {
        let world = World::of(1, json!({})).ready([0], "new");
        let add = |world: World, (ordinal, state): &(u32, &str)| world.pod(*ordinal, "new", state, json!({}));
        states.iter().fold(world, add).writes()
    };
    assert_eq!(shrunk(&[(1, "ready"), (2, "ready")]), ["delete pods/web-2"]);
    assert!(shrunk(&[(1, "ready"), (2, "going")]).is_empty(), "the one before is waited for");
    assert!(shrunk(&[(1, "running"), (2, "ready")]).len() == 1, "the highest is well");
    assert_eq!(shrunk(&[(1, "ready"), (2, "running")]), ["delete pods/web-2"], "it is the only one that is not well");
    assert!(shrunk(&[(1, "running"), (2, "running")]).is_empty(), "a lower one is not well either");
    let blocked = World::of(1, json!({})).pod(0, "new", "running", json!({})).ready([1, 2], "new");
    assert!(blocked.writes().is_empty(), "nothing goes while one that stays is not well");
    let moved = World::of(2, json!({"spec": {"ordinals": {"start": 1}}})).ready([0, 1, 2], "new");
    assert_eq!(moved.writes(), ["delete pods/web-0"], "numbers below the first go too");
}

#[test]
fn a_parallel_set_waits_for_nothing() {
    assert_eq!(World::parallel(3).writes(), ["create pods/web-0", "create pods/web-1", "create pods/web-2"]);
    let shrinks =
        World::parallel(1).pod(0, "new", "running", json!({})).ready([1], "new").pod(2, "new", "going", json!({}));
    assert_eq!(shrinks.writes(), ["delete pods/web-1"]);
    let grows_and_shrinks = World::parallel(1).ready([4, 7], "new");
    assert_eq!(grows_and_shrinks.writes(), ["create pods/web-0", "delete pods/web-7", "delete pods/web-4"]);
    assert_eq!(World::parallel(2_000_000_000).writes().len(), 500, "and no more than a burst at once");
}

#[test]
fn a_pod_has_its_name_its_place_in_dns_and_its_revision() {
    let plan = World::of(1, json!({"spec": {"ordinals": {"start": 3}}})).plan();
    let pod = plan.writes[0].body();
    assert_eq!(
        pod["metadata"]["labels"],
        json!({"app": "web", "controller-revision-hash": "web-new", "apps.kubernetes.io/pod-index": "3",
               "statefulset.kubernetes.io/pod-name": "web-3"})
    );
    assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["subdomain"]), (&json!("web-3"), &json!("peers")));
    assert_eq!((&pod["metadata"]["name"], &pod["metadata"]["generateName"]), (&json!("web-3"), &json!("web-")));
    let owner = &pod["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"], &owner["controller"]),
        (&json!("StatefulSet"), &json!("set"), &json!(true))
    );
    let said = &plan.writes[0].said;
    let (reason, message) = said.if_done.as_ref().unwrap();
    assert_eq!((*reason, message.as_str()), ("SuccessfulCreate", "Create Pod web-3 in StatefulSet web successful"));
    let (reason, message) = said.if_failed.as_ref().unwrap();
    assert_eq!(
        (*reason, message.as_str()),
        ("FailedCreate", "Create Pod web-3 in StatefulSet web failed error: {error}")
    );
}

#[test]
fn a_pod_that_lost_its_name_in_its_labels_gets_it_back() {
    let world = World::of(1, json!({})).pod(0, "new", "ready", json!({"metadata": {"labels": null}}));
    let plan = world.plan();
    assert_eq!(plan.writes[0].to_string(), "replace pods/web-0");
    assert_eq!(plan.writes[0].body()["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"], "web-0");
    assert_eq!(plan.writes[0].said.if_done.as_ref().unwrap().1, "Update Pod web-0 in StatefulSet web successful");
}

#[test]
fn pods_of_other_names_are_not_counted_as_the_sets() {
    use crate::statefulset::plan::identity::parent;
    for (name, set) in [("web-0", Some("web")), ("a-b-12", Some("a-b")), ("web", None), ("web-", None), ("web-x", None)]
    {
        assert_eq!(parent(name), set, "{name}");
    }
    let huge = World::of(1, json!({})).pod(0, "new", "ready", json!({"metadata": {"name": "web-99999999999"}}));
    assert_eq!(huge.writes(), ["create pods/web-0"]);
}

#[test]
fn the_status_counts_pods_by_state_and_by_revision() {
    let world = World::of(5, json!({"spec": {"minReadySeconds": 30}}))
        .updating()
        .pod(0, "old", "ready", json!({}))
        .pod(1, "old", "fresh", json!({}))
        .pod(2, "new", "running", json!({}))
        .pod(3, "new", "going", json!({}))
        .pod(7, "old", "Pending", json!({}));
    let expected = json!({"observedGeneration": 3, "replicas": 5, "readyReplicas": 3, "availableReplicas": 2,
        "currentReplicas": 3, "updatedReplicas": 1, "currentRevision": "web-old", "updateRevision": "web-new",
        "collisionCount": 0});
    assert_eq!(serde_json::to_value(world.status()).unwrap(), expected);
    assert_eq!(world.plan().again, Some(std::time::Duration::from_secs(25)));
}
