//! Which endpoints of a port are sent to, from here.

use std::net::SocketAddr;
use std::sync::Arc;

use super::Here;
use super::reading::Backend;

/// Some of the endpoints of a list, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    pub first: usize,
    pub count: usize,
}

impl Span {
    pub fn is_empty(self) -> bool {
        self.count == 0
    }

    pub fn of(self, list: &[SocketAddr]) -> &[SocketAddr] {
        &list[self.first..self.first + self.count]
    }
}

/// The endpoints of a port. Those on this node stand together, and so do those that anybody in the cluster is sent to: one list
/// serves both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chosen {
    pub list: Arc<[SocketAddr]>,
    pub cluster: Span,
    pub local: Span,
    /// How many could serve on this node, for those who ask whether to send it anything.
    pub ready_here: usize,
    /// Somebody serves it, here or elsewhere.
    pub is_served: bool,
}

/// Which lists are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub cluster: bool,
    pub local: bool,
}

pub(super) fn choose(backends: &[Backend], asked: Asked, here: &Here) -> Chosen {
    let is_here = |backend: &Backend| backend.node == here.node;
    let is_near = near(backends, here);
    let cluster = |backend: &&Backend| asked.cluster && is_near(backend);
    let local = |backend: &&Backend| asked.local && is_here(backend);
    let of_cluster = usable(backends, cluster);
    let of_node = usable(backends, local);
    let mut list = Vec::new();
    list.extend(of_node.iter().filter(|address| !of_cluster.contains(address)));
    let first = list.len();
    list.extend(of_node.iter().filter(|address| of_cluster.contains(address)));
    list.extend(of_cluster.iter().filter(|address| !of_node.contains(address)));
    let ready_here = backends.iter().filter(|one| one.ready && is_here(one)).count();
    Chosen {
        list: list.into(),
        cluster: Span { first, count: of_cluster.len() },
        local: Span { first: 0, count: of_node.len() },
        ready_here,
        is_served: !usable(backends, |_| true).is_empty(),
    }
}

/// Those that are ready; if none is, those that are about to end and still serve.
fn usable(backends: &[Backend], wanted: impl Fn(&&Backend) -> bool) -> Vec<SocketAddr> {
    let ready: Vec<_> = backends.iter().filter(|one| one.ready).filter(&wanted).map(|one| one.address).collect();
    if !ready.is_empty() {
        return ready;
    }
    backends.iter().filter(|one| one.serving && one.terminating).filter(&wanted).map(|one| one.address).collect()
}

/// Hints say which endpoints this node or its zone is asked to use. They count only if all that are ready carry them and one
/// of these is for us; else some endpoints would get nothing, or we would find none.
fn near(backends: &[Backend], here: &Here) -> impl Fn(&Backend) -> bool {
    let all_ready = |hints: fn(&Backend) -> &[String], name: &str| {
        let mut ready = backends.iter().filter(|one| one.ready).peekable();
        ready.peek().is_some()
            && !name.is_empty()
            && ready.clone().all(|one| !hints(one).is_empty())
            && ready.any(|one| hints(one).iter().any(|hint| hint == name))
    };
    let by_node = all_ready(|one| &one.for_nodes, &here.node);
    let by_zone = !by_node && all_ready(|one| &one.for_zones, &here.zone);
    move |one| match (by_node, by_zone) {
        (true, _) => one.for_nodes.contains(&here.node),
        (_, true) => one.for_zones.contains(&here.zone),
        _ => true,
    }
}
