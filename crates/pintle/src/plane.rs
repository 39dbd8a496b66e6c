//! The one place where the parts are put together: loops, scheduler and nodes over one API server.

use pintle_apiserver::ApiServer;
use pintle_apiserver::authn::User;
use pintle_container::Simulated;
use pintle_controllers::roster::{self, Options, Running};
use pintle_kubelet::Fleet;
use pintle_meta::{Clock, Random};
use pintle_runtime::{Context, Shutdown, Trigger};
use pintle_scheduler::Scheduler;

/// Everything that acts on its own. Dropping it stops it.
pub(crate) struct Plane {
    stop: Trigger,
    loops: Vec<Running>,
    scheduler: Scheduler,
    nodes: Fleet,
}

impl Plane {
    pub(crate) fn start(server: &ApiServer, clock: &Clock, random: &Random, ca_pem: &str, nodes: u16) -> Plane {
        let (stop, shutdown) = Shutdown::new();
        let context = |user: &str| {
            let client = server.client(User::internal(user));
            Context::new(client, clock.clone(), random.clone(), shutdown.clone())
        };
        // The loops share their informers; the nodes have their own client, as if they were elsewhere.
        let control = context("system:kube-controller-manager");
        let options = Options { root_ca: Some(ca_pem.to_owned()) };
        let loops = roster::roster().iter().map(|l| l.start(&control, &options)).collect();
        let scheduler = Scheduler::start(&control);
        let nodes = Fleet::simulated(&control, &Simulated::new(clock.clone()), nodes);
        Plane { stop, loops, scheduler, nodes }
    }

    /// How many loops there are, for the line that says so.
    pub(crate) fn loops(&self) -> usize {
        self.loops.len() + 1
    }

    /// Lets everything finish what it has in hand.
    pub(crate) async fn stop(self) {
        self.stop.fire();
        for running in self.loops {
            running.stop().await;
        }
        self.scheduler.stop().await;
        self.nodes.stop().await;
    }
}
