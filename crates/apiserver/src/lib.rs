//! The API server: every kind through one path, from a connection to the store and back.
//!
//! # Layout
//!
//! In the order in which a request walks it:
//!
//! - [`listener`]: TLS connections, HTTP/1.1 and HTTP/2; [`client`]: callers in this process, without a socket
//! - [`chain`]: the order of all filters
//! - [`request`], [`body`]: what is asked; [`parse`]: JSON and YAML texts as values
//! - [`authn`], [`authz`]: who asks, and whether they may; [`access`]: how they are configured, [`memo`]: what others answered
//! - [`setup`]: all that is configured; [`gates`]: which features are switched
//! - [`flow`]: who waits when more is asked than can be done
//! - [`call`], [`notes`]: the request, described once, and what is learned on its way
//! - [`verb`], [`verbs`], [`subresources`]: one file per verb
//! - [`watches`]: what one pump rendered, many watchers read
//! - [`nodes`]: the way to the nodes and to Pods, for what they answer; [`outbound`]: to webhooks and other API servers
//! - [`incoming`]: a body becomes an object of a kind
//! - [`admission`]: what the cluster has to say about it
//! - [`registry`]: any kind, created, changed and deleted; [`fence`]: not by a leader of the past
//! - [`causes`]: why each recent write happened
//! - [`strategy`], [`resources`]: what is special about a kind; [`no_effect`]: what is stored and has no effect yet
//! - [`catalogue`], [`custom`], [`backend`]: what is served: built-in, custom, and answered by others than the registry;
//!   [`aggregate`]: by other API servers; [`beside`]: being one of those
//! - [`codec`]: objects as bytes; [`table`], [`jsonpath`]: what is shown of them; [`notation`]: JSON, YAML, protobuf;
//!   [`response`]: answers
//! - [`serve`]: discovery, OpenAPI, health, metrics, reviews
//! - [`keys`]: where objects are kept; [`follow`]: state derived from stored objects
//! - [`pki`], [`bootstrap`]: what a new cluster starts with; [`kept`]: what the server says about itself in objects

pub mod access;
pub mod admission;
pub mod aggregate;
pub mod authn;
pub mod authz;
pub mod backend;
pub mod beside;
pub mod body;
pub mod bootstrap;
pub mod call;
pub mod catalogue;
pub mod causes;
pub mod chain;
pub mod client;
pub mod codec;
pub mod custom;
pub mod deadline;
pub mod fence;
pub mod flow;
pub mod follow;
pub mod gates;
pub mod incoming;
pub mod jsonpath;
pub mod kept;
pub mod keys;
pub mod listener;
pub mod manifest;
pub mod memo;
pub mod no_effect;
pub mod nodes;
pub mod notation;
pub mod notes;
pub mod outbound;
pub mod own;
pub mod parse;
pub mod pki;
pub mod registry;
pub mod request;
pub mod resources;
pub mod response;
pub mod serve;
pub mod setup;
pub mod strategy;
pub mod subresources;
pub mod table;
#[cfg(test)]
mod testing;
pub mod verb;
pub mod verbs;
pub mod watches;

use admission::Admission;
use arc_swap::ArcSwapOption;
use authn::keys::{KeyError, Keyring};
use authn::{AuthenticationError, Authenticator, Tokens};
use authz::Authorizer;
use catalogue::Catalogue;
use causes::Causes;
use follow::Follower;
use pintle_meta::{Clock, Random};
use pintle_store::Store;
use registry::Registry;
use setup::Setup;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;

/// How often a server does what it does by itself.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Keys that expire are looked for.
    pub expiry: Duration,
    /// Old history is dropped; watches may resume from what is younger.
    pub compaction: Duration,
    /// A quiet watch is told how far it is.
    pub bookmarks: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            expiry: Duration::from_secs(10),
            compaction: Duration::from_secs(300),
            bookmarks: Duration::from_secs(60),
        }
    }
}

/// A server over a store. Cheap to clone.
#[derive(Clone)]
pub struct ApiServer(Arc<Inner>);

pub struct Inner {
    pub registry: Registry,
    pub authenticator: Authenticator,
    pub authorizer: Arc<Authorizer>,
    pub flow: flow::FlowControl,
    pub metrics: serve::metrics::Metrics,
    pub watches: watches::Pumps,
    pub pace: Pace,
    pub gates: gates::Gates,
    address: OnceLock<String>,
    /// What the loops of this process say about themselves.
    loops: OnceLock<Box<serve::loops::Loops>>,
    nodes: ArcSwapOption<Arc<dyn nodes::Nodes>>,
    network: ArcSwapOption<Arc<dyn nodes::network::Network>>,
    /// What is shown to API servers beside this one.
    pub front_proxy: aggregate::FrontProxyIdentity,
    stop: watch::Sender<bool>,
}

impl Deref for ApiServer {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// What a server is made of.
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub clock: Clock,
    pub random: Random,
    /// The key that signs service account tokens, as two PEM texts.
    pub token_key: pki::TokenKey,
    pub pace: Pace,
    /// Requests that are worked on at once; see [`flow`].
    pub seats: u32,
}

