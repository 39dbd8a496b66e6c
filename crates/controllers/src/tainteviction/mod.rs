//! The tainteviction loop: a Pod leaves its node when it no longer tolerates the node's taints.
//!
//! Watches Pods, and the `NoExecute` taints of their nodes. Keys are Pods.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use pintle_runtime::{Action, Attempt, Change, Clock, Context, Controller, Error, Executor, Informer, Key, Reconciler};

use crate::pods;

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    let nodes = context.informers.of::<Node>();
    let pods = context.informers.of::<Pod>();
    pods::index_by_node(&pods);
    let (executor, clock) = (Executor::new(&context, "taint-eviction-controller"), context.clock.clone());
    Controller::new("taint-eviction", &context)
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
                _ => pods::on_node(&pods, change.key().name()).iter().map(|pod| Key::of(pod.as_ref())).collect(),
            }
        })
        .run(Evictions { clock, executor, nodes, pods, first_seen: Mutex::default() })
        .await;
}

fn same_place_and_tolerations(old: &Pod, new: &Pod) -> bool {
    let tolerations = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.tolerations.clone());
    pods::node_name(old) == pods::node_name(new) && tolerations(old) == tolerations(new)
}

struct Evictions {
    clock: Clock,
    executor: Executor,
    nodes: Informer<Node>,
    pods: Informer<Pod>,
    /// When each Pod was first seen on a tainted node.
    first_seen: Mutex<BTreeMap<Key, Timestamp>>,
}

impl Reconciler for Evictions {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let pod = self.pods.get(key).filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let node = pod.as_ref().and_then(|pod| self.nodes.get(&Key::cluster(pods::node_name(pod))));
        let taints = node.map(|node| plan::no_execute_taints(&node)).unwrap_or_default();
        let Some(pod) = pod.filter(|_| !taints.is_empty()) else {
            self.first_seen().remove(key);
            return Ok(Action::done());
        };
        let now = self.clock.now();
        let first_seen = *self.first_seen().entry(key.clone()).or_insert(now);
        Ok(self.executor.execute(pod.as_ref(), plan::plan(&pod, &taints, first_seen, now)).await?)
    }
}

impl Evictions {
    fn first_seen(&self) -> MutexGuard<'_, BTreeMap<Key, Timestamp>> {
        self.first_seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
