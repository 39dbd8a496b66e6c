//! The members of the cluster, and calls to whichever of them answers.
//!
//! - A call that only reads is tried again at the next member until its time is up.
//! - A call that writes goes to another member only if it is certain that the first did nothing.
//! - A connection that hangs is noticed: calls have deadlines, streams have pings.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::stream;
use http::uri::PathAndQuery;
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::config::Config;
use super::error::{ConnectError, Failure};
use super::messages::{WatchRequest, WatchResponse};

/// How long a call may take in all.
pub(super) const DEADLINE: Duration = Duration::from_secs(5);
/// How long one member may take for a read, when there is another to ask.
const READ_ATTEMPT: Duration = Duration::from_secs(2);
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(50);
const CONNECT: Duration = Duration::from_secs(2);

/// etcd hangs up on a client that pings more than once in five seconds.
const PING_EVERY: Duration = Duration::from_secs(6);
const PING_ANSWER: Duration = Duration::from_secs(4);

/// Lists of large objects are long; etcd itself sets no bound on what it sends.
const LONGEST_ANSWER: usize = i32::MAX as usize;

pub(super) const RANGE: &str = "/etcdserverpb.KV/Range";
pub(super) const TXN: &str = "/etcdserverpb.KV/Txn";
pub(super) const PUT: &str = "/etcdserverpb.KV/Put";
pub(super) const COMPACT: &str = "/etcdserverpb.KV/Compact";
pub(super) const LEASE_GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
pub(super) const STATUS: &str = "/etcdserverpb.Maintenance/Status";
const WATCH: &str = "/etcdserverpb.Watch/Watch";

#[derive(Debug)]
pub(super) struct Cluster {
    members: Vec<Member>,
    /// The member that is asked first: the last that answered.
    preferred: AtomicUsize,
}

#[derive(Debug)]
struct Member {
    endpoint: String,
    channel: Channel,
}

/// Which failures of a call may be answered by making it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It changes nothing, or the same twice.
    Always,
    /// Only if etcd has certainly done nothing.
    Unsent,
}

impl Cluster {
    /// Opens no connection yet.
    pub(super) fn new(config: &Config) -> Result<Self, ConnectError> {
        if config.endpoints.is_empty() {
            return Err(ConnectError::NoEndpoint);
        }
        let members: Result<Vec<Member>, ConnectError> =
            config.endpoints.iter().map(|endpoint| Member::new(endpoint, config)).collect();
        Ok(Self { members: members?, preferred: AtomicUsize::new(0) })
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn preferred(&self) -> usize {
        self.preferred.load(Ordering::Relaxed)
    }

    /// Asks the members in turn, until one answers or the time is up.
    pub(super) async fn call<Q, A>(&self, method: &'static str, message: &Q, repeat: Repeat) -> Result<A, Failure>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let until = Instant::now() + DEADLINE;
        loop {
            let member = self.preferred();
            let mut patience = until.saturating_duration_since(Instant::now());
            if repeat == Repeat::Always && self.len() > 1 {
                patience = patience.min(READ_ATTEMPT);
            }
            let failure = match self.call_member(member, method, message, patience).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if failure.is_passing() {
                self.avoid(member);
            }
            let may_repeat = failure.unsent || repeat == Repeat::Always && failure.is_passing();
            if !may_repeat || Instant::now() + BETWEEN_ATTEMPTS >= until {
                return Err(failure);
            }
            tracing::debug!(method, reason = failure.reason(), "asking etcd again");
            sleep(BETWEEN_ATTEMPTS).await;
        }
    }

    /// Asks one member once.
    pub(super) async fn call_member<Q, A>(
        &self,
        member: usize,
        method: &'static str,
        message: &Q,
        patience: Duration,
    ) -> Result<A, Failure>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let member = &self.members[member % self.members.len()];
        let request = with_leader(message.clone());
        let answer = timeout(patience, async {
            let mut grpc = member.grpc();
            grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
            grpc.unary(request, PathAndQuery::from_static(method), ProstCodec::<Q, A>::default()).await
        });
        match answer.await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(Failure::new(&member.endpoint, &status)),
            Err(_) => Err(Failure::timed_out(&member.endpoint, patience.as_secs_f32())),
        }
    }

    /// Opens a watch stream at one member. What is sent into `requests` goes to it.
    pub(super) async fn watch(
        &self,
        member: usize,
        mut requests: mpsc::Receiver<WatchRequest>,
    ) -> Result<Streaming<WatchResponse>, Failure> {
        let until = Instant::now() + DEADLINE;
        let member = &self.members[member % self.members.len()];
        let request = with_leader(stream::poll_fn(move |context| requests.poll_recv(context)));
        let opened = timeout_at(until, async {
            let mut grpc = member.grpc();
            grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
            grpc.streaming(request, PathAndQuery::from_static(WATCH), ProstCodec::default()).await
        });
        match opened.await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(Failure::new(&member.endpoint, &status)),
            Err(_) => Err(Failure::timed_out(&member.endpoint, DEADLINE.as_secs_f32())),
        }
    }

    pub(super) fn failure(&self, member: usize, status: &Status) -> Failure {
        Failure::new(&self.members[member % self.members.len()].endpoint, status)
    }

    pub(super) fn lost(&self, member: usize, message: impl Into<String>) -> Failure {
        self.failure(member, &Status::new(Code::Unavailable, message))
    }

    /// Others are asked first from now on, unless somebody has found that out already.
    pub(super) fn avoid(&self, member: usize) {
        let next = (member + 1) % self.members.len();
        let _ = self.preferred.compare_exchange(member, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl Member {
    fn new(endpoint: &str, config: &Config) -> Result<Self, ConnectError> {
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        let wrong = |reason: String| ConnectError::Endpoint { endpoint: endpoint.to_owned(), reason };
        let mut target = Endpoint::from_shared(format!("{scheme}://{endpoint}"))
            .map_err(|error| wrong(error.to_string()))?
            .connect_timeout(CONNECT)
            .tcp_nodelay(true)
            // Pings go out only while a stream is open: etcd takes others as an attack.
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_ANSWER);
        if let Some(tls) = &config.tls {
            let endpoints = config.endpoints.join(", ");
            let Some(ca) = &tls.ca_pem else {
                return Err(ConnectError::NoAuthority { endpoints });
            };
            let mut settings = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca)).timeout(CONNECT);
            if let Some((certificate, key)) = &tls.cert_and_key_pem {
                settings = settings.identity(Identity::from_pem(certificate, key));
            }
            target = target.tls_config(settings).map_err(|error| {
                let cause = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
                ConnectError::Tls { endpoints, reason: cause }
            })?;
        }
        Ok(Self { endpoint: endpoint.to_owned(), channel: target.connect_lazy() })
    }

    fn grpc(&self) -> Grpc<Channel> {
        Grpc::new(self.channel.clone()).max_decoding_message_size(LONGEST_ANSWER)
    }
}

/// A member that is cut off from its peers is to refuse, rather than to let us wait.
fn with_leader<M>(message: M) -> Request<M> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    request
}
