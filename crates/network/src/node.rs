//! What one node does for packets: rules for Services, and names.

use std::net::IpAddr;
use std::sync::Arc;

use pintle_runtime::{Context, Trigger};
use tokio::task::JoinHandle;

use crate::dataplane::Dataplane;
use crate::dns::{self, Domain, Forwarder, Published, Server};
use crate::services::{self, Here};

/// What a node is told.
#[derive(Clone, Debug)]
pub struct NodeNetworkConfig {
    pub here: Here,
    /// Without it Pods look names up elsewhere.
    pub names: Option<Names>,
}

#[derive(Clone, Debug)]
pub struct Names {
    pub published: Published,
    pub domain: String,
    /// The text of the node's own `resolv.conf`, which names the servers for names outside the cluster.
    pub resolv_conf: String,
}

/// The loops of a node's network. Dropping it stops them; the rules stay, and packets flow on.
pub struct NodeNetwork {
    trigger: Trigger,
    tasks: Vec<JoinHandle<()>>,
    here: Here,
    dataplane: Arc<dyn Dataplane>,
}

/// Why names cannot be answered here.
#[derive(Debug, thiserror::Error)]
pub enum NamesError {
    #[error("names cannot be answered at {0}: {1}")]
    Listen(std::net::SocketAddr, std::io::Error),
    #[error("{0:?} is not a domain: {1}")]
    Domain(String, String),
}

impl NodeNetwork {
    /// Starts the loops, and says what does not work; the rest does.
    pub async fn start(
        context: &Context,
        config: NodeNetworkConfig,
        dataplane: Arc<dyn Dataplane>,
    ) -> (NodeNetwork, Result<(), NamesError>) {
        let (trigger, own) = context.named("kube-proxy");
        let here = config.here.clone();
        let mut tasks = vec![tokio::spawn(services::run(own.clone(), here.clone(), dataplane.clone()))];
        let answered = match config.names {
            Some(names) => answer(&own, names).await.map(|more| tasks.extend(more)),
            None => Ok(()),
        };
        (NodeNetwork { trigger, tasks, here, dataplane }, answered)
    }

    pub async fn stop(self) {
        self.trigger.fire();
        for task in self.tasks {
            // One that panicked has ended too.
            let _ = task.await;
        }
    }

    /// Stops, and takes the rules away.
    pub async fn remove(self) {
        let (removal, dataplane) = (self.here.removal(), self.dataplane.clone());
        self.stop().await;
        if let Err(error) = dataplane.apply(&removal).await {
            tracing::warn!(%error, "rules of Services are left behind");
        }
    }
}

async fn answer(context: &Context, names: Names) -> Result<[JoinHandle<()>; 2], NamesError> {
    let Names { published, domain, resolv_conf } = names;
    let own: IpAddr = published.service;
    let wrong = |error: hickory_proto::ProtoError| NamesError::Domain(domain.clone(), error.to_string());
    let forwarder = Forwarder::of_resolv_conf(&resolv_conf, own, context.random.fork());
    let server = Arc::new(Server::new(Domain::new(&domain, Some(own)).map_err(wrong)?, forwarder));
    let listening = server.listen(published.at, context.shutdown.clone()).await;
    listening.map_err(|error| NamesError::Listen(published.at, error))?;
    Ok([tokio::spawn(dns::run(context.clone(), server)), tokio::spawn(dns::publish::run(context.clone(), published))])
}
