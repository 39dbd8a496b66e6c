//! Packets to Pods of other machines find them: by a route to the machine where both are on one segment, in an envelope (VXLAN)
//! where a router is between them that knows no Pods.
//!
//! One loop per node. It watches Nodes; which way leads to each is asked again from time to time, since links change.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use pintle_runtime::{Action, Attempt, Change, Context, Controller, Error, Informer, Key, Reconciler};
use tokio::sync::Mutex;

pub use plan::{PROTOCOL, Route, Tunnel, plan, tunnel_device};

use crate::address::Range;
use crate::bridge::Bridge;
use crate::dataplane::Dataplane;

/// All routes are looked at together.
const ROUTES: &str = "routes";

/// How often it is looked whether ways have changed.
const LOOK: Duration = Duration::from_secs(30);

/// Runs until the context's shutdown fires. The routes stay: packets flow while this program is exchanged.
pub async fn run(context: Context, node: String, bridge: Bridge, routes: Arc<Routes>) {
    let nodes = context.informers.of::<Node>();
    let said = |node: &Node| {
        let addresses = node.status.as_ref().and_then(|status| status.addresses.clone());
        (crate::own_node::ranges_of(node), addresses)
    };
    let matters = move |change: &Change<Node>| change.old().is_none_or(|old| said(old) != said(change.object()));
    Controller::new("pod-routes", &context)
        .workers(1)
        .watch(&nodes, move |change| if matters(change) { vec![Key::cluster(ROUTES)] } else { Vec::new() })
        .run(Router { nodes, node, cluster: bridge.cluster, routes })
        .await;
}

/// The routes that the kernel has.
pub struct Routes {
    tunnel: Tunnel,
    dataplane: Arc<dyn Dataplane>,
    /// Nothing before the first look.
    applied: Mutex<Option<BTreeMap<Range, Route>>>,
}

impl Routes {
    pub fn new(bridge: &Bridge, dataplane: Arc<dyn Dataplane>) -> Self {
        let tunnel = Tunnel::new(&bridge.name, bridge.pods.clone(), &bridge.cluster);
        Routes { tunnel, dataplane, applied: Mutex::default() }
    }

    /// Takes all of them away.
    pub async fn remove(&self) {
        let applied = self.applied.lock().await.take().unwrap_or_default();
        if let Err(error) = self.dataplane.route(&self.tunnel.removal(&applied)).await {
            tracing::warn!(%error, "routes to Pods of other machines are left behind");
        }
    }
}

struct Router {
    nodes: Informer<Node>,
    node: String,
    cluster: Vec<Range>,
    routes: Arc<Routes>,
}

impl Reconciler for Router {
    async fn reconcile(&self, _: &Key, _: &Attempt) -> Result<Action, Error> {
        let nodes = self.nodes.all();
        let nodes: Vec<&Node> = nodes.iter().map(AsRef::as_ref).collect();
        self.report(&nodes);
        let Routes { tunnel, dataplane, applied } = self.routes.as_ref();
        let mut wanted = BTreeMap::new();
        for (range, machine) in plan(&nodes, &self.node) {
            match dataplane.way_to(machine).await {
                Some(way) => _ = wanted.insert(range, Route { machine, way }),
                None => tracing::debug!(%machine, "no way leads to the machine"),
            }
        }
        let mut applied = applied.lock().await;
        let failed = |error: crate::DataplaneError| Error::Outside(error.to_string());
        let before = match applied.take() {
            Some(before) => before,
            // Whatever an earlier process left, or a refused line.
            None => {
                let there = dataplane.routes(plan::PROTOCOL).await;
                dataplane.route(&plan::left(&there, &wanted, &self.cluster)).await.map_err(failed)?;
                BTreeMap::new()
            }
        };
        let lines = tunnel.lines(&before, &wanted);
        if !lines.is_empty() {
            dataplane.route(&lines).await.map_err(failed)?;
        }
        *applied = Some(wanted);
        Ok(Action::requeue_after(LOOK))
    }
}

impl Router {
    /// Says so if the cluster gives this node another range than its Pods have.
    fn report(&self, nodes: &[&Node]) {
        let own = nodes.iter().find(|node| node.metadata.name.as_deref() == Some(&self.node));
        let Some(given) = own.and_then(|node| crate::own_node::ranges_of(node)) else { return };
        if given.node != self.routes.tunnel.own {
            let shown = |ranges: &[Range]| ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            tracing::warn!(
                has = shown(&self.routes.tunnel.own),
                given = shown(&given.node),
                "the range of this node's Pods is not the one in its Node: Pods of other machines do not reach them; delete the Node and start again"
            );
        }
    }
}
