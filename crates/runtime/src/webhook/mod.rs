//! A webhook server that makes, shares and renews its own certificates, and tells the API server whom to trust. It answers for
//! admission, for conversions between versions of a kind, for tokens and for access.
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::Pod;
//! use pintle_runtime::Context;
//! use pintle_runtime::webhook::{Mutation, Verdict, WebhookConfig, WebhookError, WebhookServer};
//!
//! async fn run(context: &Context) -> Result<(), WebhookError> {
//!     let mut config = WebhookConfig::new("at-system", "at-webhook", "at-webhook-tls");
//!     config.mutating_configurations = vec!["at".into()];
//!     WebhookServer::new(context, config)
//!         .mutating("/label", |request: pintle_runtime::webhook::Request<Pod>| async move {
//!             let Some(mut pod) = request.object else { return Mutation::unchanged() };
//!             pod.metadata.labels.get_or_insert_default().insert("seen".into(), "yes".into());
//!             Mutation::to(pod)
//!         })
//!         .validating("/check", |request: pintle_runtime::webhook::Request<Pod>| async move {
//!             if request.name.is_empty() { Verdict::deny("give it a name") } else { Verdict::allow() }
//!         })
//!         .serve()
//!         .await
//! }
//! ```
//!
//! - The certificates stand in a Secret; replicas share them, and of several who renew one writes.
//! - They are renewed after two thirds of their life and shown to new connections without a restart.
//! - A bundle with the old and the new authority is written into the configurations that name the Service, again whenever
//!   somebody applies them without it. `certificates` tells why no connection fails meanwhile.
//! - A request that cannot be read is a 400, a handler that panics a 500; the server goes on.

mod access;
mod certificates;
mod conversion;
mod inject;
mod listener;
mod resolver;
mod review;
mod secret;
#[cfg(test)]
mod tests;

pub use access::{Access, Token};
pub use review::{Kind, Mutation, Operation, Request, User, Verdict};

use std::collections::BTreeMap;
use std::future::Future;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::TokenReviewSpec;
use k8s_openapi::api::authorization::v1::SubjectAccessReviewSpec;
use kube::api::Api;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::backoff::Backoff;
use crate::context::Context;
use certificates::Issue;
use inject::Targets;
use resolver::Resolver;
use review::Handler;
use secret::Keeper;

/// How often the Secret is looked at for what another replica has renewed.
const LOOK: Duration = Duration::from_secs(600);
/// A change is followed after this pause, so that a storm of them is one.
const PAUSE: Duration = Duration::from_secs(1);

/// Where the server is, and who points at it.
#[derive(Clone, Debug)]
pub struct WebhookConfig {
    /// The namespace of the Service and the Secret.
    pub namespace: String,
    /// The Service through which the API server reaches it; certificates are made for its names.
    pub service: String,
    /// Where the certificates are kept.
    pub secret: String,
    pub address: SocketAddr,
    /// How long a serving certificate lasts; it is renewed after two thirds of that.
    pub certificate_days: u16,
    /// The MutatingWebhookConfigurations that name the Service.
    pub mutating_configurations: Vec<String>,
    /// The ValidatingWebhookConfigurations that name the Service.
    pub validating_configurations: Vec<String>,
    /// The CustomResourceDefinitions whose conversion names the Service.
    pub definitions: Vec<String>,
}

impl WebhookConfig {
    /// On port 9443 of every address, with certificates for 90 days.
    pub fn new(namespace: impl Into<String>, service: impl Into<String>, secret: impl Into<String>) -> Self {
        WebhookConfig {
            namespace: namespace.into(),
            service: service.into(),
            secret: secret.into(),
            address: SocketAddr::from((Ipv6Addr::UNSPECIFIED, 9443)),
            certificate_days: 90,
            mutating_configurations: Vec::new(),
            validating_configurations: Vec::new(),
            definitions: Vec::new(),
        }
    }
}

/// Why the server cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    #[error("cannot listen on {address}: {source}; choose another address for the webhook server")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("the webhook's certificates cannot be used: {0}; delete the Secret to get new ones")]
    Certificate(String),
    #[error("Secret {0} is changed by others faster than it can be written; look who writes it")]
    Contended(String),
    #[error("the webhook's Secret or configurations cannot be read or written: {0}")]
    Api(#[from] kube::Error),
}

/// A webhook server under construction.
pub struct WebhookServer {
    context: Context,
    config: WebhookConfig,
    handlers: BTreeMap<String, Handler>,
}

