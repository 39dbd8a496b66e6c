//! What is asked and answered, under the names that CoreDNS gives it, so that existing dashboards work.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::RecordType;
use pintle_runtime::Shutdown;
use pintle_runtime::accept::accept;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::Server;

/// How CoreDNS calls a server at the usual port.
const SERVER: &str = "dns://:53";

/// The bounds of durations, as CoreDNS has them.
const SHORTEST_SECONDS: f64 = 0.000_25;
const BUCKETS: u16 = 16;

/// Who asks for metrics at once, for how long, and with how many bytes.
const ASKING: usize = 16;
const PATIENCE: Duration = Duration::from_secs(5);
const QUESTION: usize = 8192;

/// Types that are counted by name. Anybody may ask for any, and each name is kept.
const NAMED_TYPES: [RecordType; 12] = [
    RecordType::A,
    RecordType::AAAA,
    RecordType::CNAME,
    RecordType::MX,
    RecordType::NS,
    RecordType::PTR,
    RecordType::SOA,
    RecordType::SRV,
    RecordType::TXT,
    RecordType::HTTPS,
    RecordType::DS,
    RecordType::ANY,
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Requests {
    server: &'static str,
    zone: String,
    view: &'static str,
    proto: &'static str,
    family: &'static str,
    r#type: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Responses {
    server: &'static str,
    zone: String,
    view: &'static str,
    rcode: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByZone {
    server: &'static str,
    zone: String,
    view: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Cached {
    server: &'static str,
    r#type: &'static str,
    zones: &'static str,
    view: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Missed {
    server: &'static str,
    zones: &'static str,
    view: &'static str,
}

/// How often the answer of another server was kept from an earlier question.
#[derive(Clone, Default)]
pub struct Cache {
    hits: Family<Cached, Counter>,
    misses: Family<Missed, Counter>,
}

impl Cache {
    pub(super) fn hit(&self, code: ResponseCode) {
        let r#type = if code == ResponseCode::NoError { "success" } else { "denial" };
        self.hits.get_or_create(&Cached { server: SERVER, r#type, zones: ".", view: "" }).inc();
    }

    pub(super) fn miss(&self) {
        self.misses.get_or_create(&Missed { server: SERVER, zones: ".", view: "" }).inc();
    }
}

/// The counts of a server.
pub(super) struct Metrics {
    registry: Registry,
    requests: Family<Requests, Counter>,
    responses: Family<Responses, Counter>,
    durations: Family<ByZone, Histogram>,
}

impl Metrics {
    pub(super) fn new(cache: &Cache) -> Self {
        let mut registry = Registry::default();
        let (requests, responses) = (Family::<Requests, Counter>::default(), Family::<Responses, Counter>::default());
        let durations = Family::<ByZone, Histogram>::new_with_constructor(|| {
            Histogram::new(exponential_buckets(SHORTEST_SECONDS, 2.0, BUCKETS))
        });
        registry.register("coredns_dns_requests", "Questions", requests.clone());
        registry.register("coredns_dns_responses", "Answers by code", responses.clone());
        registry.register("coredns_dns_request_duration_seconds", "Time until the answer", durations.clone());
        registry.register("coredns_cache_hits", "Answers that were kept", cache.hits.clone());
        registry.register("coredns_cache_misses", "Answers that had to be asked for", cache.misses.clone());
        Metrics { registry, requests, responses, durations }
    }

    /// A question that came over a protocol, and its answer.
    pub(super) fn answered(&self, from: From, zone: &str, request: &Message, answer: &Message, took: Duration) {
        let asked = request.queries.first().map(|query| query.query_type());
        let r#type = match asked {
            Some(one) if NAMED_TYPES.contains(&one) => one.to_string(),
            _ => "other".to_owned(),
        };
        let (zone, family) = (zone.to_owned(), if from.address.is_ipv4() { "1" } else { "2" });
        let requests = Requests { server: SERVER, zone: zone.clone(), view: "", proto: from.protocol, family, r#type };
        self.requests.get_or_create(&requests).inc();
        let rcode = name_of(answer.metadata.response_code);
        self.responses.get_or_create(&Responses { server: SERVER, zone: zone.clone(), view: "", rcode }).inc();
        self.durations.get_or_create(&ByZone { server: SERVER, zone, view: "" }).observe(took.as_secs_f64());
    }

    fn rendered(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        _ = encode(&mut out, &self.registry);
        out
    }
}

/// Who asks, and over which protocol.
#[derive(Clone, Copy)]
pub(super) struct From {
    pub protocol: &'static str,
    pub address: SocketAddr,
}

/// As dashboards know it.
fn name_of(code: ResponseCode) -> String {
    match code {
        ResponseCode::NoError => "NOERROR".to_owned(),
        ResponseCode::FormErr => "FORMERR".to_owned(),
        ResponseCode::ServFail => "SERVFAIL".to_owned(),
        ResponseCode::NXDomain => "NXDOMAIN".to_owned(),
        ResponseCode::NotImp => "NOTIMP".to_owned(),
        ResponseCode::Refused => "REFUSED".to_owned(),
        other => format!("{other:?}").to_uppercase(),
    }
}

impl Server {
    /// Serves `/metrics`, `/health` and `/ready` at an address, until the shutdown.
    pub async fn serve_metrics(self: &Arc<Self>, at: SocketAddr, shutdown: Shutdown) -> std::io::Result<SocketAddr> {
        let listener = TcpListener::bind(at).await?;
        let at = listener.local_addr()?;
        let server = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = shutdown.fired() => {}
                () = server.asked(listener) => {}
            }
        });
        Ok(at)
    }

    async fn asked(self: Arc<Self>, listener: TcpListener) {
        let room = Arc::new(Semaphore::new(ASKING));
        loop {
            let Some((stream, seat)) = accept(&listener, &room).await else { continue };
            let server = self.clone();
            tokio::spawn(async move {
                // A client that hangs up or says nothing is not waited for.
                let _ = tokio::time::timeout(PATIENCE, server.tell(stream)).await;
                drop(seat);
            });
        }
    }

    /// Reads a question to its end and answers it.
    async fn tell(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let (mut asked, mut buffer) = (Vec::new(), [0; 1024]);
        while !asked.windows(4).any(|four| four == b"\r\n\r\n") && asked.len() < QUESTION {
            let length = stream.read(&mut buffer).await?;
            if length == 0 {
                return Ok(());
            }
            asked.extend_from_slice(&buffer[..length]);
        }
        let line = String::from_utf8_lossy(asked.split(|byte| *byte == b'\r').next().unwrap_or_default()).into_owned();
        let path = line.strip_prefix("GET ").and_then(|rest| rest.split([' ', '?']).next()).unwrap_or_default();
        let plain = "text/plain; charset=utf-8";
        let (status, kind, body) = match path {
            "/metrics" => {
                ("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", self.metrics().rendered())
            }
            "/health" => ("200 OK", plain, "OK".to_owned()),
            "/ready" if self.is_ready() => ("200 OK", plain, "OK".to_owned()),
            "/ready" => ("503 Service Unavailable", plain, "not all names are known yet".to_owned()),
            _ => ("404 Not Found", plain, "404 page not found\n".to_owned()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        stream.shutdown().await
    }
}
