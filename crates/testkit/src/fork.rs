//! A copy of a running cluster that goes its own way.

use crate::Cluster;
use crate::cluster::Origin;
use pintle_meta::Clock;
use std::sync::Arc;

impl Cluster {
    /// A cluster with the same objects at the same moment, the same containers, and the same loops started anew. What
    /// happens in one is not seen in the other. Webhooks of the test stay with the original. Costs the start of a server, whatever the size of the state.
    pub async fn fork(&self) -> Cluster {
        let clock = Clock::virtual_from(self.clock.now());
        let fork = Cluster::over(Origin {
            seed: self.seed,
            store: Arc::new(self.store.fork()),
            random: self.random.fork(),
            world: self.world.fork(clock.clone()),
            kernels: self.kernels.fork(),
            clock,
            nodes: self.nodes,
            lease: self.lease,
            isolated: self.isolated,
            pace: self.server.pace,
            root_ca: self.root_ca.clone(),
            makes_volumes: self.makes_volumes,
            reviewers: self.reviewers.clone(),
        })
        .await;
        for process in self.processes.all() {
            match process.nodes {
                Some(count) => fork.start_nodes_of(count),
                None => fork.processes.start(process),
            }
        }
        fork
    }
}
