//! TLS connections of the API server, each request handed to the handler of its path.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
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
/// The API server shares its connections; whoever opens more waits.
const CONNECTIONS: usize = 256;
/// How long answers under way may take once the shutdown has fired.
const GRACE: Duration = Duration::from_secs(5);

type Handlers = Arc<BTreeMap<String, Handler>>;

pub(super) async fn serve(
    listener: TcpListener,
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
    // Dropped with this future, and all connections with it.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            biased;
            () = shutdown.fired() => break,
            accepted = accept(&listener, &free) => accepted,
        };
        let Some((stream, permit)) = accepted else { continue };
        let (acceptor, handlers, watcher) = (acceptor.clone(), handlers.clone(), graceful.watcher());
        connections.spawn(async move {
            connection(acceptor, stream, handlers, watcher).await;
            drop(permit);
        });
    }
    drop(listener);
    if tokio::time::timeout(GRACE, graceful.shutdown()).await.is_err() {
        tracing::warn!("some of the webhook's connections did not end in time");
    }
    Ok(())
}

async fn connection(acceptor: TlsAcceptor, stream: TcpStream, handlers: Handlers, watcher: Watcher) {
    let stream = match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => return tracing::debug!("a TLS handshake took too long"),
    };
    let service = service_fn(move |request: http::Request<Incoming>| {
        let handlers = handlers.clone();
        async move { Ok::<_, Infallible>(answer(&handlers, request).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Some(Duration::from_secs(30)));
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn answer(handlers: &BTreeMap<String, Handler>, request: http::Request<Incoming>) -> Response<Full<Bytes>> {
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
    let (status, media, body) = match result {
        Ok(body) => (StatusCode::OK, "application/json", Full::from(body)),
        Err(Refusal(status, why)) => (status, "text/plain; charset=utf-8", Full::from(format!("{why}\n"))),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}
