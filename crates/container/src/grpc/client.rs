//! Calls to a server behind a Unix socket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::net::UnixStream;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataKey, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

/// Lists of a full node are large.
const LONGEST_ANSWER: usize = 16 << 20;

type Metadata = (MetadataKey<Ascii>, MetadataValue<Ascii>);

#[derive(Clone)]
pub struct Caller {
    channel: Channel,
    metadata: Option<Metadata>,
}

impl Caller {
    /// Connects when first called, and again whenever the server was away.
    pub fn new(socket: &Path) -> Self {
        let socket: PathBuf = socket.to_owned();
        let connector = tower::service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        // The name is never looked up: the connector knows where to go. Some servers want it to be this one.
        let channel = Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector);
        Caller { channel, metadata: None }
    }

    /// Says this with every call.
    pub fn saying(self, name: &'static str, value: &'static str) -> Self {
        let metadata = Some((MetadataKey::from_static(name), MetadataValue::from_static(value)));
        Caller { metadata, ..self }
    }

    pub async fn call<Q, A>(&self, method: &'static str, request: Q, patience: Duration) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let answer = tokio::time::timeout(patience, async {
            let mut grpc = self.ready().await?;
            let path = PathAndQuery::from_static(method);
            grpc.unary(self.request(request), path, ProstCodec::<Q, A>::default()).await
        });
        match answer.await {
            Ok(answer) => answer.map(tonic::Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded(format!("no answer in {} s", patience.as_secs()))),
        }
    }

    /// Opens a stream of answers.
    pub async fn follow<Q, A>(&self, method: &'static str, request: Q) -> Result<Streaming<A>, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.ready().await?;
        let path = PathAndQuery::from_static(method);
        let answer = grpc.server_streaming(self.request(request), path, ProstCodec::<Q, A>::default()).await?;
        Ok(answer.into_inner())
    }

    async fn ready(&self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(LONGEST_ANSWER);
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(grpc)
    }

    fn request<Q>(&self, message: Q) -> Request<Q> {
        let mut request = Request::new(message);
        if let Some((name, value)) = &self.metadata {
            request.metadata_mut().insert(name.clone(), value.clone());
        }
        request
    }
}
