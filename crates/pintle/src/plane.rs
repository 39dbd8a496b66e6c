//! The one place where the parts are put together: loops, scheduler and nodes over one API server.

use crate::loops::{Choice, SCHEDULER, account};
use crate::machine::{self, Machine, Nodes};
use crate::reach::{self, Reach};
use pintle_apiserver::ApiServer;
use pintle_apiserver::authn::{Legacy, User};
use pintle_apiserver::nodes::network::Direct;
use pintle_apiserver::nodes::remote::Remote;
use pintle_apiserver::pki::{Pki, PkiError, Terms};
use pintle_container::Simulated;
use pintle_controllers::roster::{Options, Running};
use pintle_controllers::{Authority, Concurrency, LocalVolumes, Order, SecretToken, TokenSigner};
use pintle_kubelet::{Fleet, LEASE};
use pintle_meta::{Clock, Random};
use pintle_network::{NodeNetwork, Range};
use pintle_runtime::{Board, Context, LeaderConfig, Leadership, Shutdown, Trigger, lead};
use pintle_scheduler::{Prepared, Scheduler};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::task::JoinHandle;

/// Everything that acts on its own. Dropping it stops it.
pub(crate) struct Plane {
    stop: Trigger,
    loops: Loops,
    nodes: Fleet,
    machine: Option<Box<Machine>>,
    network: Option<NodeNetwork>,
    control: Context,
    /// Pods of simulated nodes have addresses that nobody has.
    has_network: bool,
}

/// Which loops run, and what they are told.
pub(crate) struct Chosen<'a> {
    pub(crate) loops: &'a Choice,
    /// The addresses of all Pods, of which each machine gets a part.
    pub(crate) pods: &'a [Range],
    pub(crate) concurrency: Concurrency,
    pub(crate) scheduler: &'a Prepared,
    /// Where volumes of the default class are made.
    pub(crate) volumes: Option<&'a Path>,
}

/// The loops and the scheduler, which is one too.
enum Loops {
    /// This process is the only one over its store.
    Alone { running: Vec<Running>, scheduler: Option<Scheduler> },
    /// Others run the same loops; each acts in one process at a time.
    Elected(Vec<JoinHandle<()>>),
}

impl Plane {
    /// With an identity every loop acts only while this process holds the loop's Lease. Without one no Lease is written,
    /// which is right for a store that only this process can have open.
    pub(crate) fn start(
        server: &ApiServer,
        clock: &Clock,
        random: &Random,
        pki: &Arc<Pki>,
        nodes: Nodes,
        identity: Option<String>,
        chosen: &Chosen<'_>,
    ) -> Plane {
        let choice = chosen.loops;
        server.registry.own_loops.store(!choice.is_none(), Ordering::Relaxed);
        let (stop, shutdown) = Shutdown::new();
        let board = Board::default();
        server.set_loops({
            let board = board.clone();
            move || account::of(&board)
        });
        let context = {
            let (server, clock, random, board) = (server.clone(), clock.clone(), random.clone(), board.clone());
            move |shutdown: Shutdown| {
                let client = server.client(User::internal("system:kube-controller-manager"));
                let mut context = Context::new(client, clock.clone(), random.clone(), shutdown);
                // Every leadership has a context of its own; what its loop does is shown with the others.
                context.board = board.clone();
                context
            }
        };
        // Everything that is not elected shares its informers.
        let control = context(shutdown);
        let is_node = matches!(nodes, Nodes::Machine(_));
        let has_network = matches!(nodes, Nodes::Machine(_) | Nodes::Simulated(0));
        let options = Options {
            root_ca: Some(pki.ca_pem.clone()),
            authority: Some(authority(pki.clone())),
            token_signer: Some(token_signer(server.clone())),
            is_node,
            // Of several processes any may lead the loop, and each has a disk of its own.
            local_volumes: chosen
                .volumes
                .filter(|_| identity.is_none())
                .and_then(|directory| volumes_of(&nodes, directory)),
            cluster_cidrs: chosen.pods.to_vec(),
            concurrency: chosen.concurrency.clone(),
        };
        let loops = match identity {
            None => Loops::Alone {
                running: choice.of_roster().iter().map(|known| known.start(&control, &options)).collect(),
                scheduler: choice.has(SCHEDULER).then(|| Scheduler::start(&control, chosen.scheduler.clone())),
            },
            Some(identity) => {
                Loops::Elected(elected(&control, (&options, chosen.scheduler), &identity, context, choice))
            }
        };
        let (nodes, machine) = match nodes {
            Nodes::Simulated(count) => (Fleet::simulated(&control, &Simulated::new(clock.clone()), count, LEASE), None),
            Nodes::Machine(machine) => {
                let fleet = Fleet::start(&control);
                fleet.add(machine.config.clone(), machine.runtime.clone());
                (fleet, Some(machine))
            }
        };
        Plane { stop, loops, nodes, machine, network: None, control, has_network }
    }

