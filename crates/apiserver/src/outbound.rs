//! HTTPS to programs that somebody registered: webhooks, and servers that answer for API groups.
//!
//! - A [`Destination`] is made once for a configuration and used for every request; connections are kept and used again.
//! - What goes wrong is said in the words of Kubernetes' API server, which people search for ([`Failure`]).
//! - A URL may name any address. A Service leads to its ready endpoints, which are connected to as Pods are
//!   ([`crate::nodes::network`]): never on loopback.
//! - Redirects are not followed, and answers are bounded.

mod client;
mod counts;
mod credentials;
mod endpoint;
mod kubeconfig;
mod pool;
mod post;
pub mod review;
pub mod service;
mod trust;
mod verify;

pub use client::{Client, Unanswered};
pub use counts::{About, Counts};
pub use credentials::{Credential, Credentials};
pub use endpoint::{Endpoint, EndpointError, Login};
pub use trust::{Trust, TrustError, accepting};

use crate::nodes::Duplex;
use crate::nodes::network::{CONNECT, Direct, Network};
use crate::registry::Registry;
use arc_swap::ArcSwap;
use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use pintle_meta::{Clock, Status};
use pool::Pool;
use rustls::pki_types::ServerName;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::TlsConnector;

/// The largest answer that is read.
pub const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// Where a program listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    Address {
        host: String,
        port: u16,
    },
    /// Any ready endpoint of a Service of this cluster.
    Service {
        namespace: String,
        name: String,
        port: u16,
    },
}

impl Place {
    /// The name in its certificate.
    pub fn server_name(&self) -> String {
        match self {
            Place::Address { host, .. } => host.clone(),
            Place::Service { namespace, name, .. } => format!("{name}.{namespace}.svc"),
        }
    }

    /// Host and port, as they stand in URLs and in the `Host` header.
    pub fn authority(&self) -> String {
        let (Place::Address { port, .. } | Place::Service { port, .. }) = self;
        join(&self.server_name(), *port)
    }
}

/// A program, and how it is recognised.
#[derive(Clone)]
pub struct Destination {
    pub place: Place,
    pub trust: Trust,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("{}", .0.message)]
    Service(Status),
    #[error("dial tcp {address}: {why}")]
    Dial { address: String, why: String },
    #[error("{0}")]
    Certificate(String),
    #[error("tls: {0}")]
    Tls(String),
    #[error("http: server gave HTTP response to HTTPS client")]
    Plain,
    #[error("EOF")]
    Closed,
    #[error("read: connection reset by peer")]
    Reset,
    #[error("{0}")]
    Http(String),
    #[error("the answer is larger than {MAX_ANSWER_BYTES} bytes")]
    TooLarge,
    #[error("context deadline exceeded")]
    Late,
}

/// How programs outside are reached, and the connections that are open to them.
pub struct Outbound {
    /// Opens connections to what a URL names.
    direct: ArcSwap<Arc<dyn Network>>,
    /// Opens connections to endpoints of Services.
    endpoints: ArcSwap<Arc<dyn Network>>,
    pool: Pool,
    clock: Clock,
    /// What reviewers answered.
    pub counts: Counts,
}

impl Default for Outbound {
    fn default() -> Self {
        Outbound::new(&Clock::system(), Counts::default())
    }
}

impl Outbound {
    /// By whose time certificates count, and where reviews are counted.
    pub fn new(clock: &Clock, counts: Counts) -> Self {
        let direct: Arc<dyn Network> = Arc::new(Direct::connecting_to(|_| true));
        let endpoints: Arc<dyn Network> = Arc::new(Direct::default());
        Outbound {
            direct: ArcSwap::from_pointee(direct),
            endpoints: ArcSwap::from_pointee(endpoints),
            pool: Pool::default(),
            clock: clock.clone(),
            counts,
        }
    }

