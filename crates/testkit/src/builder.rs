//! What a cluster is made of, said before it starts.

use crate::Cluster;
use jiff::Timestamp;
use pintle_apiserver::Pace;
use pintle_controllers::roster;
use pintle_kubelet::LEASE;
use pintle_store::MemoryStore;
use std::sync::Arc;
use std::time::Duration;

/// A cluster under construction.
#[derive(Clone)]
pub struct Builder {
    pub(crate) seed: u64,
    pub(crate) loops: Vec<&'static str>,
    pub(crate) nodes: u16,
    pub(crate) lease: Duration,
    pub(crate) scheduler: bool,
    pub(crate) isolated: bool,
    pub(crate) network: bool,
    pub(crate) usage: bool,
    pub(crate) makes_volumes: bool,
    pub(crate) store: Option<Arc<MemoryStore>>,
    pub(crate) pace: Pace,
    pub(crate) epoch: Timestamp,
    pub(crate) root_ca: String,
    pub(crate) reviewers: Reviewers,
}

/// Programs that the API server asks about users, by URL.
#[derive(Clone, Default)]
pub(crate) struct Reviewers {
    pub(crate) tokens: Option<String>,
    pub(crate) access: Option<String>,
}

/// Slower than a server's own: history costs nothing in a test, and virtual hours should not be spent on bookmarks.
const UNHURRIED: Pace = Pace {
    expiry: Duration::from_secs(10),
    compaction: Duration::from_secs(3600),
    bookmarks: Duration::from_secs(1200),
};

/// Where every test's clock starts.
const EPOCH: i64 = 1_800_000_000;

impl Default for Builder {
    fn default() -> Self {
        Builder {
            seed: 1,
            loops: roster::roster().iter().map(|l| l.name).collect(),
            nodes: 1,
            lease: LEASE,
            scheduler: true,
            isolated: false,
            network: false,
            usage: false,
            makes_volumes: false,
            store: None,
            pace: UNHURRIED,
            epoch: Timestamp::from_second(EPOCH).unwrap_or(Timestamp::UNIX_EPOCH),
            // A certificate that is none: what is published is what was given.
            root_ca: "the test's root".to_owned(),
            reviewers: Reviewers::default(),
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

    /// For how long the nodes' Leases hold; they are renewed four times as often, and a silent node is given up a quarter later
    /// than its Lease ends. Heartbeats are most of what a quiet day costs: a test of many hours can do with fewer.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    #[must_use]
    pub fn scheduler(mut self, scheduler: bool) -> Self {
        self.scheduler = scheduler;
        self
    }

    /// Every built-in loop gets informers of its own, as separate processes have: a fault then acts on the watches of
    /// one loop alone. Without it they share informers, which is faster.
    #[must_use]
    pub fn isolated(mut self) -> Self {
        self.isolated = true;
        self
    }

    /// Nodes carry packets: each has the loops of Services and NetworkPolicies, over a kernel that writes down what it is told
    /// ([`Cluster::scripts`], [`Cluster::rules`]).
    #[must_use]
    pub fn network(mut self) -> Self {
        self.network = true;
        self
    }

    /// The API server asks the nodes what their Pods use, and serves `metrics.k8s.io`.
    #[must_use]
    pub fn usage(mut self) -> Self {
        self.usage = true;
        self
    }

    /// Claims get volumes of the cluster's default class, as with `pintle up`. Simulated nodes have no disks: nothing is written.
    #[must_use]
    pub fn local_volumes(mut self) -> Self {
        self.makes_volumes = true;
        self
    }

    /// On a store of another cluster: what restarting everything over the same state is.
    #[must_use]
    pub fn store(mut self, store: Arc<MemoryStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// How often the server tells watches how far they are, forgets history and looks for what has expired.
    #[must_use]
    pub fn pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// The moment at which the cluster's clock starts.
    #[must_use]
    pub fn epoch(mut self, epoch: Timestamp) -> Self {
        self.epoch = epoch;
        self
    }

    /// The certificate that Pods are given to know the server by.
    #[must_use]
    pub fn root_ca(mut self, pem: &str) -> Self {
        pem.clone_into(&mut self.root_ca);
        self
    }

    /// The API server asks a program whose a token is that it does not know: at `https://SERVICE.NAMESPACE.svc/PATH`, where
    /// [`Cluster::webhook`] puts one. Its certificate is not checked.
    #[must_use]
    pub fn asking_for_tokens(mut self, url: &str) -> Self {
        self.reviewers.tokens = Some(url.to_owned());
        self
    }

    /// The API server asks a program what users may do, after it has asked the node authorizer and before it looks at roles.
    #[must_use]
    pub fn asking_for_access(mut self, url: &str) -> Self {
        self.reviewers.access = Some(url.to_owned());
        self
    }

    pub async fn start(self) -> Cluster {
        Cluster::build(self).await
    }
}
