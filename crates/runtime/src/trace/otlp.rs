//! Sends spans to an OpenTelemetry collector: OTLP over HTTP, as JSON (feature `otlp`).
//!
//! - A loop is never held up: spans wait in a queue of [`CAPACITY`], and what finds it full is dropped and counted.
//! - They are sent in batches, every [`PERIOD`] or when [`BATCH`] wait. A batch that the collector does not take is dropped:
//!   traces are not worth the memory.
//! - Plain HTTP, to a collector on this machine or in the cluster. `https` is refused with a clear error.
//! - A span whose trace the caller does not sample is not sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::{Span, Spans};
use crate::shutdown::Shutdown;

/// Spans that may wait.
pub const CAPACITY: usize = 2048;
/// Spans of one request.
pub const BATCH: usize = 512;
/// How long a span waits at most.
pub const PERIOD: Duration = Duration::from_secs(5);
/// How long the collector may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Why spans cannot be sent there.
#[derive(Debug, thiserror::Error)]
pub enum Invalid {
    #[error("OTEL_EXPORTER_OTLP_ENDPOINT {0:?} is not a URL such as http://localhost:4318")]
    NotAUrl(String),
    #[error("the OTLP endpoint {0:?} is not http://: run a collector beside this program that speaks TLS for it")]
    NotHttp(String),
}

/// Takes spans and sends them on. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Otlp {
    waiting: mpsc::Sender<Span>,
    dropped: Arc<AtomicU64>,
}

impl Otlp {
    /// Sends to `ENDPOINT/v1/traces` in the name of a service, until the shutdown fires. Call it inside a tokio runtime.
    pub fn start(endpoint: &str, service: &str, shutdown: Shutdown) -> Result<Otlp, Invalid> {
        let uri: Uri = endpoint.parse().map_err(|_| Invalid::NotAUrl(endpoint.to_owned()))?;
        let Some(host) = uri.host().map(str::to_owned) else { return Err(Invalid::NotAUrl(endpoint.to_owned())) };
        if uri.scheme_str() != Some("http") {
            return Err(Invalid::NotHttp(endpoint.to_owned()));
        }
        let path = format!("{}/v1/traces", uri.path().trim_end_matches('/'));
        let collector = Collector { host, port: uri.port_u16().unwrap_or(4318), path, service: service.to_owned() };
        let (waiting, receiver) = mpsc::channel(CAPACITY);
        let dropped = Arc::new(AtomicU64::new(0));
        tokio::spawn(collector.send_all(receiver, dropped.clone(), shutdown));
        Ok(Otlp { waiting, dropped })
    }

    /// As the standard variables say: `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_SERVICE_NAME`. Nothing if there is no endpoint.
    pub fn from_environment(name: &str, shutdown: Shutdown) -> Result<Option<Otlp>, Invalid> {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let Some(endpoint) = set("OTEL_EXPORTER_OTLP_ENDPOINT") else { return Ok(None) };
        let service = set("OTEL_SERVICE_NAME").unwrap_or_else(|| name.to_owned());
        Otlp::start(&endpoint, &service, shutdown).map(Some)
    }

    /// How many spans were not sent.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Spans for Otlp {
    fn ended(&self, span: Span) {
        if span.trace.is_sampled() && self.waiting.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

struct Collector {
    host: String,
    port: u16,
    path: String,
    service: String,
}

/// Why a batch was not taken.
#[derive(Debug, thiserror::Error)]
enum NotTaken {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("{0}")]
    Request(#[from] http::Error),
    #[error("the collector answered {0}")]
    Answer(http::StatusCode),
    #[error("the collector did not answer within {TIMEOUT:?}")]
    TimedOut,
}

impl Collector {
    async fn send_all(self, mut waiting: mpsc::Receiver<Span>, dropped: Arc<AtomicU64>, shutdown: Shutdown) {
        loop {
            let mut batch = Vec::new();
            let is_last = tokio::select! {
                biased;
                is_last = fill(&mut batch, &mut waiting) => is_last,
                () = shutdown.fired() => true,
            };
            if is_last {
                // What is there when the process stops is sent too.
                while let Ok(span) = waiting.try_recv() {
                    batch.push(span);
                }
            }
            for spans in batch.chunks(BATCH) {
                let sent = tokio::time::timeout(TIMEOUT, self.send(spans)).await.unwrap_or(Err(NotTaken::TimedOut));
                if let Err(error) = sent {
                    tracing::warn!(%error, spans = spans.len(), "traces were not exported");
                    dropped.fetch_add(spans.len() as u64, Ordering::Relaxed);
                }
            }
            if is_last {
                return;
            }
        }
    }

    async fn send(&self, spans: &[Span]) -> Result<(), NotTaken> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let request = Request::post(&self.path)
            .header(header::HOST, format!("{}:{}", self.host, self.port))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body(&self.service, spans).to_string())))?;
        let exchange = async {
            let answer = sender.send_request(request).await?;
            let status = answer.status();
            answer.into_body().collect().await?;
            if status.is_success() { Ok(()) } else { Err(NotTaken::Answer(status)) }
        };
        let (answer, _) = tokio::join!(exchange, connection);
        answer
    }
}

