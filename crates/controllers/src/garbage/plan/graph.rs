//! The graph of owner references, as far as the watches have told.
//!
//! Worked example: Deployment d owns ReplicaSet r, which owns Pod p; p also names an owner x that no watch has shown.
//!
//! ```text
//! nodes       d, r (owners [d]), p (owners [r, x])
//! dependents  d → {r}      r → {p}      x → {p}
//! ```
//!
//! `dependents` may know of owners that `nodes` does not: those are absent, or not seen yet. Which of the two is for
//! the server to say.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::Kind;

/// The finalizer of a foreground deletion.
pub(in super::super) const FOREGROUND: &str = "foregroundDeletion";

/// The finalizer of a deletion that leaves dependents behind.
pub(in super::super) const ORPHAN: &str = "orphan";

/// Owners remembered to be gone.
const REMEMBERED: usize = 500;

type Uid = String;

/// What matters about an object.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Node {
    pub(in super::super) kind: Kind,
    pub(in super::super) namespace: String,
    pub(in super::super) name: String,
    pub(in super::super) uid: Uid,
    pub(in super::super) resource_version: String,
    pub(in super::super) owners: Vec<OwnerReference>,
    pub(in super::super) finalizers: Vec<String>,
    pub(in super::super) being_deleted: bool,
}

impl Node {
    fn new(kind: &Kind, meta: &ObjectMeta) -> Self {
        Node {
            kind: kind.clone(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            owners: meta.owner_references.clone().unwrap_or_default(),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            being_deleted: meta.deletion_timestamp.is_some(),
        }
    }

    fn has(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|present| present == finalizer)
    }

    /// Waits for its dependents to go before it does.
    pub(in super::super) fn waits_for_dependents(&self) -> bool {
        self.being_deleted && self.has(FOREGROUND)
    }

    /// Waits for its dependents to be set free before it goes.
    pub(in super::super) fn orphans_dependents(&self) -> bool {
        self.being_deleted && self.has(ORPHAN)
    }

    pub(in super::super) fn has_finalizer(&self, finalizer: &str) -> bool {
        self.has(finalizer)
    }

    /// Whether a reference made in `namespace` means this object: a UID alone may be forged or mistaken.
    pub(in super::super) fn is_meant_by(&self, reference: &OwnerReference, namespace: &str) -> bool {
        reference.uid == self.uid
            && reference.name == self.name
            && Kind::named(&reference.api_version, &reference.kind) == self.kind
            && (self.namespace.is_empty() || self.namespace == namespace)
    }

    fn blocks(&self, owner: &str) -> bool {
        self.owners.iter().any(|reference| reference.uid == owner && reference.block_owner_deletion == Some(true))
    }
}

#[derive(Debug, Default)]
pub(in super::super) struct Graph {
    nodes: BTreeMap<Uid, Node>,
    dependents: BTreeMap<Uid, BTreeSet<Uid>>,
    gone: VecDeque<Uid>,
}

impl Graph {
    pub(in super::super) fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// Whether a watch has told that the object went.
    pub(in super::super) fn is_gone(&self, uid: &str) -> bool {
        self.gone.iter().any(|gone| gone == uid)
    }

    pub(in super::super) fn dependents_of(&self, uid: &str) -> Vec<Node> {
        self.dependents.get(uid).into_iter().flatten().filter_map(|uid| self.nodes.get(uid)).cloned().collect()
    }

    /// Those dependents that hold up their owner's deletion.
    pub(in super::super) fn blocking(&self, uid: &str) -> Vec<Node> {
        self.dependents_of(uid).into_iter().filter(|dependent| dependent.blocks(uid)).collect()
    }

    /// Takes in an object's state; returns the objects to look at.
    pub(in super::super) fn observe(&mut self, kind: &Kind, meta: &ObjectMeta) -> Vec<Uid> {
        let node = Node::new(kind, meta);
        let uid = node.uid.clone();
        let before = self.nodes.insert(uid.clone(), node.clone());
        let mut woken = BTreeSet::new();
        let old_owners = before.map(|before| before.owners).unwrap_or_default();
        for old in &old_owners {
            let still = node.owners.iter().find(|owner| owner.uid == old.uid);
            if still.is_none() {
                self.unlink(&old.uid, &uid);
            }
            // An owner that this object held up may go on.
            let blocks = |reference: &OwnerReference| reference.block_owner_deletion == Some(true);
            if blocks(old) && !still.is_some_and(blocks) && self.waits(&old.uid) {
                woken.insert(old.uid.clone());
            }
        }
        for owner in &node.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(uid.clone());
        }
        if node.waits_for_dependents() {
            woken.extend(self.dependents.get(&uid).into_iter().flatten().cloned());
            woken.insert(uid.clone());
        }
        if node.orphans_dependents() || self.may_have_lost_an_owner(&node) {
            woken.insert(uid);
        }
        woken.into_iter().collect()
    }

    /// The object is gone; returns the objects that this affects.
    pub(in super::super) fn remove(&mut self, uid: &str) -> Vec<Uid> {
        let Some(node) = self.nodes.remove(uid) else { return Vec::new() };
        for owner in &node.owners {
            self.unlink(&owner.uid, uid);
        }
        let mut woken: Vec<Uid> = self.dependents.get(uid).into_iter().flatten().cloned().collect();
        if !woken.is_empty() {
            self.gone.push_back(uid.to_owned());
            if self.gone.len() > REMEMBERED {
                self.gone.pop_front();
            }
        }
        let waiting = node.owners.iter().filter(|owner| self.waits(&owner.uid));
        woken.extend(waiting.map(|owner| owner.uid.clone()));
        woken
    }

    fn waits(&self, uid: &str) -> bool {
        self.nodes.get(uid).is_some_and(Node::waits_for_dependents)
    }

    /// Whether some owner is unknown, another than it is said to be, or waits for this object to go.
    fn may_have_lost_an_owner(&self, node: &Node) -> bool {
        node.owners.iter().any(|reference| match self.nodes.get(&reference.uid) {
            Some(owner) => !owner.is_meant_by(reference, &node.namespace) || owner.waits_for_dependents(),
            None => true,
        })
    }

    fn unlink(&mut self, owner: &str, dependent: &str) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(dependent);
            if dependents.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }
}
