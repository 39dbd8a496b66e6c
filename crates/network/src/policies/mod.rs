//! NetworkPolicies become rules: packets that none of a Pod's policies allows are dropped.
//!
//! One loop per node. It watches NetworkPolicies, Namespaces and, from the first policy on, all Pods of the cluster; it plans what
//! the Pods of this node need, and applies the difference. If the kernel refuses that, or somebody took the rules away, it writes
//! all of them anew. An isolated Pod is never open in between (see [`Table::steps`] for what that takes), and the rules stay while
//! this program is exchanged.
//!
//! A Pod is isolated once its status names its addresses and this loop has seen it. Until then, some milliseconds after its
//! containers start, its packets are not judged.

mod explain;
mod plan;
mod reading;
mod table;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Namespace, Pod, PodSpec, PodStatus};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use pintle_runtime::{
    Action, Attempt, Context, Controller, Error, Informer, Key, Reconciler, Registration, Retention, Selection, Waker,
};

pub use explain::explain;
pub use plan::{Chain, Contents, plan};
pub use reading::{Direction, Group, Labels, Member, Namespaces, Peer, Policy, Port, Rule};
pub use table::{Table, Touched};

use crate::dataplane::Dataplane;
use crate::services::Here;

/// Everything that changed waits under one key.
const RULES: &str = "policies";

/// How often it is looked whether the rules are still there.
const LOOK: Duration = Duration::from_secs(30);

/// Runs until the context's shutdown fires. The rules stay: Pods are isolated while this program is exchanged.
pub async fn run(context: Context, here: Here, dataplane: Arc<dyn Dataplane>) {
    let policies = context.informers.of::<NetworkPolicy>();
    let namespaces = context.informers.of::<Namespace>();
    let changed = Changes::default();
    let controller = Controller::new("policies", &context).workers(1);
    let waker = controller.waker();
    let (of_policies, of_namespaces) = (changed.clone(), changed.clone());
    controller
        .watch(&policies, move |change| of_policies.note(Changed::Policy(change.key())))
        .watch(&namespaces, move |change| of_namespaces.note(Changed::Namespace(change.key())))
        .run(Rules {
            context,
            policies,
            namespaces,
            pods: OnceLock::new(),
            changed,
            waker,
            dataplane,
            state: tokio::sync::Mutex::new(State { here, table: Table::default(), is_applied: false }),
        })
        .await;
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Changed {
    Namespace(Key),
    Policy(Key),
    Pod(Key),
}

#[derive(Clone, Default)]
struct Changes(Arc<Mutex<BTreeSet<Changed>>>);

impl Changes {
    fn note(&self, changed: Changed) -> Vec<Key> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(changed);
        vec![Key::cluster(RULES)]
    }

    fn take(&self) -> BTreeSet<Changed> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Rules {
    context: Context,
    policies: Informer<NetworkPolicy>,
    namespaces: Informer<Namespace>,
    /// Where nobody writes policies, nodes need not know the Pods of others.
    pods: OnceLock<(Informer<Pod>, Registration)>,
    changed: Changes,
    waker: Waker,
    dataplane: Arc<dyn Dataplane>,
    state: tokio::sync::Mutex<State>,
}

struct State {
    here: Here,
    table: Table,
    /// The kernel has what the table says.
    is_applied: bool,
}

impl Reconciler for Rules {
    async fn reconcile(&self, _: &Key, _: &Attempt) -> Result<Action, Error> {
        let mut state = self.state.lock().await;
        let state = &mut *state;
        let Some(pods) = self.pods().await else { return Ok(Action::done()) };
        let changed = self.changed.take();
        if changed.is_empty() && state.is_applied {
            state.is_applied = self.dataplane.has(&state.here.policy_table()).await;
        }
        let mut touched = Touched::default();
        for one in changed {
            self.put(one, pods, state, &mut touched);
        }
        state.table.settle(&mut touched);
        let scripts = match state.is_applied {
            true => state.table.steps(&state.here, &touched),
            false => state.table.whole(&state.here),
        };
        // Whatever goes wrong, the next attempt writes everything.
        let was_applied = std::mem::replace(&mut state.is_applied, false);
        for script in &scripts {
            self.dataplane.apply(script).await.map_err(|error| Error::Outside(error.to_string()))?;
        }
        state.is_applied = was_applied || !scripts.is_empty();
        Ok(Action::requeue_after(LOOK))
    }
}

impl Rules {
    fn put(&self, changed: Changed, pods: Option<&Informer<Pod>>, state: &mut State, touched: &mut Touched) {
        let table = &mut state.table;
        match changed {
            Changed::Namespace(key) => {
                let found = self.namespaces.get(&key);
                let labels = found.map(|one| one.metadata.labels.clone().unwrap_or_default());
                table.put_namespace(key.name(), labels, touched);
            }
            Changed::Policy(key) => table.put_policy(&key, self.policies.get(&key).map(|one| Policy::of(&one))),
            Changed::Pod(key) => {
                let pod = pods.and_then(|pods| pods.get(&key));
                table.put_pod(&key, pod.and_then(|pod| Member::of(&pod, &state.here.node)), touched);
            }
        }
    }

    /// All Pods of the cluster, if there is a policy or was one; nothing at all if the shutdown came first. Rules of an earlier
    /// process stay until all are known.
    async fn pods(&self) -> Option<Option<&Informer<Pod>>> {
        if self.pods.get().is_none() && self.policies.is_empty() {
            return Some(None);
        }
        let (pods, _) = self.pods.get_or_init(|| {
            let pods = self.context.informers.retain(Selection::everything(), Retention::projected("network", lean));
            let (changed, waker) = (self.changed.clone(), self.waker.clone());
            let registration = pods.on_change(move |change| {
                let keys = changed.note(Changed::Pod(change.key()));
                keys.into_iter().for_each(|key| waker.add(key));
            });
            (pods, registration)
        });
        tokio::select! {
            biased;
            () = self.context.shutdown.fired() => None,
            () = pods.synced() => Some(Some(pods)),
        }
    }
}

/// What policies need to know of a Pod.
fn lean(pod: &mut Pod) {
    let metadata = std::mem::take(&mut pod.metadata);
    pod.metadata.name = metadata.name;
    pod.metadata.namespace = metadata.namespace;
    pod.metadata.uid = metadata.uid;
    pod.metadata.resource_version = metadata.resource_version;
    pod.metadata.labels = metadata.labels;
    pod.metadata.deletion_timestamp = metadata.deletion_timestamp;
    let container = |one: Container| Container {
        name: one.name,
        ports: one.ports,
        restart_policy: one.restart_policy,
        ..Container::default()
    };
    pod.spec = pod.spec.take().map(|spec| PodSpec {
        node_name: spec.node_name,
        host_network: spec.host_network,
        containers: spec.containers.into_iter().map(container).collect(),
        init_containers: spec.init_containers.map(|all| all.into_iter().map(container).collect()),
        ..PodSpec::default()
    });
    pod.status = pod.status.take().map(|status| PodStatus {
        phase: status.phase,
        pod_ip: status.pod_ip,
        pod_ips: status.pod_ips,
        ..PodStatus::default()
    });
}
