//! Turns changes of Pods, nodes and namespaces into what the cache and the queue know.
//!
//! The cache learns of a change before the queue is told that something happened: a Pod tried in between has seen it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use pintle_runtime::{Change, Context, Informer, Registration};

use crate::DEFAULT_NAME;
use crate::plugins::Event;
use crate::pod::PodInfo;
use crate::scheduler::Shared;

/// Keeps the handlers registered.
pub(crate) struct Watch {
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    namespaces: Informer<Namespace>,
    _registrations: [Registration; 3],
}

impl Watch {
    pub(crate) fn start(context: &Context, shared: &Arc<Shared>) -> Self {
        let informers = &context.informers;
        let (pods, nodes, namespaces) = (informers.of::<Pod>(), informers.of::<Node>(), informers.of::<Namespace>());
        let registrations = [
            nodes.on_change({
                let shared = shared.clone();
                move |change| on_node(&shared, change)
            }),
            namespaces.on_change({
                let shared = shared.clone();
                move |change| on_namespace(&shared, change)
            }),
            pods.on_change({
                let shared = shared.clone();
                move |change| on_pod(&shared, change)
            }),
        ];
        Watch { pods, nodes, namespaces, _registrations: registrations }
    }

    pub(crate) async fn synced(&self) {
        tokio::join!(self.pods.synced(), self.nodes.synced(), self.namespaces.synced());
    }
}

fn on_node(shared: &Shared, change: &Change<Node>) {
    let node = change.object();
    let event = match change {
        Change::Resync(_) => return,
        Change::Deleted(_) => {
            shared.cache().remove_node(node.metadata.name.as_deref().unwrap_or_default());
            return;
        }
        Change::Added(_) => Some(Event::NodeAdded),
        Change::Updated { old, new } => matters(old, new).then_some(Event::NodeChanged),
    };
    // Heartbeats change nothing that a Pod could wait for.
    if let Some(event) = event {
        shared.cache().set_node(node.clone());
        shared.queue.happened(event);
    }
}

fn matters(old: &Node, new: &Node) -> bool {
    let allocatable = |node: &Node| node.status.as_ref().and_then(|status| status.allocatable.clone());
    old.spec != new.spec || old.metadata.labels != new.metadata.labels || allocatable(old) != allocatable(new)
}

fn on_namespace(shared: &Shared, change: &Change<Namespace>) {
    if change.is_resync() {
        return;
    }
    let (key, namespace) = (change.key(), change.object());
    match change.is_deleted() {
        true => shared.cache().namespaces.remove(key.name()),
        false => shared
            .cache()
            .namespaces
            .insert(key.name().to_owned(), namespace.metadata.labels.clone().unwrap_or_default()),
    };
    shared.queue.happened(Event::NamespaceChanged);
}

fn on_pod(shared: &Shared, change: &Change<Pod>) {
    let pod = change.object();
    let node = node_of(pod);
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    if change.is_deleted() || is_over(pod) {
        let was_placed = shared.cache().displace(uid);
        shared.queue.remove(&change.key(), uid);
        if was_placed {
            shared.queue.happened(Event::PodRemoved);
        }
    } else if let Some(node) = node {
        // Its status is of no interest here, and changes more often than all the rest.
        if change.old().is_some_and(|old| node_of(old) == Some(node) && is_alike(old, pod)) || change.is_resync() {
            return;
        }
        shared.cache().place(Arc::new(PodInfo::new(pod.clone())), node);
        shared.queue.remove(&change.key(), uid);
        shared.queue.happened(Event::PodPlaced);
    } else if is_ours(pod) && !change.is_resync() {
        shared.queue.put(Arc::new(PodInfo::new(pod.clone())));
    } else if pod.metadata.deletion_timestamp.is_some() {
        shared.queue.remove(&change.key(), uid);
    }
}

/// Waits for this scheduler: no node, not on its way out, and not another scheduler's.
fn is_ours(pod: &Pod) -> bool {
    let scheduler = pod.spec.as_ref().and_then(|spec| spec.scheduler_name.as_deref()).unwrap_or(DEFAULT_NAME);
    scheduler == DEFAULT_NAME && pod.metadata.deletion_timestamp.is_none()
}

fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn is_alike(old: &Pod, new: &Pod) -> bool {
    old.metadata.labels == new.metadata.labels
        && old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        && old.spec == new.spec
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}