    /// Lets the API server reach the nodes of this process, and others this machine where that listens.
    pub(crate) async fn reach(
        &self,
        server: &ApiServer,
        listening: IpAddr,
        pki: &Pki,
        clock: &Clock,
    ) -> Result<(), PkiError> {
        let remote = Remote::new(&pki.ca_pem, &pki.node_client(clock.now())?)?;
        server.set_nodes(Arc::new(Reach { serving: self.nodes.serving(), remote })).await;
        if self.has_network {
            server.set_network(Arc::new(Direct::default()));
        }
        if let Some(machine) = &self.machine {
            let of = (machine.config.name.as_str(), machine.config.address);
            let shutdown = self.control.shutdown.clone();
            reach::listen(server, self.nodes.serving(), of, listening, pki, clock, shutdown).await?;
        }
        Ok(())
    }

    /// Lets packets of this machine's Pods find Services, and Pods names.
    pub(crate) async fn carry(&mut self) {
        if let Some(machine) = &self.machine {
            self.network = machine::carry(&self.control, machine).await;
        }
    }

    /// An address of this machine at which its Pods reach it, whatever else it has.
    pub(crate) fn gateway(&self) -> Option<IpAddr> {
        self.machine.as_ref()?.bridge.as_ref()?.gateway().ok()
    }

    /// How many loops there are, for the line that says so.
    pub(crate) fn loops(&self) -> usize {
        match &self.loops {
            Loops::Alone { running, scheduler } => running.len() + usize::from(scheduler.is_some()),
            Loops::Elected(tasks) => tasks.len(),
        }
    }

    /// Lets everything finish what it has in hand, and gives every Lease back.
    pub(crate) async fn stop(self) {
        self.stop.fire();
        match self.loops {
            Loops::Alone { running, scheduler } => {
                for running in running {
                    running.stop().await;
                }
                if let Some(scheduler) = scheduler {
                    scheduler.stop().await;
                }
            }
            Loops::Elected(tasks) => {
                for task in tasks {
                    // One that panicked has ended too.
                    let _ = task.await;
                }
            }
        }
        self.nodes.stop().await;
        machine::stop(self.network, self.machine.map(|machine| *machine)).await;
    }
}

/// The server's own key, as the loop that fills Secrets knows it.
fn token_signer(server: ApiServer) -> TokenSigner {
    Arc::new(move |token| {
        let SecretToken { namespace, secret, account, account_uid } = token.clone();
        let of = Legacy { namespace, secret, account, account_uid };
        server.issue_for_secret(of).map_err(|error| error.to_string())
    })
}

/// Where claims of the default class get their volumes: on this machine, if that is the node.
fn volumes_of(nodes: &Nodes, directory: &Path) -> Option<LocalVolumes> {
    match nodes {
        Nodes::Simulated(0) => None,
        Nodes::Simulated(_) => Some(LocalVolumes::Simulated),
        Nodes::Machine(machine) => {
            let directory = std::path::absolute(directory).ok()?;
            Some(LocalVolumes::Below { directory, node: machine.config.name.clone() })
        }
    }
}

/// The cluster's authority, as the loop that signs knows it.
fn authority(pki: Arc<Pki>) -> Authority {
    Arc::new(move |order| {
        let Order { request, usages, not_before, not_after, serial } = order;
        let terms = Terms { usages, not_before: *not_before, not_after: *not_after, serial: *serial };
        pki.sign_request(request, &terms).map_err(|error| error.to_string())
    })
}

