//! Which objects own which, and what becomes of an object when its owners go.

mod decision;
mod graph;

use kube::api::ApiResource;

pub(super) use decision::{Decision, Outcome, Owner, Policy, decide, outcome};
pub(super) use graph::{FOREGROUND, Graph, Node, ORPHAN};

/// A kind whatever its version: an owner may be known by one version and watched at another.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    pub(super) group: String,
    pub(super) kind: String,
}

impl Kind {
    pub(super) fn of(resource: &ApiResource) -> Self {
        Kind { group: resource.group.clone(), kind: resource.kind.clone() }
    }

    /// The kind that an owner reference names.
    pub(super) fn named(api_version: &str, kind: &str) -> Self {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        Kind { group: group.to_owned(), kind: kind.to_owned() }
    }
}
