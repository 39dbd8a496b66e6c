//! What every loop is given at its start: client, clock, chance, informers, recorder and shutdown.
//!
//! The client signs: who asks, under which leadership, and, inside a reconcile, why.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderValue, Method, Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use pintle_meta::{Clock, Random};

use crate::attempt::Attempt;
use crate::board::Board;
use crate::cause::header;
use crate::events::{Recorder, Sink};
use crate::informer::Informers;
use crate::leader::Leadership;
use crate::serve::Metrics;
use crate::shutdown::{Shutdown, Trigger};
use crate::trace::Spans;

/// The header that says under which leadership a write is made: `NAMESPACE/LEASE:TERM`.
const FENCE: &str = "pintle-fence";

/// What a loop may reach. Cheap to clone; clones share informers and the event sink.
#[derive(Clone)]
pub struct Context {
    /// The name under which this loop writes; empty before [`Context::named`].
    pub name: String,
    pub client: Client,
    pub clock: Clock,
    pub random: Random,
    pub informers: Informers,
    pub shutdown: Shutdown,
    /// What every loop of this context has to do.
    pub board: Board,
    /// What every loop of this context has done.
    pub metrics: Metrics,
    events: Sink,
    spans: Option<Arc<dyn Spans>>,
    /// The client before it was signed.
    base: Client,
    signature: Signature,
    /// In place of the number of workers that a loop gives itself.
    workers: Option<usize>,
}

impl Context {
    /// Call it inside a tokio runtime: the event sink starts here.
    pub fn new(client: Client, clock: Clock, random: Random, shutdown: Shutdown) -> Self {
        Context::seen_by(Metrics::default(), client, clock, random, shutdown)
    }

    /// The same, whose loops, informers and events are counted there.
    pub(crate) fn seen_by(metrics: Metrics, client: Client, clock: Clock, random: Random, shutdown: Shutdown) -> Self {
        let base = client;
        let signature = Signature { cluster: ClusterId::next(), ..Signature::default() };
        let client = signature.over(&base, &metrics);
        let informers = Informers::new(client.clone(), random.clone(), shutdown.clone()).in_cluster(signature.cluster);
        let events = Sink::start(&client, clock.clone(), &random, metrics.clone(), &shutdown);
        metrics.observe_informers(informers.watching());
        let (name, board, spans, workers) = Default::default();
        Context {
            name,
            client,
            clock,
            random,
            informers,
            shutdown,
            board,
            metrics,
            events,
            spans,
            base,
            signature,
            workers,
        }
    }

    /// The same context for one loop: its client signs requests with the loop's name, which becomes the field manager
    /// of its writes, and its shutdown is a child, so that it can be stopped and started alone.
    pub fn named(&self, name: &str) -> (Trigger, Context) {
        let (trigger, shutdown) = self.shutdown.child();
        let signature = Signature { agent: Some(format!("{name}/pintle")), ..self.signature.clone() };
        let client = signature.over(&self.base, &self.metrics);
        (trigger, Context { name: name.to_owned(), client, shutdown, signature, ..self.clone() })
    }

    /// The same for another cluster: informers and events of its own; clock, chance, shutdown, board and metrics shared. A
    /// loop of this context may watch the other's informers as well as its own.
    pub fn in_cluster(&self, client: Client) -> Context {
        let (clock, random, shutdown) = (self.clock.clone(), self.random.clone(), self.shutdown.clone());
        let other = Context::seen_by(self.metrics.clone(), client, clock, random, shutdown);
        Context { board: self.board.clone(), spans: self.spans.clone(), ..other }
    }

    /// The same context for one namespace: namespaced kinds are listed and watched there and nowhere else, so that a Role is enough.
    pub fn in_namespace(&self, namespace: &str) -> Context {
        Context { informers: self.informers.clone().in_namespace(namespace), ..self.clone() }
    }

    /// The same context while a Lease is held: it ends with the leadership, and its writes carry the term, so that a
    /// server which knows the header refuses them once another leads.
    pub fn led(&self, leadership: &Leadership) -> Context {
        let signature = Signature { fence: Some(leadership.fence.clone()), ..self.signature.clone() };
        let client = signature.over(&self.base, &self.metrics);
        Context { client, shutdown: leadership.shutdown.clone(), signature, ..self.clone() }
    }

    /// The same context, whose loops' reconciles become spans there.
    pub fn export_to(self, spans: Arc<dyn Spans>) -> Context {
        Context { spans: Some(spans), ..self }
    }

