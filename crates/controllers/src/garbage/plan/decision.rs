//! What to do about one object: first from the graph alone, then with what the server said about its owners.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::graph::{FOREGROUND, Graph, Node, ORPHAN};

/// What the graph says.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum Decision {
    Nothing,
    /// Set these free, then take the orphan finalizer off.
    SetFree(Vec<Node>),
    /// No dependent holds it up: take the foreground finalizer off.
    LetGo,
    /// Look at these first.
    WaitFor(Vec<String>),
    /// Ask about each owner; those that the graph knows are answered.
    AskAbout(Vec<(OwnerReference, Option<Owner>)>),
}

/// What is known about an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Owner {
    /// There, and staying.
    Solid,
    /// There, but no watch has shown it: its end might go unseen.
    SolidUnseen,
    Absent,
    /// Waits for its dependents to go.
    Waiting,
}

pub(in super::super) fn decide(graph: &Graph, node: &Node) -> Decision {
    if node.orphans_dependents() {
        return Decision::SetFree(graph.dependents_of(&node.uid));
    }
    if node.waits_for_dependents() {
        let blocking = graph.blocking(&node.uid);
        if blocking.is_empty() {
            return Decision::LetGo;
        }
        let untouched = blocking.into_iter().filter(|dependent| !dependent.waits_for_dependents());
        return Decision::WaitFor(untouched.map(|dependent| dependent.uid).collect());
    }
    // What is on its way out cannot be hurried.
    if node.being_deleted || node.owners.is_empty() {
        return Decision::Nothing;
    }
    let known = |reference: &OwnerReference| match graph.get(&reference.uid) {
        Some(owner) if !owner.is_meant_by(reference, &node.namespace) => None,
        Some(owner) if owner.waits_for_dependents() => Some(Owner::Waiting),
        Some(_) => Some(Owner::Solid),
        None => graph.is_gone(&reference.uid).then_some(Owner::Absent),
    };
    Decision::AskAbout(node.owners.iter().map(|reference| (reference.clone(), known(reference))).collect())
}

/// What to do once every owner is known.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum Outcome {
    Keep,
    /// Keep, and look again: an owner's end might go unseen.
    KeepAndLookAgain,
    /// Keep, without the references to these owners.
    Unlink(Vec<String>),
    /// Delete it, dependents first; a circle is broken by not blocking the owners any more.
    DeleteInForeground {
        unblock: bool,
    },
    Delete(Policy),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Policy {
    Background,
    Foreground,
    Orphan,
}

pub(in super::super) fn outcome(node: &Node, owners: &[(OwnerReference, Owner)], dependents: &[Node]) -> Outcome {
    let is = |state: Owner| owners.iter().any(|(_, owner)| *owner == state);
    if is(Owner::Solid) || is(Owner::SolidUnseen) {
        let lost = owners.iter().filter(|(_, owner)| matches!(owner, Owner::Absent | Owner::Waiting));
        let lost: Vec<String> = lost.map(|(reference, _)| reference.uid.clone()).collect();
        return match (lost.is_empty(), is(Owner::SolidUnseen)) {
            (false, _) => Outcome::Unlink(lost),
            (true, true) => Outcome::KeepAndLookAgain,
            (true, false) => Outcome::Keep,
        };
    }
    if is(Owner::Waiting) && !dependents.is_empty() {
        return Outcome::DeleteInForeground { unblock: dependents.iter().any(Node::waits_for_dependents) };
    }
    Outcome::Delete(if node.has_finalizer(ORPHAN) {
        Policy::Orphan
    } else if node.has_finalizer(FOREGROUND) {
        Policy::Foreground
    } else {
        Policy::Background
    })
}
