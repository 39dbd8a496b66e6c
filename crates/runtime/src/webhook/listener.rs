//! TLS connections of the API server, each request handed to the handler of its path.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::WebhookError;
use super::resolver::Resolver;
use super::review::{Handler, Refusal};
use crate::accept::accept;
use crate::shutdown::Shutdown;

const HANDSHAKE: Duration = Duration::from_secs(10);
const HEADERS: Duration = Duration::from_secs(30);
/// An object and its predecessor, each of the largest size, and what stands around them.
const LARGEST: usize = 8 << 20;
/// The API server shares its connections; further ones wait.
const CONNECTIONS: usize = 256;
/// How long answers under way may take once the shutdown has fired.
const GRACE: Duration = Duration::from_secs(5);

type Handlers = Arc<BTreeMap<String, Handler>>;

/// One connection.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

/// What may happen to the body of an answer on its way.
type Answered = Arc<dyn Fn(Vec<u8>) -> BoxFuture<'static, Vec<u8>> + Send + Sync>;

/// Connections that are made in this process, and what becomes of answers on their way: for tests. The test kit makes them.
pub struct Wire {
    pub connections: mpsc::Receiver<Box<dyn Stream>>,
    /// Gets the body of every answer and gives the one that is sent.
    pub answered: Answered,
}

/// Where connections come from.
pub(super) enum Source {
    Socket(TcpListener),
    Wire(Wire),
}

impl Source {
    /// The next connection; none if no more can come.
    async fn next(&mut self, free: &Arc<Semaphore>) -> Option<Option<(Box<dyn Stream>, OwnedSemaphorePermit)>> {
        match self {
            Source::Socket(listener) => {
                let accepted = accept(listener, free).await;
                Some(accepted.map(|(stream, permit)| (Box::new(stream) as Box<dyn Stream>, permit)))
            }
            Source::Wire(wire) => {
                let permit = free.clone().acquire_owned().await.ok()?;
                Some(Some((wire.connections.recv().await?, permit)))
            }
        }
    }

    fn answered(&self) -> Option<Answered> {
        match self {
            Source::Socket(_) => None,
            Source::Wire(wire) => Some(wire.answered.clone()),
        }
    }
}

pub(super) async fn serve(
    mut source: Source,
    resolver: Arc<Resolver>,
    handlers: Handlers,
    shutdown: Shutdown,
) -> Result<(), WebhookError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| WebhookError::Certificate(error.to_string()))?
        .with_no_client_auth()
        .with_cert_resolver(resolver);
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    let graceful = GracefulShutdown::new();
    let answered = source.answered();
    // Dropped with this future, and all connections with it.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            biased;
            () = shutdown.fired() => break,
            accepted = source.next(&free) => accepted,
        };
        let Some(accepted) = accepted else { break };
        let Some((stream, permit)) = accepted else { continue };
        let (acceptor, handlers, watcher) = (acceptor.clone(), handlers.clone(), graceful.watcher());
        let answered = answered.clone();
        connections.spawn(async move {
            connection(acceptor, stream, (handlers, answered), watcher).await;
            drop(permit);
        });
    }
    drop(source);
    if tokio::time::timeout(GRACE, graceful.shutdown()).await.is_err() {
        tracing::warn!("some of the webhook's connections did not end in time");
    }
    Ok(())
}

async fn connection(
    acceptor: TlsAcceptor,
    stream: Box<dyn Stream>,
    (handlers, answered): (Handlers, Option<Answered>),
    watcher: Watcher,
) {
    let stream = match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => return tracing::debug!("a TLS handshake took too long"),
    };
    let service = service_fn(move |request: http::Request<Incoming>| {
        let (handlers, answered) = (handlers.clone(), answered.clone());
        async move { Ok::<_, Infallible>(answer(&handlers, answered.as_ref(), request).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Some(Duration::from_secs(30)));
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn answer(
    handlers: &BTreeMap<String, Handler>,
    answered: Option<&Answered>,
    request: http::Request<Incoming>,
) -> Response<Full<Bytes>> {
    let result = match handlers.get(request.uri().path()) {
        None => Err(Refusal(StatusCode::NOT_FOUND, format!("no webhook answers at {}", request.uri().path()))),
        Some(_) if request.method() != Method::POST => {
            Err(Refusal(StatusCode::METHOD_NOT_ALLOWED, "an AdmissionReview is sent by POST".into()))
        }
        Some(handler) => match Limited::new(request.into_body(), LARGEST).collect().await {
            Ok(body) => handler(body.to_bytes()).await,
            Err(error) => Err(Refusal(StatusCode::BAD_REQUEST, format!("the body could not be read: {error}"))),
        },
    };
    let result = match (result, answered) {
        (Ok(body), Some(answered)) => Ok(answered(body).await),
        (result, _) => result,
    };
    let (status, media, body) = match result {
        Ok(body) => (StatusCode::OK, "application/json", Full::from(body)),
        Err(Refusal(status, why)) => (status, "text/plain; charset=utf-8", Full::from(format!("{why}\n"))),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}
