//! The nodelifecycle loop: what becomes of a node that falls silent.
//!
//! Watches Nodes and their Leases; a node not heard of for 50 s, or for as long as its Lease holds and a quarter more, is
//! unknown, and is tainted; what its Pods make of that is the tainteviction loop's. Keys are Nodes.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod};
use pintle_runtime::plan::Note;
use pintle_runtime::{
    Action, Attempt, Change, Clock, Context, Controller, Error, Executor, Informer, Key, Plan, Reconciler, Selection,
};

use crate::pods;
use plan::{Facts, Heard, Turn, Zones};

/// Runs until the context's shutdown fires.
pub(crate) async fn run(context: Context) {
    let nodes = context.informers.of::<Node>();
    let pods = context.informers.of::<Pod>();
    let leases = context.informers.select::<Lease>(Selection::fields("metadata.namespace=kube-node-lease"));
    pods::index_by_node(&pods);
    let (executor, clock) = (Executor::new(&context, "node-controller"), context.clock.clone());

    Controller::new("node-lifecycle", &context)
        .workers(4)
        .watch(&nodes, {
            let nodes = nodes.clone();
            move |change| concerned_by(change, &nodes)
        })
        .watch(&leases, |change| vec![Key::cluster(change.key().name())])
        .watch(&pods, pod_arrived)
        .run(Health { clock, executor, nodes, leases, pods, memory: Mutex::default() })
        .await;
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

struct Health {
    clock: Clock,
    executor: Executor,
    nodes: Informer<Node>,
    leases: Informer<Lease>,
    pods: Informer<Pod>,
    memory: Mutex<Memory>,
}

/// What the objects do not tell: when nodes were heard of, on our own clock, and whose turn it was.
#[derive(Default)]
struct Memory {
    heard: BTreeMap<String, Heard>,
    zones: Zones,
}

impl Reconciler for Health {
    async fn reconcile(&self, key: &Key, _: &Attempt) -> Result<Action, Error> {
        let Some(node) = self.nodes.get(key) else {
            let was_known = self.memory().heard.remove(key.name()).is_some();
            let plan = if was_known { removed(key.name()) } else { Plan::default() };
            return Ok(self.executor.carry_out(plan).await?);
        };
        let plan = self.plan_for(key, &node);
        let action = self.executor.carry_out(plan).await?;
        // Only now: what follows from a change has been done.
        if let Some(heard) = self.memory().heard.get_mut(key.name()) {
            plan::ready_status(&node).clone_into(&mut heard.ready);
        }
        Ok(action)
    }
}

impl Health {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn plan_for(&self, key: &Key, node: &Arc<Node>) -> Plan {
        let now = self.clock.now();
        let lease = self.leases.get(&Key::new("kube-node-lease", key.name()));
        let Memory { heard, zones } = &mut *self.memory();
        let before = heard.get(key.name()).cloned();
        let mut last = Heard::listen(before.as_ref(), node, lease.as_deref(), now);
        let mut turn = Turn::Now;
        let is_ready = plan::ready_status(node) == "True";
        if !is_ready || before.as_ref().is_some_and(|before| before.ready != "True") {
            let nodes = self.nodes.all();
            if zones.recovered(&nodes) {
                // Nobody could be heard until now: everybody gets their time again.
                heard.values_mut().for_each(|heard| heard.at = now);
                last.at = now;
            }
            // Asked only where the answer matters: a turn that is given is used up.
            if !is_ready {
                turn = if plan::awaits_eviction(node) { zones.turn(node, &nodes, now) } else { zones.standing(&nodes) };
            }
        }
        let facts = Facts {
            verdict: plan::judge(node, &last, now),
            was_ready: before.as_ref().is_some_and(|before| before.ready == "True"),
            turn,
            pods: if is_ready { Vec::new() } else { pods::on_node(&self.pods, key.name()) },
            now,
        };
        let mut plan = plan::plan(node, facts).about_node(key.name(), node.metadata.uid.as_deref());
        if before.is_none() {
            let message = format!("Node {0} event: Registered Node {0} in Controller", key.name());
            plan.events.insert(0, Note::normal("RegisteredNode", message));
        }
        last.ready = before.map(|before| before.ready).unwrap_or_default();
        heard.insert(key.name().to_owned(), last);
        plan
    }
}

fn removed(node: &str) -> Plan {
    let message = format!("Node {node} event: Removing Node {node} from Controller");
    Plan::telling(Note::normal("RemovingNode", message)).about_node(node, None)
}

trait AboutNode {
    /// Events of nodes carry no namespace and no version.
    fn about_node(self, name: &str, uid: Option<&str>) -> Self;
}

impl AboutNode for Plan {
    fn about_node(self, name: &str, uid: Option<&str>) -> Plan {
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(name.to_owned()),
            uid: Some(uid.unwrap_or_default().to_owned()),
            ..ObjectReference::default()
        };
        Plan { about, ..self }
    }
}
