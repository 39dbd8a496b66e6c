//! Turns changes of Pods, nodes, namespaces and storage into what the cache and the queue know.
//!
//! The cache learns of a change before the queue is told that something happened: a Pod tried in between has seen it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use pintle_runtime::{Change, Context, Informer, Key, Registration};

use crate::DEFAULT_NAME;
use crate::nominated;
use crate::plugins::Event;
use crate::pod::PodInfo;
use crate::scheduler::Shared;
use crate::storage::Storage;

/// Keeps the handlers registered.
pub(crate) struct Watch {
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    namespaces: Informer<Namespace>,
    claims: Informer<PersistentVolumeClaim>,
    volumes: Informer<PersistentVolume>,
    classes: Informer<StorageClass>,
    /// Looked at when room must be made for a Pod.
    budgets: Informer<PodDisruptionBudget>,
    _registrations: [Registration; 6],
}

impl Watch {
    pub(crate) fn start(context: &Context, shared: &Arc<Shared>) -> Self {
        let informers = &context.informers;
        let (pods, nodes, namespaces) = (informers.of::<Pod>(), informers.of::<Node>(), informers.of::<Namespace>());
        let (claims, volumes) = (informers.of::<PersistentVolumeClaim>(), informers.of::<PersistentVolume>());
        let classes = informers.of::<StorageClass>();
        let registrations = [
            nodes.on_change({
                let shared = shared.clone();
                move |change| on_node(&shared, change)
            }),
            namespaces.on_change({
                let shared = shared.clone();
                move |change| on_namespace(&shared, change)
            }),
            classes.on_change({
                let shared = shared.clone();
                move |change| {
                    on_storage(&shared, change, |storage, key, class| storage.set_class(key.name(), class));
                }
            }),
            volumes.on_change({
                let shared = shared.clone();
                move |change| {
                    on_storage(&shared, change, |storage, key, volume| storage.set_volume(key.name(), volume));
                }
            }),
            claims.on_change({
                let shared = shared.clone();
                move |change| on_storage(&shared, change, Storage::set_claim)
            }),
            pods.on_change({
                let shared = shared.clone();
                move |change| on_pod(&shared, change)
            }),
        ];
        let budgets = informers.of::<PodDisruptionBudget>();
        Watch { pods, nodes, namespaces, claims, volumes, classes, budgets, _registrations: registrations }
    }

    pub(crate) async fn synced(&self) {
        tokio::join!(self.pods.synced(), self.nodes.synced(), self.namespaces.synced());
        tokio::join!(self.claims.synced(), self.volumes.synced(), self.classes.synced(), self.budgets.synced());
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

/// A claim, a volume or a class: what is known of it is replaced, or forgotten.
fn on_storage<K: kube::Resource>(shared: &Shared, change: &Change<K>, set: impl Fn(&mut Storage, Key, Option<Arc<K>>)) {
    if change.is_resync() {
        return;
    }
    let object = (!change.is_deleted()).then(|| change.object().clone());
    set(&mut shared.cache().storage, change.key(), object);
    shared.queue.happened(Event::StorageChanged);
    shared.storage_changed.notify_waiters();
}

fn on_pod(shared: &Shared, change: &Change<Pod>) {
    let pod = change.object();
    let node = node_of(pod);
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    if change.is_deleted() || is_over(pod) {
        let had_room = {
            let mut cache = shared.cache();
            let was_nominated = cache.nominated.remove(uid);
            cache.displace(uid) || was_nominated
        };
        shared.queue.remove(&change.key(), uid);
        if had_room {
            shared.queue.happened(Event::PodRemoved);
            // It may have waited for its volumes.
            shared.storage_changed.notify_waiters();
        }
    } else if let Some(node) = node {
        // Its status is of no interest here, and changes more often than all the rest.
        if change.old().is_some_and(|old| node_of(old) == Some(node) && is_alike(old, pod)) || change.is_resync() {
            return;
        }
        shared.cache().place(Arc::new(PodInfo::new(pod.clone())), node);
        shared.queue.remove(&change.key(), uid);
        shared.queue.happened(Event::PodPlaced);
    } else if is_ours(pod, &shared.names) && !change.is_resync() {
        let pod = Arc::new(PodInfo::new(pod.clone()));
        let before = change.old().and_then(|old| nominated::in_status(old));
        {
            let mut cache = shared.cache();
            if !cache.is_placed(uid) && (!cache.nominated.is_empty() || nominated::written(&pod).is_some()) {
                cache.nominated.told(&pod, before);
            }
        }
        let gave_up = before.is_some() && before != nominated::written(&pod);
        shared.queue.put(pod);
        if gave_up {
            // It counted there for Pods that are not more important than it.
            shared.queue.happened(Event::PodRemoved);
        }
    } else if pod.metadata.deletion_timestamp.is_some() {
        shared.queue.remove(&change.key(), uid);
    }
}

/// Waits for this scheduler: no node, not on its way out, and not another scheduler's.
fn is_ours(pod: &Pod, names: &[String]) -> bool {
    let scheduler = pod.spec.as_ref().and_then(|spec| spec.scheduler_name.as_deref()).unwrap_or(DEFAULT_NAME);
    names.iter().any(|name| name == scheduler) && pod.metadata.deletion_timestamp.is_none()
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