    pub(crate) fn spans(&self) -> Option<&Arc<dyn Spans>> {
        self.spans.as_ref()
    }

    /// The same context, whose loops work on so many keys at once, whatever they say themselves.
    pub fn with_workers(&self, workers: usize) -> Context {
        Context { workers: Some(workers), ..self.clone() }
    }

    pub(crate) fn workers(&self) -> Option<usize> {
        self.workers
    }

    /// A recorder of events in the name of a component, such as `deployment-controller`.
    pub fn recorder(&self, component: &str) -> Recorder {
        self.events.recorder(component)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Context").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Tells the clusters that a process speaks to from each other; nothing else is made of the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClusterId(u64);

impl ClusterId {
    fn next() -> ClusterId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        ClusterId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// What a loop's requests carry beside what is asked.
#[derive(Clone, Debug, Default)]
struct Signature {
    cluster: ClusterId,
    /// The user agent.
    agent: Option<String>,
    /// Which leadership the writes belong to.
    fence: Option<String>,
}

impl Signature {
    /// The same client, whose requests are signed, and whose writes inside a reconcile tell their cause.
    fn over(&self, client: &Client, metrics: &Metrics) -> Client {
        let (inner, namespace) = (client.clone(), client.default_namespace().to_owned());
        let value = |text: &Option<String>| text.as_deref().and_then(|text| HeaderValue::from_str(text).ok());
        let (agent, fence, cluster) = (value(&self.agent), value(&self.fence), self.cluster);
        let metrics = metrics.clone();
        let service = tower::service_fn(move |mut request: Request<Body>| {
            let (inner, metrics) = (inner.clone(), metrics.clone());
            if let Some(agent) = &agent {
                request.headers_mut().insert(http::header::USER_AGENT, agent.clone());
            }
            let writes = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE].contains(request.method());
            if let Some(fence) = fence.as_ref().filter(|_| writes) {
                request.headers_mut().insert(FENCE, fence.clone());
            }
            async move {
                // This part runs on the caller's task, which knows its attempt.
                let method = request.method().clone();
                let answer = match Attempt::current() {
                    Some(attempt) if writes => write(&inner, cluster, &attempt, request).await,
                    _ => inner.send(request).await,
                };
                metrics.asked(&method, answer.as_ref().ok().map(|answer| answer.status().as_u16()));
                answer
            }
        });
        Client::new(service, namespace)
    }
}

/// Sends a write with its cause, and notes the revision that came of it.
async fn write(
    client: &Client,
    cluster: ClusterId,
    attempt: &Attempt,
    mut request: Request<Body>,
) -> Result<Response<Body>, kube::Error> {
    if let Some(cause) = attempt.header() {
        request.headers_mut().insert(header::NAME, cause);
    }
    let trace = attempt.trace.and_then(|trace| HeaderValue::from_str(&trace.to_string()).ok());
    if let Some(trace) = trace {
        request.headers_mut().entry(pintle_meta::trace::HEADER).or_insert(trace);
    }
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = client.send(request).await?;
    if !response.status().is_success() {
        return Ok(response);
    }
    let (head, body) = response.into_parts();
    let bytes = body.collect().await?.to_bytes();
    attempt.wrote(cluster, &method, &path, &bytes);
    Ok(Response::from_parts(head, Body::from(bytes)))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[tokio::test]
    async fn the_server_can_tell_which_loop_writes() {
        let agents: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = agents.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let agent = request.headers().get(http::header::USER_AGENT).and_then(|agent| agent.to_str().ok());
            seen.lock().unwrap().push(agent.unwrap_or_default().to_owned());
            async { Ok::<_, std::convert::Infallible>(http::Response::new(Body::from(b"{}".to_vec()))) }
        });
        let (_trigger, shutdown) = Shutdown::new();
        let clock = Clock::virtual_from(jiff::Timestamp::UNIX_EPOCH);
        let context = Context::new(Client::new(service, "default"), clock, Random::seeded(1), shutdown);
        let (stop, named) = context.named("replicaset-controller");
        named.client.request_text(http::Request::get("/version").body(Vec::new()).unwrap()).await.unwrap();
        assert_eq!(*agents.lock().unwrap(), ["replicaset-controller/pintle"]);
        stop.fire();
        assert!(named.shutdown.has_fired() && !context.shutdown.has_fired());
    }
}
