//! Starting a cluster in the test's process, its clients and its loops.

use crate::Faults;
use crate::activity::Activity;
use jiff::Timestamp;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use pintle_apiserver::authn::User;
use pintle_apiserver::pki::TokenKey;
use pintle_apiserver::{ApiServer, Parts};
use pintle_container::Simulated;
use pintle_controllers::roster::{self, Running};
use pintle_kubelet::Fleet;
use pintle_meta::{Clock, Random};
use pintle_runtime::{Context, Shutdown, Trigger};
use pintle_scheduler::Scheduler;
use pintle_store::MemoryStore;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

/// Where every test's clock starts.
const EPOCH: i64 = 1_800_000_000;

/// What a cluster is made of.
#[derive(Clone)]
pub struct Builder {
    seed: u64,
    loops: Vec<&'static str>,
    nodes: u16,
    scheduler: bool,
    store: Option<Arc<MemoryStore>>,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            seed: 1,
            loops: roster::roster().iter().map(|l| l.name).collect(),
            nodes: 1,
            scheduler: true,
            store: None,
        }
    }
}

impl Builder {
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Only these loops; none for an API server alone.
    #[must_use]
    pub fn loops(mut self, loops: &[&'static str]) -> Self {
        self.loops = loops.to_vec();
        self
    }

    #[must_use]
    pub fn nodes(mut self, nodes: u16) -> Self {
        self.nodes = nodes;
        self
    }

    #[must_use]
    pub fn scheduler(mut self, scheduler: bool) -> Self {
        self.scheduler = scheduler;
        self
    }

    /// On a store of another cluster: what restarting everything over the same state is.
    #[must_use]
    pub fn store(mut self, store: Arc<MemoryStore>) -> Self {
        self.store = Some(store);
        self
    }

    pub async fn start(self) -> Cluster {
        Cluster::build(self).await
    }
}

/// A running cluster. Dropping it stops everything.
pub struct Cluster {
    pub server: ApiServer,
    pub store: Arc<MemoryStore>,
    pub clock: Clock,
    pub random: Random,
    /// What happens to the requests of the loops.
    pub faults: Faults,
    context: Context,
    running: Mutex<BTreeMap<&'static str, Running>>,
    scheduler: Mutex<Option<Scheduler>>,
    fleet: Mutex<Option<Fleet>>,
    nodes: u16,
    /// The simulated machines and their containers.
    world: Simulated,
    activity: Mutex<Activity>,
    _stop: Trigger,
}

impl Cluster {
    /// A cluster with every loop and one node.
    pub async fn start() -> Cluster {
        Builder::default().start().await
    }

    /// An API server, and nothing that acts on its own.
    pub async fn bare() -> Cluster {
        Builder::default().loops(&[]).nodes(0).scheduler(false).start().await
    }

    pub fn builder() -> Builder {
        Builder::default()
    }

    async fn build(builder: Builder) -> Cluster {
        let epoch = Timestamp::from_second(EPOCH).unwrap_or(Timestamp::UNIX_EPOCH);
        let (clock, random) = (Clock::virtual_from(epoch), Random::seeded(builder.seed));
        let store = builder.store.unwrap_or_else(|| Arc::new(MemoryStore::new()));
        let parts =
            Parts { store: store.clone(), clock: clock.clone(), random: random.clone(), token_key: token_key() };
        let server = ApiServer::start(parts).await.unwrap_or_else(|error| panic!("{error}"));
        tokio::spawn({
            let server = server.clone();
            async move { server.run().await }
        });
        let (stop, shutdown) = Shutdown::new();
        let activity = Mutex::new(Activity::of(&*store));
        let world = Simulated::new(clock.clone());
        let faults = Faults::default();
        let client = faults.over(server.client(User::internal("system:kube-controller-manager")));
        let context = Context::new(client, clock.clone(), random.clone(), shutdown);
        let cluster = Cluster {
            server,
            store,
            clock,
            random,
            faults,
            context,
            running: Mutex::default(),
            scheduler: Mutex::default(),
            fleet: Mutex::default(),
            nodes: builder.nodes,
            world,
            activity,
            _stop: stop,
        };
        for name in builder.loops {
            cluster.start_loop(name);
        }
        if builder.scheduler {
            cluster.start_scheduler();
        }
        if builder.nodes > 0 {
            cluster.start_nodes();
        }
        cluster
    }

