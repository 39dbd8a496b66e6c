//! What someone who deletes an owner, or does not, would lose.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::plan::{Decision, Graph, Kind, Node, Outcome, Owner, Policy, decide, outcome};

fn kind() -> Kind {
    Kind::named("v1", "ConfigMap")
}

fn owned_by(uid: &str, blocks: bool) -> OwnerReference {
    OwnerReference {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        name: uid.into(),
        uid: uid.into(),
        block_owner_deletion: Some(blocks),
        ..OwnerReference::default()
    }
}

/// An object whose name is its UID.
fn object(uid: &str, owners: &[OwnerReference], finalizer: Option<&str>) -> ObjectMeta {
    ObjectMeta {
        namespace: Some("shop".into()),
        name: Some(uid.into()),
        uid: Some(uid.into()),
        owner_references: Some(owners.to_vec()),
        finalizers: finalizer.map(|finalizer| vec![finalizer.into()]),
        deletion_timestamp: finalizer.map(|_| jiff::Timestamp::UNIX_EPOCH.into()),
        ..ObjectMeta::default()
    }
}

fn node(graph: &Graph, uid: &str) -> Node {
    graph.get(uid).unwrap().clone()
}

fn owners_of(graph: &Graph, uid: &str) -> Vec<(OwnerReference, Option<Owner>)> {
    match decide(graph, &node(graph, uid)) {
        Decision::AskAbout(owners) => owners,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_an_owner_leaves_behind_is_collected() {
    let mut graph = Graph::default();
    assert!(graph.observe(&kind(), &object("owner", &[], None)).is_empty());
    assert!(graph.observe(&kind(), &object("child", &[owned_by("owner", true)], None)).is_empty());
    assert_eq!(graph.remove("owner"), ["child"]);
    assert_eq!(owners_of(&graph, "child"), [(owned_by("owner", true), Some(Owner::Absent))]);
    let owners = [(owned_by("owner", true), Owner::Absent)];
    assert_eq!(outcome(&node(&graph, "child"), &owners, &[]), Outcome::Delete(Policy::Background));
}

#[test]
fn an_owner_not_seen_yet_is_asked_for_before_anything_is_deleted() {
    let mut graph = Graph::default();
    assert_eq!(graph.observe(&kind(), &object("child", &[owned_by("owner", true)], None)), ["child"]);
    assert_eq!(owners_of(&graph, "child"), [(owned_by("owner", true), None)]);
    let owners = [(owned_by("owner", true), Owner::SolidUnseen)];
    assert_eq!(outcome(&node(&graph, "child"), &owners, &[]), Outcome::KeepAndLookAgain);
}

#[test]
fn a_reference_with_the_right_uid_and_the_wrong_name_is_not_believed() {
    let mut graph = Graph::default();
    graph.observe(&kind(), &object("owner", &[], None));
    let mistaken = OwnerReference { name: "another".into(), ..owned_by("owner", true) };
    assert_eq!(graph.observe(&kind(), &object("child", std::slice::from_ref(&mistaken), None)), ["child"]);
    assert_eq!(owners_of(&graph, "child"), [(mistaken, None)]);
}

#[test]
fn one_owner_that_stays_keeps_what_it_owns() {
    let mut graph = Graph::default();
    let references = [owned_by("stays", true), owned_by("goes", true), owned_by("waits", true)];
    graph.observe(&kind(), &object("child", &references, None));
    let states = [Owner::Solid, Owner::Absent, Owner::Waiting];
    let owners: Vec<_> = references.into_iter().zip(states).collect();
    assert_eq!(
        outcome(&node(&graph, "child"), &owners, &[]),
        Outcome::Unlink(vec!["goes".into(), "waits".into()]),
        "the one that waits would wait for ever"
    );
}

#[test]
fn in_the_foreground_dependents_go_first() {
    let mut graph = Graph::default();
    graph.observe(&kind(), &object("owner", &[], None));
    graph.observe(&kind(), &object("blocks", &[owned_by("owner", true)], None));
    graph.observe(&kind(), &object("does-not", &[owned_by("owner", false)], None));
    let woken = graph.observe(&kind(), &object("owner", &[], Some("foregroundDeletion")));
    assert_eq!(woken, ["blocks", "does-not", "owner"]);
    assert_eq!(decide(&graph, &node(&graph, "owner")), Decision::WaitFor(vec!["blocks".into()]));
    let owners = [(owned_by("owner", true), Owner::Waiting)];
    assert_eq!(outcome(&node(&graph, "blocks"), &owners, &[]), Outcome::Delete(Policy::Background));
    assert_eq!(graph.remove("blocks"), ["owner"]);
    assert_eq!(decide(&graph, &node(&graph, "owner")), Decision::LetGo);
}

#[test]
fn in_the_foreground_a_dependent_takes_its_own_dependents_along() {
    let mut graph = Graph::default();
    graph.observe(&kind(), &object("middle", &[owned_by("owner", true)], None));
    graph.observe(&kind(), &object("leaf", &[owned_by("middle", true)], None));
    let owners = [(owned_by("owner", true), Owner::Waiting)];
    let middle = node(&graph, "middle");
    let dependents = graph.dependents_of("middle");
    assert_eq!(outcome(&middle, &owners, &dependents), Outcome::DeleteInForeground { unblock: false });
    graph.observe(&kind(), &object("leaf", &[owned_by("middle", true)], Some("foregroundDeletion")));
    let dependents = graph.dependents_of("middle");
    assert_eq!(outcome(&middle, &owners, &dependents), Outcome::DeleteInForeground { unblock: true }, "a circle");
}

#[test]
fn an_owner_held_up_goes_on_when_it_is_no_longer_blocked() {
    let mut graph = Graph::default();
    graph.observe(&kind(), &object("owner", &[], Some("foregroundDeletion")));
    graph.observe(&kind(), &object("child", &[owned_by("owner", true)], None));
    let woken = graph.observe(&kind(), &object("child", &[owned_by("owner", false)], None));
    assert!(woken.contains(&"owner".to_owned()), "{woken:?}");
    assert_eq!(decide(&graph, &node(&graph, "owner")), Decision::LetGo);
}

#[test]
fn orphans_are_set_free_before_their_owner_goes() {
    let mut graph = Graph::default();
    graph.observe(&kind(), &object("child", &[owned_by("owner", true)], None));
    assert_eq!(graph.observe(&kind(), &object("owner", &[], Some("orphan"))), ["owner"]);
    let Decision::SetFree(children) = decide(&graph, &node(&graph, "owner")) else { panic!("not set free") };
    assert_eq!(children[0].uid, "child");
    graph.observe(&kind(), &object("child", &[], None));
    assert_eq!(decide(&graph, &node(&graph, "owner")), Decision::SetFree(Vec::new()));
    assert!(graph.remove("owner").is_empty(), "nobody is left to collect");
}

#[test]
fn what_has_no_owner_is_left_alone() {
    let mut graph = Graph::default();
    graph.observe(&kind(), &object("free", &[], None));
    assert_eq!(decide(&graph, &node(&graph, "free")), Decision::Nothing);
}
