//! The loops of a cluster: built-in ones by name, a user's own, the scheduler, the node agents.

use crate::Cluster;
use crate::authority::{authority, token_signer};
use crate::cluster::token_key;
use crate::processes::{Factory, Process};
use futures::FutureExt;
use pintle_controllers::{LocalVolumes, roster};
use pintle_kubelet::Fleet;
use pintle_runtime::Context;
use pintle_scheduler::{Prepared, Scheduler};
use std::sync::Arc;

const SCHEDULER: &str = "scheduler";
const NODES: &str = "nodes";

/// The addresses of Pods on nodes that are not simulated.
const POD_RANGE: &str = "10.244.0.0/16";

impl Cluster {
    /// Runs a loop of the test's own under a name, with informers and a client of its own. The function is kept: it is
    /// called again when the loop has crashed.
    pub fn run<F>(&self, name: &str, make: impl Fn(Context) -> F + Send + Sync + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (agent, make) = (name.to_owned(), Arc::new(make));
        let factory: Factory = Arc::new(move |context: Context| {
            let (trigger, named) = context.named(&agent);
            let make = make.clone();
            async move {
                let _until_the_end = trigger;
                make(named).await;
            }
            .boxed()
        });
        self.processes.start(Process {
            name: name.to_owned(),
            agent: name.to_owned(),
            isolated: true,
            factory,
            nodes: None,
        });
    }

    /// Starts a loop by its name in the roster.
    ///
    /// # Panics
    ///
    /// When there is no such loop.
    pub fn start_loop(&self, name: &str) {
        let known = roster::roster().into_iter().find(|known| known.name == name);
        let known =
            known.unwrap_or_else(|| panic!("there is no loop {name:?}; `pintle_controllers::roster` lists them"));
        let (root_ca, makes_volumes, server) = (self.root_ca.clone(), self.makes_volumes, self.server.clone());
        let factory: Factory = Arc::new(move |context: Context| {
            let authority = Some(authority(token_key()));
            let local_volumes = makes_volumes.then_some(LocalVolumes::Simulated);
            let cluster_cidrs = POD_RANGE.parse().into_iter().collect();
            let options = roster::Options {
                root_ca: Some(root_ca.clone()),
                authority,
                token_signer: Some(token_signer(server.clone())),
                local_volumes,
                cluster_cidrs,
                ..Default::default()
            };
            async move { known.run(&context, &options).await }.boxed()
        });
        self.start_process(name, known.agent, factory, None);
    }

    pub fn start_scheduler(&self) {
        let run = |context: Context| async move { Scheduler::run(&context, Prepared::default()).await }.boxed();
        let factory: Factory = Arc::new(run);
        self.start_process(SCHEDULER, pintle_scheduler::scheduler::AGENT, factory, None);
    }

    /// Starts the agents of all nodes, over the containers that run there.
    pub fn start_nodes(&self) {
        self.start_nodes_of(self.nodes);
    }

    /// Starts the agents of the first `count` nodes.
    pub fn start_nodes_of(&self, count: u16) {
        let (world, lease, answering) = (self.world.clone(), self.lease, self.answering.clone());
        let factory: Factory = Arc::new(move |context: Context| {
            let (world, answering) = (world.clone(), answering.clone());
            async move {
                let fleet = Fleet::simulated(&context, &world, count, lease);
                answering.is(fleet.serving());
                let _lost_at_once = Crashing(Some(fleet));
                context.shutdown.fired().await;
            }
            .boxed()
        });
        self.start_process(NODES, pintle_kubelet::fleet::AGENT, factory, Some(count));
    }

    pub(crate) fn start_process(&self, name: &str, agent: &str, factory: Factory, nodes: Option<u16>) {
        let isolated = self.isolated;
        self.processes.start(Process { name: name.to_owned(), agent: agent.to_owned(), isolated, factory, nodes });
    }

    /// Ends a loop at its next await, as losing the process would.
    pub async fn crash_loop(&self, name: &str) {
        self.processes.crash(name).await;
    }

    pub async fn crash_scheduler(&self) {
        self.processes.crash(SCHEDULER).await;
    }

    /// Ends all node agents; containers run on.
    pub async fn crash_nodes(&self) {
        self.processes.crash(NODES).await;
    }

    /// Starts every loop that is down.
    pub fn revive(&self) {
        self.processes.revive();
    }
}

/// A fleet whose end is a crash: it finishes nothing.
struct Crashing(Option<Fleet>);

impl Drop for Crashing {
    fn drop(&mut self) {
        if let Some(fleet) = self.0.take() {
            // Everything is told to end before the first await; nobody waits for it here.
            let _ = fleet.crash().now_or_never();
        }
    }
}
