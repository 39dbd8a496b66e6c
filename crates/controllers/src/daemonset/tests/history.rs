//! Revisions of the template: made, found again, merged and forgotten.

use super::*;

#[test]
fn a_template_has_its_revision_before_its_first_pod() {
    let mut world = World::of(&["n"], json!({"metadata": {"annotations": {"note": "x"}}}));
    world.revisions = vec![revision(4, "old")];
    let plan = world.decide().plan;
    let [creation] = plan.writes.as_slice() else { panic!("{plan:?}") };
    let body = creation.body();
    let hash = body["metadata"]["labels"]["controller-revision-hash"].as_str().unwrap().to_owned();
    assert_eq!((&body["revision"], &body["metadata"]["name"]), (&json!(5), &json!(format!("agent-{hash}"))));
    assert_eq!(body["metadata"]["annotations"]["note"], "x");
    assert!(plan.again.is_some(), "no event of a new revision wakes the set");
    // Another template has the name, in a revision that is not the set's.
    let mut taken = revision(0, "other");
    taken.metadata.name = Some(format!("agent-{hash}"));
    world.revisions.push(taken);
    let plan = world.decide().plan;
    assert_ne!(plan.writes[0].body()["metadata"]["name"], format!("agent-{hash}"));
    assert_eq!(plan.status.unwrap().changes().unwrap()["collisionCount"], 1);
}

#[test]
fn a_template_that_was_there_before_is_the_newest_again() {
    let mut world = World::of(&["n"], json!({}));
    world.revisions = vec![revision(1, "new"), revision(2, "old")];
    let plan = world.decide().plan;
    assert_eq!(plan.writes[0].to_string(), "patch controllerrevisions/agent-new");
    assert_eq!(plan.writes[0].body()["revision"], 3);
}

#[test]
fn two_revisions_of_one_template_become_one() {
    let mut twin = revision(3, "new");
    twin.metadata.name = Some("agent-twin".to_owned());
    twin.metadata.labels = Some([("controller-revision-hash".to_owned(), "twin".to_owned())].into());
    let mut world = World::of(&["a", "b"], json!({})).ready(&["a"], "new").ready(&["b"], "twin");
    world.revisions.push(twin);
    assert_eq!(world.writes(), ["patch pods/a-new", "delete controllerrevisions/agent-new"]);
}

#[test]
fn a_revision_without_a_hash_gets_its_name_as_one() {
    let mut world = World::of(&["a"], json!({}));
    world.revisions[1].metadata.labels = None;
    let plan = world.decide().plan;
    assert_eq!(plan.writes[0].body()["metadata"]["labels"]["controller-revision-hash"], "agent-new");
}

#[test]
fn revisions_that_a_pod_is_of_are_kept_beyond_the_limit() {
    let mut world = World::of(&["a"], json!({"spec": {"revisionHistoryLimit": 1}})).ready(&["a"], "a");
    world.revisions = vec![revision(1, "a"), revision(2, "b"), revision(3, "c"), revision(4, "new")];
    assert_eq!(
        world.writes(),
        ["delete controllerrevisions/agent-b", "delete controllerrevisions/agent-c", "delete pods/a-a"]
    );
    world.set["spec"]["revisionHistoryLimit"] = json!(10);
    assert_eq!(world.writes(), ["delete pods/a-a"]);
}
