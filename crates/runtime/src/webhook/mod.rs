//! A webhook server that makes, shares and renews its own certificates, and tells the API server which authority to trust. It answers for
//! admission, for conversions between versions of a kind, for tokens and for access.
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::Pod;
//! use pintle_runtime::Context;
//! use pintle_runtime::webhook::{Hook, Mutation, Verdict, WebhookConfig, WebhookError, WebhookServer};
//!
//! async fn run(context: &Context) -> Result<(), WebhookError> {
//!     let config = WebhookConfig::new("at-system", "at-webhook", "at-webhook-tls");
//!     WebhookServer::new(context, config)
//!         .mutating(Hook::about::<Pod>("/label"), |request: pintle_runtime::webhook::Request<Pod>| async move {
//!             let Some(mut pod) = request.object else { return Mutation::unchanged() };
//!             pod.metadata.labels.get_or_insert_default().insert("seen".into(), "yes".into());
//!             Mutation::to(pod)
//!         })
//!         .validating(Hook::about::<Pod>("/check"), |request: pintle_runtime::webhook::Request<Pod>| async move {
//!             if request.name.is_empty() { Verdict::deny("give it a name") } else { Verdict::allow() }
//!         })
//!         .serve()
//!         .await
//! }
//! ```
//!
//! - A handler with a [`Hook`] or a [`Conversion`] is registered by the server itself; one with a path alone is named by a manifest.
//! - The certificates stand in a Secret; replicas share them, and of several who renew one writes.
//! - They are renewed after two thirds of their life and shown to new connections without a restart.
//! - A bundle with the old and the new authority is written into the configurations that name the Service, again whenever
//!   somebody applies them without it. `certificates` tells why no connection fails meanwhile.
//! - An object that is not of the handler's type is refused with what is wrong with it. A request that cannot be read is a 400, a
//!   handler that panics a 500; the server goes on.

mod access;
mod certificates;
mod conversion;
mod hook;
mod inject;
mod listener;
mod register;
mod resolver;
mod review;
mod secret;
#[cfg(test)]
mod tests;

pub use access::{Access, Token};
pub use hook::{Conversion, Hook};
pub use listener::{Stream, Wire};
pub use review::{Kind, Mutation, Operation, Request, User, Verdict};

use std::collections::BTreeMap;
use std::future::Future;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::TokenReviewSpec;
use k8s_openapi::api::authorization::v1::SubjectAccessReviewSpec;
use kube::Resource;
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
use listener::Source;
use register::Own;
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
    /// The port of the Service.
    pub service_port: u16,
    /// In place of the Service: where the API server reaches a server outside of the cluster, such as `https://127.0.0.1:9443`.
    pub url: Option<String>,
    /// The name of the configurations that the server writes for its own handlers.
    pub registered_as: String,
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
        let service = service.into();
        WebhookConfig {
            namespace: namespace.into(),
            registered_as: service.clone(),
            service,
            service_port: 443,
            url: None,
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
    own: Own,
}

impl WebhookServer {
    pub fn new(context: &Context, config: WebhookConfig) -> Self {
        WebhookServer { context: context.clone(), config, handlers: BTreeMap::new(), own: Own::default() }
    }

    /// Answers whether something may happen. The hook is a path, or [`Hook::about`] a kind.
    #[must_use]
    pub fn validating<K, F>(
        mut self,
        hook: impl Into<Hook>,
        handle: impl Fn(Request<K>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        K: DeserializeOwned + Send + 'static,
        F: Future<Output = Verdict> + Send + 'static,
    {
        let hook = hook.into();
        self.handlers.insert(hook.path.clone(), review::validating(handle));
        self.own.validating.extend(hook.about.is_some().then_some(hook));
        self
    }

    /// Answers how an object is to be changed first. The hook is a path, or [`Hook::about`] a kind.
    #[must_use]
    pub fn mutating<K, F>(
        mut self,
        hook: impl Into<Hook>,
        handle: impl Fn(Request<K>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        K: DeserializeOwned + Serialize + Clone + Send + 'static,
        F: Future<Output = Mutation<K>> + Send + 'static,
    {
        let hook = hook.into();
        self.handlers.insert(hook.path.clone(), review::mutating(handle));
        self.own.mutating.extend(hook.about.is_some().then_some(hook));
        self
    }

    /// Answers what an object is in another version of its kind: `convert` gets the object as it is and the `apiVersion` that is
    /// wanted. Of the metadata it may change labels and annotations. The first argument is a path, or [`Conversion::of`] a kind.
    #[must_use]
    pub fn converting(
        mut self,
        conversion: impl Into<Conversion>,
        convert: impl Fn(Value, &str) -> Result<Value, String> + Send + Sync + 'static,
    ) -> Self {
        let conversion = conversion.into();
        self.handlers.insert(conversion.path.clone(), conversion::converting(convert));
        self.own.conversions.extend(conversion.definition.is_some().then_some(conversion));
        self
    }

    /// The same between two versions that are types of their own.
    #[must_use]
    pub fn converting_between<A, B>(self, conversion: impl Into<Conversion>) -> Self
    where
        A: Resource<DynamicType = ()> + DeserializeOwned + Serialize + Into<B>,
        B: Resource<DynamicType = ()> + DeserializeOwned + Serialize + Into<A>,
    {
        self.converting(conversion, conversion::between::<A, B>())
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
        self.serve_from(Source::Socket(listener)).await
    }

    /// The same over connections that are made in this process, as a test makes them.
    pub async fn serve_over(self, wire: Wire) -> Result<(), WebhookError> {
        self.serve_from(Source::Wire(wire)).await
    }

    async fn serve_from(self, source: Source) -> Result<(), WebhookError> {
        let WebhookServer { context, config, handlers, own } = self;
        let resolver = Arc::new(Resolver::default());
        let keeping = keep(&context, &config, &own, &resolver);
        let serving = listener::serve(source, resolver.clone(), Arc::new(handlers), context.shutdown.clone());
        tokio::select! {
            biased;
            result = serving => result,
            () = keeping => Ok(()),
        }
    }
}

/// Keeps the certificates fresh and known, for ever. Handshakes fail until the first ones are there.
async fn keep(context: &Context, config: &WebhookConfig, own: &Own, resolver: &Resolver) {
    let changed = Arc::new(Notify::new());
    let targets = Targets::watch(context, config, own, &changed);
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

/// The names under which the API server may call the server.
fn names(config: &WebhookConfig) -> Vec<String> {
    let WebhookConfig { namespace, service, url, .. } = config;
    let mut names = vec![
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.cluster.local"),
        format!("{service}.{namespace}"),
    ];
    let host =
        url.as_deref().and_then(|url| url.parse::<http::Uri>().ok()).and_then(|uri| uri.host().map(str::to_owned));
    names.extend(host.map(|host| host.trim_start_matches('[').trim_end_matches(']').to_owned()));
    names
}
