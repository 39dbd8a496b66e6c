//! What every loop is given at its start: client, clock, chance, informers, recorder and shutdown.

use kube::Client;
use kube::client::Body;
use pintle_meta::{Clock, Random};

use crate::board::Board;
use crate::events::{Recorder, Sink};
use crate::informer::Informers;
use crate::shutdown::{Shutdown, Trigger};

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
    events: Sink,
}

impl Context {
    /// Call it inside a tokio runtime: the event sink starts here.
    pub fn new(client: Client, clock: Clock, random: Random, shutdown: Shutdown) -> Self {
        let informers = Informers::new(client.clone(), random.clone(), shutdown.clone());
        let events = Sink::start(client.clone(), clock.clone(), random.clone(), shutdown.clone());
        Context { name: String::new(), client, clock, random, informers, shutdown, board: Board::default(), events }
    }

    /// The same context for one loop: its client signs requests with the loop's name, which becomes the field manager
    /// of its writes, and its shutdown is a child, so that it can be stopped and started alone.
    pub fn named(&self, name: &str) -> (Trigger, Context) {
        let (trigger, own) = self.shutdown.child();
        let context =
            Context { name: name.to_owned(), client: signed(&self.client, name), shutdown: own, ..self.clone() };
        (trigger, context)
    }

    /// A recorder of events in the name of a component, such as `deployment-controller`.
    pub fn recorder(&self, component: &str) -> Recorder {
        self.events.recorder(component)
    }
}

/// The same client, whose requests carry `name` as the user agent.
fn signed(client: &Client, name: &str) -> Client {
    let (inner, namespace) = (client.clone(), client.default_namespace().to_owned());
    let agent = http::HeaderValue::from_str(&format!("{name}/pintle"));
    let service = tower::service_fn(move |mut request: http::Request<Body>| {
        let inner = inner.clone();
        if let Ok(agent) = &agent {
            request.headers_mut().insert(http::header::USER_AGENT, agent.clone());
        }
        async move { inner.send(request).await }
    });
    Client::new(service, namespace)
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