/// Waits for a first span, and then for the rest of its batch. True if no more will come.
async fn fill(batch: &mut Vec<Span>, waiting: &mut mpsc::Receiver<Span>) -> bool {
    let Some(first) = waiting.recv().await else { return true };
    batch.push(first);
    let rest = async {
        while batch.len() < BATCH {
            let Some(span) = waiting.recv().await else { return true };
            batch.push(span);
        }
        false
    };
    tokio::time::timeout(PERIOD, rest).await.unwrap_or(false)
}

/// One request, as OTLP has it in JSON: 64-bit numbers are strings.
fn body(service: &str, spans: &[Span]) -> Value {
    let spans: Vec<Value> = spans.iter().map(shown).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": [attribute("service.name", service)]},
        "scopeSpans": [{"scope": {"name": "pintle-runtime", "version": env!("CARGO_PKG_VERSION")}, "spans": spans}],
    }]})
}

fn shown(span: &Span) -> Value {
    const INTERNAL: u8 = 1;
    const ERROR: u8 = 2;
    let nanos = |time: Timestamp| time.as_nanosecond().to_string();
    let mut shown = json!({
        "traceId": span.trace.trace_id(),
        "spanId": span.trace.span_id(),
        "name": format!("reconcile {}", span.controller),
        "kind": INTERNAL,
        "startTimeUnixNano": nanos(span.started),
        "endTimeUnixNano": nanos(span.ended),
        "attributes": [
            attribute("controller", &span.controller),
            attribute("k8s.namespace.name", span.key.namespace()),
            attribute("k8s.object.name", span.key.name()),
            json!({"key": "attempt", "value": {"intValue": span.attempt.to_string()}}),
        ],
    });
    if let Some(parent) = span.parent {
        shown["parentSpanId"] = parent.span_id().into();
    }
    if let Some(error) = &span.error {
        shown["status"] = json!({"code": ERROR, "message": error});
    }
    shown
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use hyper::body::Incoming;
    use hyper::service::service_fn;
    use pintle_meta::TraceParent;
    use tokio::net::TcpListener;

    use super::*;
    use crate::key::Key;

    fn span(number: u64, parent: Option<TraceParent>, error: Option<&str>) -> Span {
        let at = |second| Timestamp::from_second(second).unwrap();
        Span {
            controller: "at".into(),
            key: Key::new("shop", "web"),
            attempt: 2,
            trace: parent.map_or(TraceParent::root(9, number), |parent| parent.child(number)),
            parent,
            started: at(1),
            ended: at(2),
            error: error.map(str::to_owned),
        }
    }

    /// A collector that answers with this status and passes on what it was sent.
    async fn collector(status: u16) -> (String, mpsc::Receiver<(String, Value)>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (sender, receiver) = mpsc::channel(16);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let sender = sender.clone();
                let service = service_fn(move |request: Request<Incoming>| {
                    let sender = sender.clone();
                    async move {
                        let path = request.uri().path().to_owned();
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        sender.send((path, serde_json::from_slice(&body).unwrap())).await.unwrap();
                        let answer = http::Response::builder().status(status).body(Full::new(Bytes::from("{}")));
                        Ok::<_, Infallible>(answer.unwrap())
                    }
                });
                let _ =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            }
        });
        (endpoint, receiver)
    }

    #[tokio::test]
    async fn a_collector_gets_every_span_of_a_process_also_the_last() {
        let (endpoint, mut received) = collector(200).await;
        let (trigger, shutdown) = Shutdown::new();
        let otlp = Otlp::start(&endpoint, "my-operator", shutdown).unwrap();
        let parent = TraceParent::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
        let unsampled = TraceParent::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00").unwrap();
        otlp.ended(span(5, Some(parent), Some("no such image")));
        otlp.ended(span(6, Some(unsampled), None));
        otlp.ended(span(7, None, None));
        trigger.fire();
        let mut spans = Vec::new();
        while spans.len() < 2 {
            let (path, body) = received.recv().await.unwrap();
            assert_eq!(path, "/v1/traces");
            let scope = &body["resourceSpans"][0];
            assert_eq!(scope["resource"]["attributes"][0]["value"]["stringValue"], "my-operator");
            spans.extend(scope["scopeSpans"][0]["spans"].as_array().unwrap().clone());
        }
        assert_eq!(spans[0]["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!((&spans[0]["parentSpanId"], &spans[0]["status"]["code"]), (&"00f067aa0ba902b7".into(), &2.into()));
        assert_eq!(spans[1]["endTimeUnixNano"], "2000000000");
        assert_eq!((spans.len(), otlp.dropped()), (2, 0), "what the caller does not sample is not sent");
    }

    #[tokio::test]
    async fn spans_that_the_collector_refuses_are_counted() {
        let (endpoint, mut received) = collector(503).await;
        let (trigger, shutdown) = Shutdown::new();
        let otlp = Otlp::start(&endpoint, "my-operator", shutdown).unwrap();
        otlp.ended(span(1, None, None));
        trigger.fire();
        received.recv().await.unwrap();
        while otlp.dropped() == 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn an_endpoint_that_cannot_be_used_is_named() {
        for (endpoint, said) in
            [("https://collector:4318", "not http://"), ("collector", "not a URL"), ("", "not a URL")]
        {
            let error = Otlp::start(endpoint, "x", Shutdown::new().1).unwrap_err().to_string();
            assert!(error.contains(said) || error.contains("not http://"), "{endpoint}: {error}");
        }
    }
}