    /// From now on everything is reached so: a test kit has its programs in its own process.
    pub fn set_network(&self, network: Arc<dyn Network>) {
        self.direct.store(Arc::new(network.clone()));
        self.endpoints.store(Arc::new(network));
    }

    /// Opens a connection of its own, for a request that is streamed or changes its protocol.
    pub async fn connect(&self, registry: &Registry, to: &Destination) -> Result<Box<dyn Duplex>, Failure> {
        self.open(Some(registry), to).await
    }

    async fn open(&self, registry: Option<&Registry>, to: &Destination) -> Result<Box<dyn Duplex>, Failure> {
        let connecting = tokio::time::timeout(CONNECT, self.dial(registry, &to.place)).await;
        let late = |_| Failure::Dial { address: to.place.authority(), why: "i/o timeout".to_owned() };
        let connection = connecting.map_err(late)??;
        let unnamed = |_| Failure::Tls(format!("{:?} is no name of a server", to.place.server_name()));
        let name = ServerName::try_from(to.place.server_name()).map_err(unnamed)?;
        let secure = TlsConnector::from(to.trust.config(&self.clock))
            .connect(name, connection)
            .await
            .map_err(verify::failure)?;
        Ok(Box::new(secure))
    }

    async fn dial(&self, registry: Option<&Registry>, place: &Place) -> Result<Box<dyn Duplex>, Failure> {
        let (network, addresses) = match place {
            Place::Address { host, port } => (self.direct.load_full(), vec![(host.clone(), *port)]),
            Place::Service { namespace, name, port } => {
                let unknown = || Failure::Service(Status::unavailable("no services are known here"));
                let registry = registry.ok_or_else(unknown)?;
                let endpoints = service::endpoints(registry, namespace, name, *port).await.map_err(Failure::Service)?;
                (self.endpoints.load_full(), endpoints)
            }
        };
        let mut failure = Failure::Service(Status::unavailable("no endpoints available"));
        for (host, port) in addresses {
            match network.connect(host.clone(), port).await {
                Ok(connection) => return Ok(connection),
                Err(error) => failure = Failure::Dial { address: join(&host, port), why: why(&error) },
            }
        }
        Err(failure)
    }

    /// Sends a request and reads the whole answer. The request's URI is a path.
    pub async fn ask(
        &self,
        registry: &Registry,
        to: &Destination,
        request: Request<Bytes>,
        limit: Duration,
    ) -> Result<Response<Bytes>, Failure> {
        self.exchange(Some(registry), to, request, limit).await
    }

    /// The same for a program that a URL names, before there is a registry or beside it.
    pub async fn ask_address(
        &self,
        to: &Destination,
        request: Request<Bytes>,
        limit: Duration,
    ) -> Result<Response<Bytes>, Failure> {
        self.exchange(None, to, request, limit).await
    }

    async fn exchange(
        &self,
        registry: Option<&Registry>,
        to: &Destination,
        request: Request<Bytes>,
        limit: Duration,
    ) -> Result<Response<Bytes>, Failure> {
        let asking = async {
            let mut request = request.map(Full::new);
            let host =
                HeaderValue::from_str(&to.place.authority()).map_err(|error| Failure::Http(error.to_string()))?;
            request.headers_mut().insert(header::HOST, host);
            let (response, line) = self.pool.send(self, registry, to, request).await?;
            let (head, body) = response.into_parts();
            let whole = read(body).await?;
            self.pool.keep(to, line);
            Ok(Response::from_parts(head, whole))
        };
        tokio::time::timeout(limit, asking).await.map_err(|_| Failure::Late)?
    }
}

async fn read(mut body: Incoming) -> Result<Bytes, Failure> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::Http(error.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > MAX_ANSWER_BYTES {
            return Err(Failure::TooLarge);
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

fn join(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Why a connection was not established.
fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connect: connection reset by peer".to_owned(),
        io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        io::ErrorKind::TimedOut => "i/o timeout".to_owned(),
        _ => error.to_string(),
    }
}
