//! Services become rules: packets to their addresses find an endpoint.
//!
//! One loop per node. It watches Services and EndpointSlices, plans what each Service that changed needs, and applies the difference
//! in one transaction. If the kernel refuses that, or somebody took the rules away, it writes all of them anew.

mod choose;
mod explain;
mod plan;
mod reading;
mod table;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use pintle_runtime::{Action, Attempt, Context, Controller, Error, Informer, Key, Reconciler, Selection};

pub use choose::Span;
pub use explain::explain;
pub use plan::{At, Fragment, Frontend, Go, Own, plan};
pub(crate) use reading::cluster_addresses;
pub use table::{Table, Touched};

use crate::address::Range;
use crate::dataplane::{Dataplane, HealthChecks, Stale, removal};

/// The label of a node that names its zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// The label of a slice that names its Service.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Everything that changed waits under one key.
const RULES: &str = "rules";

/// How often it is looked whether the rules are still there.
const LOOK: Duration = Duration::from_secs(30);

/// The node whose rules these are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Here {
    /// The name of its tables in the kernel.
    pub table: String,
    /// The bridge between its Pods.
    pub bridge: String,
    pub node: String,
    pub zone: String,
    /// The addresses of all Pods of the cluster, and of all Services.
    pub pods: Vec<Range>,
    pub services: Vec<Range>,
}

impl Here {
    /// Takes the rules away, those of policies too.
    pub fn removal(&self) -> String {
        removal(&[self.table.clone(), self.policy_table(), self.policy_guard()])
    }
}

/// Runs until the context's shutdown fires. The rules stay: packets flow while this program is exchanged.
pub async fn run(context: Context, here: Here, dataplane: Arc<dyn Dataplane>) {
    let services = context.informers.of::<Service>();
    let slices = context.informers.of::<EndpointSlice>();
    slices.index(by_service);
    let own = Selection::fields(format!("metadata.name={}", here.node));
    let node = context.informers.select::<Node>(own);
    let changed: Changed = Arc::default();
    let note = |changed: &Changed| {
        let changed = changed.clone();
        move |key: Option<Key>| {
            let wakes = key.is_some();
            lock(&changed).extend(key);
            if wakes { vec![Key::cluster(RULES)] } else { Vec::new() }
        }
    };
    let (of_services, of_slices) = (note(&changed), note(&changed));
    Controller::new("services", &context)
        .workers(1)
        .watch(&services, move |change| of_services(Some(change.key())))
        .watch(&slices, move |change| of_slices(service_of(change.object())))
        .watch(&node, |_| vec![Key::cluster(RULES)])
        .run(Rules { services, slices, node, changed, dataplane, state: tokio::sync::Mutex::new(State::new(here)) })
        .await;
}

type Changed = Arc<Mutex<BTreeSet<Key>>>;

fn lock(changed: &Changed) -> MutexGuard<'_, BTreeSet<Key>> {
    changed.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The Service that a slice belongs to.
pub fn service_of(slice: &EndpointSlice) -> Option<Key> {
    let service = slice.metadata.labels.as_ref()?.get(SERVICE_NAME)?;
    Some(Key::new(slice.metadata.namespace.clone().unwrap_or_default(), service.clone()))
}

/// Index of slices: the Service.
pub(crate) fn by_service(slice: &EndpointSlice) -> Vec<String> {
    service_of(slice).map(|key| key.to_string()).into_iter().collect()
}

struct Rules {
    services: Informer<Service>,
    slices: Informer<EndpointSlice>,
    node: Informer<Node>,
    changed: Changed,
    dataplane: Arc<dyn Dataplane>,
    state: tokio::sync::Mutex<State>,
}

struct State {
    here: Here,
    table: Table,
    /// The kernel has what the table says.
    is_applied: bool,
    /// Flows to forget once the kernel has the rules.
    stale: Vec<Stale>,
    /// What balancers are told.
    told: HealthChecks,
}

impl State {
    fn new(here: Here) -> Self {
        State { here, table: Table::default(), is_applied: false, stale: Vec::new(), told: HealthChecks::default() }
    }
}

impl Reconciler for Rules {
    async fn reconcile(&self, _: &Key, _: &Attempt) -> Result<Action, Error> {
        let mut state = self.state.lock().await;
        let state = &mut *state;
        let mut changed = std::mem::take(&mut *lock(&self.changed));
        let zone = self.zone(&state.here.node);
        if zone != state.here.zone {
            state.here.zone = zone;
            changed.extend(self.services.all().iter().map(|service| Key::of(service.as_ref())));
        }
        if changed.is_empty() && state.is_applied {
            state.is_applied = self.dataplane.has(&state.here.table).await;
        }
        let mut touched = Touched::default();
        for key in changed {
            let fragment = self.services.get(&key).map(|service| {
                let slices = self.slices.by(by_service, &key.to_string());
                plan(&service, &slices, &state.here)
            });
            state.table.put(&key, fragment.unwrap_or_default(), &mut touched);
        }
        state.stale.extend(state.table.stale(&touched));
        let script = match state.is_applied {
            true => state.table.script(&state.here, &touched),
            false => state.table.whole(&state.here),
        };
        if !script.is_empty() {
            // Whatever goes wrong, the next attempt writes everything.
            state.is_applied = false;
            self.dataplane.apply(&script).await.map_err(|error| Error::Outside(error.to_string()))?;
            state.is_applied = true;
        }
        let stale = std::mem::take(&mut state.stale);
        if !stale.is_empty()
            && let Err(error) = self.dataplane.forget(stale).await
        {
            tracing::warn!(%error);
        }
        if state.told != *state.table.health_checks() {
            state.told.clone_from(state.table.health_checks());
            self.dataplane.answer_balancers(state.told.clone()).await;
        }
        Ok(Action::requeue_after(LOOK))
    }
}

impl Rules {
    fn zone(&self, node: &str) -> String {
        let node = self.node.get(&Key::cluster(node));
        node.and_then(|node| node.metadata.labels.as_ref()?.get(ZONE).cloned()).unwrap_or_default()
    }
}
