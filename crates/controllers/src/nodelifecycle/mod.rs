//! The nodelifecycle loop: what becomes of a node that falls silent, and of the Pods on it.
//!
//! Two loops in one. By node: watches Nodes and their Leases; a node not heard of for 50 s, or for as long as
//! its Lease holds and a quarter more, is unknown, and is tainted.
//! By Pod: watches Pods and the taints of their nodes; a Pod goes when its toleration has run out.

mod apply;
mod evict;
mod plan;
#[cfg(test)]
mod tests;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use pintle_runtime::{Change, Context, Controller, Informer, Key, Selection};

use crate::pods;
use apply::Health;
use evict::Evictions;

/// Name of the index that finds the Pods of a node.
const BY_NODE: &str = "node";

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    let nodes = context.informers.of::<Node>();
    let pods = context.informers.of::<Pod>();
    let leases = context.informers.select::<Lease>(Selection::fields("metadata.namespace=kube-node-lease"));
    pods.add_index(BY_NODE, |pod| vec![pods::node_name(pod).to_owned()]);

    let health = Controller::new("node-lifecycle", &context)
        .workers(4)
        .watch(&nodes, {
            let nodes = nodes.clone();
            move |change| concerned_by(change, &nodes)
        })
        .watch(&leases, |change| vec![Key::cluster(change.key().name())])
        .watch(&pods, pod_arrived)
        .run(Health::new(&context, nodes.clone(), leases, pods.clone()));

    let evictions = Controller::new("taint-eviction", &context)
        .workers(4)
        .watch(&pods, |change| match change {
            Change::Updated { old, new } if same_place_and_tolerations(old, new) => Vec::new(),
            _ => vec![change.key()],
        })
        .watch(&nodes, {
            let pods = pods.clone();
            move |change| match change {
                Change::Updated { old, new } if plan::no_execute_taints(old) == plan::no_execute_taints(new) => {
                    Vec::new()
                }
                _ => pods.by_index(BY_NODE, change.key().name()).iter().map(|pod| Key::of(pod.as_ref())).collect(),
            }
        })
        .run(Evictions::new(&context, nodes, pods));

    tokio::join!(health, evictions);
}

/// The node itself; and when a node comes or goes, every node, since the first and last healthy one matter to all.
fn concerned_by(change: &Change<Node>, nodes: &Informer<Node>) -> Vec<Key> {
    match change {
        Change::Updated { old, new } if plan::ready_status(old) == plan::ready_status(new) => vec![change.key()],
        Change::Resync(_) => vec![change.key()],
        _ => {
            let mut keys: Vec<Key> = nodes.all().iter().map(|node| Key::of(node.as_ref())).collect();
            keys.push(change.key());
            keys
        }
    }
}

/// A Pod that is bound to a silent node must be marked like the others there.
fn pod_arrived(change: &Change<Pod>) -> Vec<Key> {
    let node = pods::node_name(change.object());
    let arrived = match change {
        Change::Added(_) => true,
        Change::Updated { old, .. } => pods::node_name(old) != node,
        Change::Deleted(_) | Change::Resync(_) => false,
    };
    if arrived && !node.is_empty() { vec![Key::cluster(node)] } else { Vec::new() }
}

fn same_place_and_tolerations(old: &Pod, new: &Pod) -> bool {
    let tolerations = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.tolerations.clone());
    pods::node_name(old) == pods::node_name(new) && tolerations(old) == tolerations(new)
}
