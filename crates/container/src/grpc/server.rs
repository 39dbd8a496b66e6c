//! Answers to calls that come in over a Unix socket.
//!
//! A [`Service`] looks at the path of a call and hands it to [`unary`], [`streaming`] or [`unknown`].

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use futures::Stream;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixListener;
use tokio::task::JoinSet;
use tonic::server::Grpc;
use tonic::{Response, Status};
use tonic_prost::ProstCodec;

/// Connections at once; others wait.
const CONNECTIONS: usize = 100;

/// How long to wait when no connection can be taken, for want of descriptors as a rule.
const PAUSE: Duration = Duration::from_millis(100);

pub type Call = http::Request<Incoming>;
pub type Answer = http::Response<tonic::body::Body>;

pub trait Service: Clone + Send + Sync + 'static {
    fn answer(&self, call: Call) -> impl Future<Output = Answer> + Send;
}

/// Answers until dropped; connections end with it.
pub async fn serve(listener: UnixListener, service: impl Service) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, service.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    tokio::time::sleep(PAUSE).await;
                }
            },
        }
    }
}

/// Answers on one connection until it ends.
pub async fn connection(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, service: impl Service) {
    let answer = service_fn(move |call: Call| {
        let service = service.clone();
        async move { Ok::<_, Infallible>(service.answer(call).await) }
    });
    let builder = Builder::new(TokioExecutor::new()).http2_only();
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), answer).await {
        tracing::debug!(%error, "a connection broke");
    }
}

/// One question, one answer.
pub async fn unary<Q, A, F>(call: Call, mut answer: impl FnMut(Q) -> F) -> Answer
where
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
    F: Future<Output = Result<A, Status>>,
{
    let service = tower::service_fn(move |request: tonic::Request<Q>| {
        let answer = answer(request.into_inner());
        async move { answer.await.map(Response::new) }
    });
    Grpc::new(ProstCodec::<A, Q>::default()).unary(service, call).await
}

/// One question, answers until the stream ends.
pub async fn streaming<Q, A, F, S>(call: Call, mut answers: impl FnMut(Q) -> F) -> Answer
where
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
    F: Future<Output = Result<S, Status>>,
    S: Stream<Item = Result<A, Status>> + Send + 'static,
{
    let service = tower::service_fn(move |request: tonic::Request<Q>| {
        let answers = answers(request.into_inner());
        async move { answers.await.map(Response::new) }
    });
    Grpc::new(ProstCodec::<A, Q>::default()).server_streaming(service, call).await
}

/// To a call of something that is not served.
pub fn unknown(call: &Call) -> Answer {
    Status::unimplemented(format!("{} is not served here", call.uri().path())).into_http()
}