    /// A client with the administrator's rights, on which no fault acts.
    pub fn client(&self) -> Client {
        self.server.client(User::internal("kubernetes-admin"))
    }

    /// A client that acts as `user`, with exactly that user's rights.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Client {
        self.server.client(User::new(user, groups))
    }

    /// The context that loops of this cluster get; a test's own loop takes it too.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Starts a loop by its name in the roster.
    ///
    /// # Panics
    ///
    /// When there is no such loop.
    pub fn start_loop(&self, name: &'static str) {
        let started = roster::start(&self.context, &[name], &roster::Options::default());
        let started = started.unwrap_or_else(|error| panic!("{error}"));
        lock(&self.running).extend(started.into_iter().map(|running| (running.name, running)));
    }

    /// Ends a loop at its next await, as losing the process would.
    pub async fn crash_loop(&self, name: &str) {
        let running = lock(&self.running).remove(name);
        if let Some(running) = running {
            running.crash().await;
        }
    }

    /// Applies an object as `kubectl apply --server-side --force-conflicts` would.
    ///
    /// # Panics
    ///
    /// When the server refuses it.
    pub async fn apply(&self, object: Value) -> DynamicObject {
        let (api, object) = self.dynamic(object).await;
        let parameters = PatchParams::apply("testkit").force();
        let applied = api.patch(&object.name_any(), &parameters, &Patch::Apply(&object)).await;
        applied.unwrap_or_else(|error| panic!("{} was refused: {error}", object.name_any()))
    }

    /// Creates an object; the error is the server's.
    pub async fn create(&self, object: Value) -> Result<DynamicObject, kube::Error> {
        let (api, object) = self.dynamic(object).await;
        api.create(&PostParams::default(), &object).await
    }

    async fn dynamic(&self, object: Value) -> (Api<DynamicObject>, DynamicObject) {
        let object: DynamicObject = serde_json::from_value(object).unwrap_or_else(|e| panic!("not an object: {e}"));
        let types = object.types.clone().unwrap_or_default();
        let gvk = GroupVersionKind::try_from(&types).unwrap_or_else(|e| panic!("{e}"));
        let catalogue = self.server.registry.catalogue.load_full();
        let plural = catalogue.of_group_version(&gvk.group, &gvk.version).find(|r| r.kind == gvk.kind);
        let resource = match plural {
            Some(resource) => ApiResource::from_gvk_with_plural(&gvk, &resource.name),
            None => ApiResource::from_gvk(&gvk),
        };
        let api = match object.namespace() {
            Some(namespace) => Api::namespaced_with(self.client(), &namespace, &resource),
            None => Api::all_with(self.client(), &resource),
        };
        (api, object)
    }

    /// A typed view of a namespace.
    pub fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client(), namespace)
    }

    pub fn start_scheduler(&self) {
        *lock(&self.scheduler) = Some(Scheduler::start(&self.context));
    }

    pub async fn crash_scheduler(&self) {
        let scheduler = lock(&self.scheduler).take();
        if let Some(scheduler) = scheduler {
            scheduler.crash().await;
        }
    }

    /// Starts the agents of all nodes, over the containers that run there.
    pub fn start_nodes(&self) {
        self.start_nodes_of(self.nodes);
    }

    /// Starts the agents of the first `count` nodes.
    pub fn start_nodes_of(&self, count: u16) {
        *lock(&self.fleet) = Some(Fleet::simulated(&self.context, &self.world, count));
    }

    /// Ends all node agents; containers run on.
    pub async fn crash_nodes(&self) {
        let fleet = lock(&self.fleet).take();
        if let Some(fleet) = fleet {
            fleet.crash().await;
        }
    }

    /// How many writes there were, Leases and Events left out: those never end.
    pub(crate) fn writes(&self) -> u64 {
        lock(&self.activity).count()
    }

    /// What changed most often of late, for the message of a cluster that does not come to rest.
    pub(crate) fn hottest(&self) -> String {
        lock(&self.activity).hottest()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.server.stop();
    }
}

/// Making a key takes longer than starting a cluster: one is enough for all tests of a process.
fn token_key() -> TokenKey {
    static KEY: OnceLock<TokenKey> = OnceLock::new();
    KEY.get_or_init(|| TokenKey::generate().unwrap_or_else(|error| panic!("{error}"))).clone()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