/// As many as keep the processors busy: more would only wait for each other, and longer. No more than Kubernetes has.
pub fn default_seats() -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
    (16 * processors).clamp(MIN_SEATS, MAX_SEATS)
}

const MIN_SEATS: u32 = 32;
pub const MAX_SEATS: u32 = 600;

impl ApiServer {
    /// A server whose store has what a new cluster starts with, and which knows its users by itself.
    pub async fn start(parts: Parts) -> Result<Self, StartError> {
        Self::start_with(parts, Setup::default()).await
    }

    /// The same as it is configured: with other people's authenticators and authorizers, with or without some plugins and versions.
    pub async fn start_with(parts: Parts, setup: impl Into<Setup>) -> Result<Self, StartError> {
        let Parts { store, clock, random, token_key, pace, seats } = parts;
        let Setup { access, admission, served, gates } = setup.into();
        let (mut authentication, authorization) = (access.authentication, access.authorization);
        let keyring = match authentication.keyring.take() {
            Some(keyring) => keyring,
            None => Keyring::new(&token_key.private_pem, Vec::new())?,
        };
        let metrics = serve::metrics::Metrics::default();
        let outbound = Arc::new(outbound::Outbound::new(&clock, metrics.reviews.clone()));
        let tokens = Tokens::new(store.clone(), clock.clone(), keyring, authentication.accounts.clone());
        let authenticator = Authenticator::new(tokens, authentication, &outbound, &clock, &random)?;
        let authorizer = Arc::new(Authorizer::new(&store, authorization, &outbound, &clock, &random));
        let admission = Admission::new(authorizer.clone(), &store, &metrics.webhooks, &admission);
        let flow = flow::FlowControl::new(store.clone(), seats, metrics.flow.clone());
        let server = ApiServer(Arc::new(Inner {
            authenticator,
            authorizer: authorizer.clone(),
            registry: Registry {
                catalogue: Follower::starting_with(
                    store.clone(),
                    &[keys::DEFINITIONS, keys::API_SERVICES],
                    Catalogue::serving(&served),
                ),
                store,
                clock,
                random,
                admission,
                causes: Causes::default(),
                outbound,
                own_loops: std::sync::atomic::AtomicBool::new(true),
            },
            flow,
            metrics,
            watches: watches::Pumps::default(),
            pace,
            gates,
            address: OnceLock::new(),
            loops: OnceLock::new(),
            nodes: ArcSwapOption::empty(),
            network: ArcSwapOption::empty(),
            front_proxy: aggregate::FrontProxyIdentity::default(),
            stop: watch::Sender::new(false),
        }));
        bootstrap::bootstrap(&server).await.map_err(|status| StartError::Bootstrap(status.message))?;
        Ok(server)
    }

    /// The server's own loops: expiry, compaction, definitions, flow schemas, objects about itself, other API servers. Ends when the server stops.
    pub async fn run(&self) {
        if self.registry.catalogue.latest().serves_only_backends() {
            // What a cluster keeps about itself is not this server's.
            tokio::join!(self.expire(), self.compact());
            return;
        }
        let loops = (custom::run(self.clone()), flow::keep::run(self.clone()), kept::run(self.clone()));
        let beside = aggregate::run(self.clone());
        tokio::join!(loops.0, loops.1, loops.2, beside, self.expire(), self.compact());
    }

    async fn expire(&self) {
        while self.pause(self.pace.expiry).await {
            self.registry.causes.expire(self.registry.clock.now());
            if let Err(error) = self.registry.store.expire(self.registry.clock.now_millis()).await {
                tracing::warn!(%error, "expired keys could not be removed");
            }
        }
    }

    async fn compact(&self) {
        let mut keep_after = self.registry.store.revision();
        while self.pause(self.pace.compaction).await {
            self.registry.store.compact(keep_after);
            keep_after = self.registry.store.revision();
        }
    }

    /// Waits; false when the server stops.
    async fn pause(&self, duration: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.stopping() => false,
            () = tokio::time::sleep(duration) => true,
        }
    }

    /// Ends watches, connections and the server's loops.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// Returns when the server stops.
    pub async fn stopping(&self) {
        let mut stop = self.stop.subscribe();
        // The sender lives as long as the server: this cannot fail while it is used.
        let _ = stop.wait_for(|stopped| *stopped).await;
    }

    /// Who tells what the loops of this process do. The first who is named stays.
    pub fn set_loops(&self, loops: impl Fn() -> serde_json::Value + Send + Sync + 'static) {
        let _ = self.loops.set(Box::new(loops));
    }

    fn loops(&self) -> Option<serde_json::Value> {
        self.loops.get().map(|loops| loops())
    }

    /// Where clients reach it, for discovery.
    pub fn set_address(&self, address: String) {
        let _ = self.address.set(address);
    }

    pub fn address(&self) -> &str {
        self.address.get().map(String::as_str).unwrap_or_default()
    }
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Authentication(#[from] AuthenticationError),
    #[error("the first objects of the cluster cannot be written: {0}")]
    Bootstrap(String),
}
