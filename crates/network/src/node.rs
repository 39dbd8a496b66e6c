//! What one node does for packets: the network of its Pods, rules for Services and NetworkPolicies, and names.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use pintle_runtime::{Context, Trigger};
use tokio::task::JoinHandle;

use crate::address::Range;
use crate::bridge::{Bridge, BridgeError};
use crate::cni::{Books, Places};
use crate::dataplane::Dataplane;
use crate::dns::{self, Domain, Forwarder, Server};
use crate::policies;
use crate::routes::{self, Routes};
use crate::services::{self, Here};

/// Where names are answered.
const DNS_PORT: u16 = 53;

/// Where it is told how often; CoreDNS has the same port.
const DNS_METRICS_PORT: u16 = 9153;

/// What a node is told.
#[derive(Clone, Debug)]
pub struct NodeNetworkConfig {
    pub here: Here,
    /// What gives Pods their network. Nothing where somebody else does: there they look names up as the node does.
    pub own: Option<Own>,
}

/// A network of Pods that is ours to lay.
#[derive(Clone, Debug)]
pub struct Own {
    /// Where the runtime looks for it.
    pub places: Places,
    /// Where it is written down which Pod has which address.
    pub books: PathBuf,
    /// The address at which Pods ask for names.
    pub names: IpAddr,
    pub domain: String,
    /// The text of the node's own `resolv.conf`, which names the servers for names outside the cluster.
    pub resolv_conf: String,
}

/// The addresses of a node's Pods, and of all Pods of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRanges {
    pub node: Vec<Range>,
    pub cluster: Vec<Range>,
}

/// Why a node's Pods have no network.
#[derive(Debug, thiserror::Error)]
pub enum LayError {
    #[error("{0}")]
    Bridge(#[from] BridgeError),
    #[error("the configuration of Pods' network cannot be written: {0}")]
    Configuration(#[from] std::io::Error),
}

impl NodeNetworkConfig {
    /// Lays the bridge between this node's Pods, and tells the runtime of it. Nothing if that is not ours to do.
    pub async fn lay(&mut self, ranges: &PodRanges) -> Result<Option<Bridge>, LayError> {
        let Some(own) = &self.own else { return Ok(None) };
        self.here.pods = all_of(ranges);
        let bridge = Bridge {
            name: self.here.bridge.clone(),
            pods: ranges.node.clone(),
            cluster: ranges.cluster.clone(),
            services: self.here.services.clone(),
            books: own.books.clone(),
        };
        bridge.lay().await?;
        let file = own.places.configure(&bridge)?;
        tracing::debug!(bridge = bridge.name, file = %file.display(), "Pods have a network");
        let strangers = Books::new(&bridge.books).outside(&bridge.pods);
        if !strangers.is_empty() {
            let (count, first) = (strangers.len(), strangers[0]);
            tracing::warn!(%first, count, "the range of this node's Pods changed: Pods with addresses outside of it are not reached from other machines; delete them");
        }
        Ok(Some(bridge))
    }
}

/// The ranges of the cluster, and those of the node that lie outside of them.
fn all_of(ranges: &PodRanges) -> Vec<Range> {
    let outside = ranges.node.iter().filter(|own| !ranges.cluster.iter().any(|all| all.contains(own.first())));
    ranges.cluster.iter().chain(outside).copied().collect()
}

/// The loops of a node's network. Dropping it stops them; the rules stay, and packets flow on.
pub struct NodeNetwork {
    trigger: Trigger,
    tasks: Vec<JoinHandle<()>>,
    here: Here,
    dataplane: Arc<dyn Dataplane>,
    routes: Option<Arc<Routes>>,
}

/// Why names cannot be answered here.
#[derive(Debug, thiserror::Error)]
pub enum NamesError {
    #[error("names cannot be answered at {0}: {1}")]
    Listen(SocketAddr, std::io::Error),
    #[error("{0:?} is not a domain: {1}")]
    Domain(String, String),
}

impl NodeNetwork {
    /// Starts the loops, and says what does not work; the rest does. With a bridge, names are answered at its address.
    pub async fn start(
        context: &Context,
        config: NodeNetworkConfig,
        bridge: Option<&Bridge>,
        dataplane: Arc<dyn Dataplane>,
    ) -> (NodeNetwork, Result<(), NamesError>) {
        let (trigger, own) = context.named("kube-proxy");
        let here = config.here.clone();
        let mut tasks = vec![
            tokio::spawn(services::run(own.clone(), here.clone(), dataplane.clone())),
            tokio::spawn(policies::run(own.clone(), here.clone(), dataplane.clone())),
        ];
        let routes = bridge.map(|bridge| Arc::new(Routes::new(bridge, dataplane.clone())));
        if let Some((bridge, routes)) = bridge.zip(routes.clone()) {
            tasks.push(tokio::spawn(routes::run(own.clone(), here.node.clone(), bridge.clone(), routes)));
        }
        let gateway = bridge.and_then(|bridge| bridge.gateway().ok());
        let answered = match (config.own, gateway) {
            (Some(network), Some(gateway)) => {
                answer(&own, &here.node, network, gateway).await.map(|more| tasks.extend(more))
            }
            _ => Ok(()),
        };
        (NodeNetwork { trigger, tasks, here, dataplane, routes }, answered)
    }

    pub async fn stop(self) {
        self.trigger.fire();
        for task in self.tasks {
            // One that panicked has ended too.
            let _ = task.await;
        }
    }

    /// Stops, and takes rules and routes away.
    pub async fn remove(self) {
        let (removal, dataplane, routes) = (self.here.removal(), self.dataplane.clone(), self.routes.clone());
        self.stop().await;
        if let Some(routes) = routes {
            routes.remove().await;
        }
        if let Err(error) = dataplane.apply(&removal).await {
            tracing::warn!(%error, "rules are left behind");
        }
    }
}

async fn answer(
    context: &Context,
    node: &str,
    network: Own,
    gateway: IpAddr,
) -> Result<[JoinHandle<()>; 2], NamesError> {
    let Own { names, domain, resolv_conf, .. } = network;
    let at = SocketAddr::new(gateway, DNS_PORT);
    let wrong = |error: hickory_proto::ProtoError| NamesError::Domain(domain.clone(), error.to_string());
    let forwarder = Forwarder::of_resolv_conf(&resolv_conf, names, context.random.fork());
    let server = Arc::new(Server::new(Domain::new(&domain, Some(names)).map_err(wrong)?, forwarder));
    let listening = server.listen(at, context.shutdown.clone()).await;
    listening.map_err(|error| NamesError::Listen(at, error))?;
    let metrics = SocketAddr::new(gateway, DNS_METRICS_PORT);
    if let Err(error) = server.serve_metrics(metrics, context.shutdown.clone()).await {
        tracing::warn!(%metrics, %error, "metrics of the name server cannot be served");
    }
    let published = dns::publish::run(context.clone(), node.to_owned(), gateway);
    Ok([tokio::spawn(dns::run(context.clone(), server)), tokio::spawn(published)])
}
