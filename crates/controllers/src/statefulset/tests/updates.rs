//! Revisions, and the way from one to the next.

use super::*;

#[test]
fn the_revision_of_a_template_is_there_before_its_first_pod() {
    let mut world = World::of(2, json!({}));
    world.revisions.clear();
    let plan = world.plan();
    let [creation] = plan.writes.as_slice() else { panic!("{plan:?}") };
    let body = creation.body();
    assert_eq!(body["revision"], 1);
    assert_eq!(body["data"]["spec"]["template"]["$patch"], "replace");
    let hash = body["metadata"]["labels"]["controller.kubernetes.io/hash"].as_str().unwrap().to_owned();
    assert_eq!(body["metadata"]["name"], format!("web-{hash}"));
    assert!(plan.status.is_none(), "nothing is known yet");
    // Another template has the name, in a revision that is not the set's.
    let mut taken = revision(0, "other");
    taken.metadata.name = Some(format!("web-{hash}"));
    world.revisions.push(taken);
    let plan = world.plan();
    assert_ne!(plan.writes[0].body()["metadata"]["name"], format!("web-{hash}"));
    assert_eq!(plan.status.unwrap().changes().unwrap()["collisionCount"], 1);
}

#[test]
fn a_template_that_was_there_before_is_the_newest_again() {
    let mut world = World::of(1, json!({})).ready([0], "old");
    world.revisions = vec![revision(1, "new"), revision(2, "old")];
    let plan = world.plan();
    assert_eq!(plan.writes[0].to_string(), "patch controllerrevisions/web-new");
    assert_eq!(plan.writes[0].body()["revision"], 3);
}

#[test]
fn an_update_goes_from_the_highest_number_down_one_pod_at_a_time() {
    let world = |partition: i64| {
        let change = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": partition}}}});
        World::of(3, change).updating()
    };
    let cases = [
        ("all are old", world(0).ready([0, 1, 2], "old"), vec!["delete pods/web-2"]),
        ("one is new", world(0).ready([0, 1], "old").ready([2], "new"), vec!["delete pods/web-1"]),
        ("one is new and not ready", world(0).ready([0, 1], "old").pod(2, "new", "running", json!({})), vec![]),
        ("one is going", world(0).ready([0, 1], "old").pod(2, "old", "going", json!({})), vec![]),
        ("one is gone", world(0).ready([0, 1], "old"), vec!["create pods/web-2"]),
        ("the rest is below the partition", world(2).ready([0, 1], "old").ready([2], "new"), vec![]),
        ("all are below the partition", world(5).ready([0, 1, 2], "old"), vec![]),
        ("all are new", world(0).ready([0, 1, 2], "new"), vec![]),
    ];
    for (why, world, expected) in cases {
        assert_eq!(world.writes(), expected, "{why}");
    }
    let deletes = World::of(3, json!({})).updating().ready([0, 1, 2], "old");
    assert_eq!(deletes.status().current_replicas, Some(2), "the one that goes is not counted");
}

#[test]
fn a_broken_update_stays_until_somebody_deletes_the_broken_pod() {
    // The template is good again, and the broken Pod is of the bad one: an ordered set waits for it first.
    let ordered = World::of(3, json!({})).updating().ready([0, 1], "new").pod(2, "bad", "running", json!({}));
    assert!(ordered.writes().is_empty());
    // A parallel one waits for nothing, and replaces it.
    let parallel = World::parallel(3).updating().ready([0, 1], "new").pod(2, "bad", "running", json!({}));
    assert_eq!(parallel.writes(), ["delete pods/web-2"]);
}

#[test]
fn a_pod_below_the_partition_is_made_of_the_revision_that_it_had() {
    let made = |world: World| {
        let body = world.plan().writes[0].body();
        let image = body["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
        (image, body["metadata"]["labels"]["controller-revision-hash"].as_str().unwrap().to_owned())
    };
    let partition = |number: i64| json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": number}}}});
    assert_eq!(made(World::of(1, partition(1)).updating()), ("old".to_owned(), "web-old".to_owned()));
    assert_eq!(made(World::of(1, partition(0)).updating()), ("new".to_owned(), "web-new".to_owned()));
    // Without a partition, as many as are of the current revision.
    let none = json!({"spec": {"updateStrategy": {"rollingUpdate": null}}, "status": {"currentReplicas": 1}});
    assert_eq!(made(World::of(2, none.clone()).updating()).0, "old");
    assert_eq!(made(World::of(2, none).updating().ready([0], "old")).0, "new");
    let on_delete = json!({"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}});
    assert_eq!(made(World::of(1, on_delete.clone()).updating()).0, "new");
    assert!(
        World::of(2, on_delete).updating().ready([0, 1], "old").writes().is_empty(),
        "nothing is deleted for an update"
    );
}

#[test]
fn as_many_pods_as_may_be_unavailable_are_updated_at_once() {
    let world = |most: Value| {
        let change = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 1, "maxUnavailable": most}}}});
        World::of(5, change).updating()
    };
    let cases = [
        ("two of five", world(json!(2)).ready(0..5, "old"), vec!["delete pods/web-4", "delete pods/web-3"]),
        ("half of five", world(json!("50%")).ready(0..5, "old"), vec!["delete pods/web-4", "delete pods/web-3"]),
        ("at least one", world(json!("10%")).ready(0..5, "old"), vec!["delete pods/web-4"]),
        (
            "all but the partition",
            world(json!(9)).ready([0, 1, 2], "old").ready([3, 4], "new"),
            vec!["delete pods/web-2", "delete pods/web-1"],
        ),
    ];
    for (why, world, expected) in cases {
        assert_eq!(world.writes(), expected, "{why}");
    }
    let parallel = json!({"spec": {"podManagementPolicy": "Parallel"}});
    let one_is_away =
        world(json!(2)).with(parallel.clone()).ready([0, 1, 2, 3], "old").pod(4, "new", "running", json!({}));
    assert_eq!(one_is_away.writes(), ["delete pods/web-3"]);
    let one_is_missing = world(json!(2)).with(parallel).ready([0, 1, 2, 3], "old");
    assert_eq!(one_is_missing.writes(), ["create pods/web-4", "delete pods/web-3"]);
}

#[test]
fn the_new_revision_is_the_current_one_when_every_pod_is_ready_and_of_it() {
    let done = World::of(2, json!({})).updating().ready([0, 1], "new").status();
    assert_eq!((done.current_revision.as_deref(), done.current_replicas), (Some("web-new"), Some(2)));
    let not_yet = World::of(2, json!({})).updating().ready([0], "new").pod(1, "new", "running", json!({})).status();
    assert_eq!((not_yet.current_revision.as_deref(), not_yet.current_replicas), (Some("web-old"), Some(0)));
    let by_hand = json!({"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}});
    let by_hand = World::of(2, by_hand).updating().ready([0, 1], "new").status();
    assert_eq!(by_hand.current_revision.as_deref(), Some("web-old"));
}

#[test]
fn revisions_that_a_pod_is_of_are_kept_beyond_the_limit() {
    let mut world = World::of(2, json!({"spec": {"revisionHistoryLimit": 1}})).ready([0], "a").ready([1], "new");
    world.revisions = vec![revision(1, "a"), revision(2, "b"), revision(3, "c"), revision(4, "new")];
    assert_eq!(world.writes()[0], "delete controllerrevisions/web-b");
    assert_eq!(world.writes().iter().filter(|write| write.contains("controllerrevisions")).count(), 1);
}
