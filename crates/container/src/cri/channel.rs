//! Calls to the runtime, over its Unix socket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::net::UnixStream;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::error::Error;

/// What upstream's agent gives most calls.
pub(super) const USUAL: Duration = Duration::from_secs(120);

/// Lists of a full node are large.
const LONGEST_ANSWER: usize = 16 << 20;

/// containerd keeps what the runtime interface made in a namespace of its own.
const NAMESPACE: (&str, &str) = ("containerd-namespace", "k8s.io");

#[derive(Clone)]
pub(super) struct Caller {
    channel: Channel,
}

impl Caller {
    /// Connects when first called, and again whenever the runtime was away.
    pub(super) fn new(socket: &Path) -> Self {
        let socket: PathBuf = socket.to_owned();
        let connector = tower::service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        // The name is never looked up: the connector knows where to go.
        Caller { channel: Endpoint::from_static("http://runtime").connect_with_connector_lazy(connector) }
    }

    pub(super) async fn call<Q, A>(&self, method: &'static str, request: Q, patience: Duration) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let answer = tokio::time::timeout(patience, async {
            let mut grpc = self.ready().await?;
            let path = PathAndQuery::from_static(method);
            grpc.unary(in_namespace(request), path, ProstCodec::<Q, A>::default()).await
        });
        match answer.await {
            Ok(answer) => answer.map(tonic::Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded(format!("no answer in {} s", patience.as_secs()))),
        }
    }

    /// Opens a stream of answers.
    pub(super) async fn follow<Q, A>(&self, method: &'static str, request: Q) -> Result<Streaming<A>, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.ready().await?;
        let path = PathAndQuery::from_static(method);
        let answer = grpc.server_streaming(in_namespace(request), path, ProstCodec::<Q, A>::default()).await?;
        Ok(answer.into_inner())
    }

    async fn ready(&self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(LONGEST_ANSWER);
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(grpc)
    }
}

/// The runtime interface does not look at it; containerd's own services do.
fn in_namespace<Q>(request: Q) -> Request<Q> {
    let mut request = Request::new(request);
    request.metadata_mut().insert(NAMESPACE.0, MetadataValue::from_static(NAMESPACE.1));
    request
}

/// What a refusal says, without the parts that only matter on the wire.
pub(super) fn failed(status: Status) -> Error {
    match status.code() {
        Code::Unavailable => Error::Failed(format!("it does not answer: {}", status.message())),
        _ => Error::Failed(status.message().to_owned()),
    }
}

/// Stopping what is stopped and removing what is gone are successes.
pub(super) fn or_gone<A: Default>(answer: Result<A, Status>) -> Result<A, Error> {
    match answer {
        Err(status) if status.code() == Code::NotFound => Ok(A::default()),
        answer => answer.map_err(failed),
    }
}
