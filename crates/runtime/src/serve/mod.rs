//! What an operator shows of itself over plain HTTP: `/healthz`, `/livez`, `/readyz` and `/metrics`.
//!
//! ```no_run
//! use pintle_runtime::serve::{Health, Metrics, serve};
//! use pintle_runtime::{Context, Informer};
//! use k8s_openapi::api::core::v1::Pod;
//!
//! async fn show(context: &Context, pods: Informer<Pod>) -> std::io::Result<()> {
//!     let metrics = Metrics::default();
//!     metrics.observe_board(&context.board);
//!     let health = Health::default();
//!     health.ready("informers", move || if pods.is_synced() { Ok(()) } else { Err("Pods are not listed yet".into()) });
//!     let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//!     tokio::spawn(serve(listener, health, metrics, context.shutdown.clone()));
//!     Ok(())
//! }
//! ```

mod health;
mod metrics;
mod observed;
#[cfg(test)]
mod tests;

pub use health::Health;
pub use metrics::{Metrics, Outcome};

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::accept::accept;
use crate::shutdown::Shutdown;

/// Probes and scrapers are few; further connections wait.
const CONNECTIONS: usize = 64;
/// How long a client may take to say what it wants.
const HEADERS: Duration = Duration::from_secs(10);
/// How long a connection may last: no answer takes long.
const LONGEST: Duration = Duration::from_secs(300);

const TEXT: &str = "text/plain; charset=utf-8";
const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers until the shutdown fires.
pub async fn serve(listener: TcpListener, health: Health, metrics: Metrics, shutdown: Shutdown) {
    let shown = Arc::new(Shown { health, metrics, shutdown: shutdown.clone() });
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            biased;
            () = shutdown.fired() => return,
            accepted = accept(&listener, &free) => accepted,
        };
        let Some((stream, permit)) = accepted else { continue };
        let shown = shown.clone();
        connections.spawn(async move {
            connection(stream, shown).await;
            drop(permit);
        });
    }
}

async fn connection(stream: TcpStream, shown: Arc<Shown>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = shown.answer(request.method(), request.uri().path(), request.uri().query().unwrap_or_default());
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    let connection =
        builder.timer(TokioTimer::new()).header_read_timeout(HEADERS).serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(LONGEST, connection).await {
        Ok(Ok(())) | Err(_) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection ended early"),
    }
}

struct Shown {
    health: Health,
    metrics: Metrics,
    shutdown: Shutdown,
}

impl Shown {
    fn answer(&self, method: &Method, path: &str, query: &str) -> Response<Full<Bytes>> {
        if method != Method::GET && method != Method::HEAD {
            return text(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET is answered here\n".into());
        }
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let (first, check) = (parts.next().unwrap_or_default(), parts.next());
        let mut answer = match (first, parts.next()) {
            ("metrics", None) if check.is_none() => match self.metrics.render() {
                Ok(page) => text(StatusCode::OK, METRICS, page),
                Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("metrics: {error}\n")),
            },
            ("healthz" | "livez" | "readyz", None) => {
                let stopping = self.shutdown.has_fired();
                match self.health.answer(first, check, query, stopping) {
                    Some((true, page)) => text(StatusCode::OK, TEXT, page),
                    Some((false, page)) => text(StatusCode::INTERNAL_SERVER_ERROR, TEXT, page),
                    None => text(
                        StatusCode::NOT_FOUND,
                        TEXT,
                        format!("no check is called {:?}\n", check.unwrap_or_default()),
                    ),
                }
            }
            _ => text(StatusCode::NOT_FOUND, TEXT, "404 page not found\n".into()),
        };
        if method == Method::HEAD {
            *answer.body_mut() = Full::default();
        }
        answer
    }
}

fn text(status: StatusCode, media: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}