impl WebhookServer {
    pub fn new(context: &Context, config: WebhookConfig) -> Self {
        WebhookServer { context: context.clone(), config, handlers: BTreeMap::new() }
    }

    /// Answers at a path whether something may happen.
    #[must_use]
    pub fn validating<K, F>(mut self, path: &str, handle: impl Fn(Request<K>) -> F + Send + Sync + 'static) -> Self
    where
        K: DeserializeOwned + Send + 'static,
        F: Future<Output = Verdict> + Send + 'static,
    {
        self.handlers.insert(path.to_owned(), review::validating(handle));
        self
    }

    /// Answers at a path how an object is to be changed first.
    #[must_use]
    pub fn mutating<K, F>(mut self, path: &str, handle: impl Fn(Request<K>) -> F + Send + Sync + 'static) -> Self
    where
        K: DeserializeOwned + Serialize + Clone + Send + 'static,
        F: Future<Output = Mutation<K>> + Send + 'static,
    {
        self.handlers.insert(path.to_owned(), review::mutating(handle));
        self
    }

    /// Answers at a path what an object is in another version of its kind: `convert` gets the object as it is and the
    /// `apiVersion` that is wanted. Of the metadata it may change labels and annotations.
    #[must_use]
    pub fn converting(
        mut self,
        path: &str,
        convert: impl Fn(Value, &str) -> Result<Value, String> + Send + Sync + 'static,
    ) -> Self {
        self.handlers.insert(path.to_owned(), conversion::converting(convert));
        self
    }

    /// Answers at a path whose token it is that somebody shows the API server (`--authentication-token-webhook-config-file`).
    #[must_use]
    pub fn tokens<F>(mut self, path: &str, judge: impl Fn(TokenReviewSpec) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Token> + Send + 'static,
    {
        self.handlers.insert(path.to_owned(), access::tokens(judge));
        self
    }

    /// Answers at a path whether a user may do something (`--authorization-config`).
    #[must_use]
    pub fn access<F>(mut self, path: &str, judge: impl Fn(SubjectAccessReviewSpec) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Access> + Send + 'static,
    {
        self.handlers.insert(path.to_owned(), access::access(judge));
        self
    }

    /// Listens on the configured address and answers until the context's shutdown fires.
    pub async fn serve(self) -> Result<(), WebhookError> {
        let address = self.config.address;
        let listener = TcpListener::bind(address).await.map_err(|source| WebhookError::Listen { address, source })?;
        self.serve_on(listener).await
    }

    /// The same on a listener that is there already.
    pub async fn serve_on(self, listener: TcpListener) -> Result<(), WebhookError> {
        let WebhookServer { context, config, handlers } = self;
        let resolver = Arc::new(Resolver::default());
        let keeping = keep(&context, &config, &resolver);
        let serving = listener::serve(listener, resolver.clone(), Arc::new(handlers), context.shutdown.clone());
        tokio::select! {
            biased;
            result = serving => result,
            () = keeping => Ok(()),
        }
    }
}

/// Keeps the certificates fresh and known, for ever. Handshakes fail until the first ones are there.
async fn keep(context: &Context, config: &WebhookConfig, resolver: &Resolver) {
    let changed = Arc::new(Notify::new());
    let targets = Targets::watch(context, config, &changed);
    let keeper = Keeper {
        api: Api::namespaced(context.client.clone(), &config.namespace),
        name: config.secret.clone(),
        issue: Issue { names: names(config), days: config.certificate_days.max(1) },
        clock: context.clock.clone(),
    };
    let mut failures = 0;
    loop {
        let wait = match look(&keeper, &targets, resolver).await {
            Ok(rest) => {
                failures = 0;
                rest.clamp(PAUSE, LOOK)
            }
            Err(error) => {
                let wait = Backoff::KEY.after(failures).max(PAUSE);
                failures += 1;
                tracing::warn!(%error, failures, "the webhook's certificates are not in order; trying again");
                wait.min(LOOK)
            }
        };
        tokio::select! {
            biased;
            () = changed.notified() => tokio::time::sleep(PAUSE).await,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

async fn look(keeper: &Keeper, targets: &Targets, resolver: &Resolver) -> Result<Duration, WebhookError> {
    let (identity, rest) = keeper.identity().await?;
    resolver.show(&identity)?;
    targets.inject(&identity.bundle).await?;
    Ok(rest)
}

/// The names under which the API server may call the Service.
fn names(config: &WebhookConfig) -> Vec<String> {
    let WebhookConfig { namespace, service, .. } = config;
    vec![
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.cluster.local"),
        format!("{service}.{namespace}"),
    ]
}