/// Every loop under a Lease of its own name, the scheduler under the name that Kubernetes' own would compete for.
///
/// Each leadership has a context of its own: its informers list after the Lease was won, so that the loop sees all that
/// its predecessor wrote. Informers that were kept warm could be behind that, and a loop would do again what was done.
fn elected(
    control: &Context,
    (options, scheduler): (&Options, &Prepared),
    identity: &str,
    context: impl Fn(Shutdown) -> Context + Clone + Send + Sync + 'static,
    choice: &Choice,
) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    for known in choice.of_roster() {
        let (own, config) = (control.clone(), LeaderConfig::new(known.name, identity));
        let (context, options) = (context.clone(), options.clone());
        tasks.push(tokio::spawn(async move {
            let run = async |leadership: Leadership| {
                known.run(&context(leadership.shutdown.clone()).led(&leadership), &options).await;
            };
            lead(&own, config, run).await;
        }));
    }
    if !choice.has(SCHEDULER) {
        return tasks;
    }
    let (own, config) = (control.clone(), LeaderConfig::new(pintle_scheduler::scheduler::AGENT, identity));
    let scheduler = scheduler.clone();
    tasks.push(tokio::spawn(async move {
        let run = async |leadership: Leadership| {
            Scheduler::run(&context(leadership.shutdown.clone()).led(&leadership), scheduler.clone()).await;
        };
        lead(&own, config, run).await;
    }));
    tasks
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::coordination::v1::Lease;
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
    use pintle_apiserver::{Pace, Parts};
    use pintle_store::MemoryStore;
    use serde_json::json;

    use super::*;

    /// An API server in memory, in virtual time.
    async fn serve() -> (ApiServer, kube::Client, Clock, Arc<Pki>) {
        let clock = Clock::virtual_from(Clock::system().now());
        let pki = Arc::new(Pki::generate(clock.now()).unwrap());
        let token_key = pki.token_key.clone();
        let store = Arc::new(MemoryStore::new());
        let (random, pace, seats) = (Random::seeded(2), Pace::default(), pintle_apiserver::default_seats());
        let parts = Parts { store, clock: clock.clone(), random, token_key, pace, seats };
        let server = ApiServer::start(parts).await.unwrap_or_else(|error| panic!("{error}"));
        let client = server.client(User::internal("system:kube-controller-manager"));
        (server, client, clock, pki)
    }

    /// Who holds the Leases of the loops.
    async fn holders(client: &kube::Client) -> Vec<String> {
        let leases =
            Api::<Lease>::namespaced(client.clone(), "kube-system").list(&ListParams::default()).await.unwrap();
        leases.items.into_iter().filter_map(|lease| lease.spec?.holder_identity).collect()
    }

    /// Looks for a minute of virtual time.
    async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
        for _ in 0..600 {
            if holds().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("a minute has passed, and not: {what}");
    }

    #[tokio::test(start_paused = true)]
    async fn when_one_of_two_processes_stops_the_other_goes_on_with_every_loop() {
        let (server, client, clock, pki) = serve().await;
        let random = Random::seeded(1);
        let all = Choice::parse("*").unwrap();
        let all = Chosen {
            loops: &all,
            pods: &[],
            concurrency: Concurrency::default(),
            scheduler: &Prepared::default(),
            volumes: None,
        };
        let begin =
            |name: &str| Plane::start(&server, &clock, &random, &pki, Nodes::Simulated(0), Some(name.to_owned()), &all);
        let all_held_by = async |name: &str, count: usize| {
            let holders = holders(&client).await;
            holders.len() == count && holders.iter().all(|holder| holder == name)
        };
        let deployments = Api::<Deployment>::namespaced(client.clone(), "default");
        let pods = Api::<Pod>::namespaced(client.clone(), "default");
        let count = async || pods.list(&ListParams::default()).await.unwrap().items.len();

        let first = begin("first");
        let loops = first.loops();
        eventually("the first leads every loop", async || all_held_by("first", loops).await).await;
        let second = begin("second");
        let web: Deployment = serde_json::from_value(json!({
            "metadata": {"name": "web"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
        }))
        .unwrap();
        deployments.create(&PostParams::default(), &web).await.unwrap();
        eventually("two Pods are made", async || count().await == 2).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(all_held_by("first", loops).await, "{:?}", holders(&client).await);

        first.stop().await;
        let stopped = tokio::time::Instant::now();
        eventually("the second leads every loop", async || all_held_by("second", loops).await).await;
        assert!(stopped.elapsed() < Duration::from_millis(3500), "it took {:?}", stopped.elapsed());
        let more = Patch::Merge(json!({"spec": {"replicas": 3}}));
        deployments.patch("web", &PatchParams::default(), &more).await.unwrap();
        eventually("a third Pod is made", async || count().await == 3).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(count().await, 3, "what the first had made is not made again");
        second.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_is_alone_writes_no_leases() {
        let (server, client, clock, pki) = serve().await;
        let all = Choice::parse("*").unwrap();
        let all = Chosen {
            loops: &all,
            pods: &[],
            concurrency: Concurrency::default(),
            scheduler: &Prepared::default(),
            volumes: None,
        };
        let plane = Plane::start(&server, &clock, &Random::seeded(1), &pki, Nodes::Simulated(0), None, &all);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(holders(&client).await.is_empty());
        plane.stop().await;
    }
}
