//! Starting a cluster in the test's process, its clients and its loops.

use crate::activity::Activity;
use crate::answering::Answering;
use crate::builder::Reviewers;
use crate::network::Kernels;
use crate::outside::Outside;
use crate::processes::Processes;
use crate::{Builder, Faults};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use pintle_apiserver::authn::User;
use pintle_apiserver::pki::TokenKey;
use pintle_apiserver::{ApiServer, Pace, Parts};
use pintle_container::Simulated;
use pintle_meta::{Clock, Random};
use pintle_runtime::{Context, Shutdown, Trigger};
use pintle_store::MemoryStore;
use serde_json::Value;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A running cluster. Dropping it stops everything.
pub struct Cluster {
    pub server: ApiServer,
    pub store: Arc<MemoryStore>,
    pub clock: Clock,
    pub random: Random,
    /// What happens to the requests of the loops.
    pub faults: Faults,
    pub(crate) seed: u64,
    pub(crate) processes: Processes,
    pub(crate) activity: Activity,
    pub(crate) nodes: u16,
    pub(crate) lease: Duration,
    pub(crate) isolated: bool,
    pub(crate) root_ca: String,
    pub(crate) makes_volumes: bool,
    pub(crate) reviewers: Reviewers,
    /// The simulated machines and their containers.
    pub(crate) world: Simulated,
    /// What the kernels of these machines were told.
    pub(crate) kernels: Kernels,
    /// The node agents, as the API server reaches them.
    pub(crate) answering: Answering,
    /// Who listens beside the cluster.
    pub(crate) outside: Outside,
    context: Context,
    _stop: Trigger,
}

/// The state in which a cluster begins.
pub(crate) struct Origin {
    pub(crate) seed: u64,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) world: Simulated,
    pub(crate) kernels: Kernels,
    pub(crate) nodes: u16,
    pub(crate) lease: Duration,
    pub(crate) isolated: bool,
    pub(crate) pace: Pace,
    pub(crate) root_ca: String,
    pub(crate) makes_volumes: bool,
    pub(crate) reviewers: Reviewers,
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

    pub(crate) async fn build(builder: Builder) -> Cluster {
        let clock = Clock::virtual_from(builder.epoch);
        let cluster = Cluster::over(Origin {
            seed: builder.seed,
            store: builder.store.unwrap_or_else(|| Arc::new(MemoryStore::new())),
            random: Random::seeded(builder.seed),
            world: Simulated::new(clock.clone()),
            kernels: Kernels::default(),
            clock,
            nodes: builder.nodes,
            lease: builder.lease,
            isolated: builder.isolated,
            pace: builder.pace,
            root_ca: builder.root_ca,
            makes_volumes: builder.makes_volumes,
            reviewers: builder.reviewers,
        })
        .await;
        if builder.usage {
            cluster.server.set_nodes(Arc::new(cluster.answering.clone())).await;
        }
        for name in builder.loops {
            cluster.start_loop(name);
        }
        if builder.scheduler {
            cluster.start_scheduler();
        }
        if builder.nodes > 0 {
            cluster.start_nodes();
        }
        if builder.network {
            cluster.start_network();
        }
        cluster
    }

    /// A cluster with no loop.
    pub(crate) async fn over(origin: Origin) -> Cluster {
        let Origin {
            seed,
            store,
            clock,
            random,
            world,
            kernels,
            nodes,
            lease,
            isolated,
            root_ca,
            makes_volumes,
            reviewers,
            pace,
        } = origin;
        let activity = Activity::of(&*store);
        let parts = Parts {
            store: store.clone(),
            clock: clock.clone(),
            random: random.clone(),
            token_key: token_key(),
            pace,
            seats: pintle_apiserver::MAX_SEATS,
        };
        let server = ApiServer::start_with(parts, reviewers.access()).await.unwrap_or_else(|error| panic!("{error}"));
        let outside = Outside::default();
        server.registry.outbound.set_network(Arc::new(outside.clone()));
        tokio::spawn({
            let server = server.clone();
            async move { server.run().await }
        });
        let (stop, shutdown) = Shutdown::new();
        let faults = Faults::seeded(seed);
        let client = server.client(User::internal("system:kube-controller-manager"));
        let mut context = Context::new(faults.over(client.clone()), clock.clone(), random.clone(), shutdown);
        context.informers = context.informers.in_process();
        let processes = Processes::new(context.clone(), kernels.over(client), faults.clone());
        Cluster {
            server,
            store,
            clock,
            random,
            faults,
            seed,
            processes,
            activity,
            nodes,
            lease,
            isolated,
            root_ca,
            makes_volumes,
            reviewers,
            world,
            kernels,
            answering: Answering::default(),
            outside,
            context,
            _stop: stop,
        }
    }

    /// A client with the administrator's rights, on which no fault acts.
    pub fn client(&self) -> Client {
        self.server.client(User::internal("kubernetes-admin"))
    }

    /// A client that acts as `user`, with exactly that user's rights.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Client {
        self.server.client(User::new(user, groups))
    }

    /// The machine under a simulated node, to do to it what a script cannot.
    pub fn machine(&self, node: &str) -> Option<Arc<pintle_container::simulated::Node>> {
        self.world.known(node)
    }

    /// The context that loops of this cluster get; a test's own loop takes it too.
    pub fn context(&self) -> &Context {
        &self.context
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
        let catalogue = self.server.registry.catalogue.latest();
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
}

impl Cluster {
    /// How many writes there were, Leases and Events left out: those never end.
    pub fn writes(&self) -> u64 {
        self.activity.count()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.server.stop();
    }
}

/// Making a key takes longer than starting a cluster: one is enough for all tests of a process.
pub(crate) fn token_key() -> TokenKey {
    static KEY: OnceLock<TokenKey> = OnceLock::new();
    KEY.get_or_init(|| TokenKey::generate().unwrap_or_else(|error| panic!("{error}"))).clone()
}
