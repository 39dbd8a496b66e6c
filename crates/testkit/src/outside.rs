//! What lies outside of a test's cluster, where webhooks and other API servers would be: nothing, unless a test puts it there.
//!
//! ```text
//! API server ── connect(address of an EndpointSlice) ── Outside ── pipe ── Wire ── WebhookServer of the test
//! ```
//!
//! Nothing that a test does leaves its process, and the time of what is there is the cluster's.

use crate::Cluster;
use futures::FutureExt;
use futures::future::BoxFuture;
use pintle_apiserver::nodes::Duplex;
use pintle_apiserver::nodes::network::Network;
use pintle_runtime::webhook::{Stream, Wire};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Connections that wait to be taken in.
const BACKLOG: usize = 64;
const PIPE_BYTES: usize = 64 * 1024;
/// Larger than any answer that the API server reads.
const HUGE_BYTES: usize = 17 * 1024 * 1024;
const PORT: u16 = 9443;

/// Everybody who listens, by address.
#[derive(Clone, Default)]
pub(crate) struct Outside(Arc<Mutex<BTreeMap<String, Webhook>>>);

impl Outside {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Webhook>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Network for Outside {
    fn connect(&self, host: String, _port: u16) -> BoxFuture<'static, io::Result<Box<dyn Duplex>>> {
        let listening = self.all().get(&host).cloned();
        async move {
            let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
            listening.ok_or_else(refused)?.connect().await.ok_or_else(refused)
        }
        .boxed()
    }
}

/// How a webhook lies. What it answers is well-formed HTTP all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// To another question than the one that was asked.
    WrongUid,
    /// Yes, whatever its handler says.
    Yes,
    /// A patch that fits nothing.
    BadPatch,
    /// No JSON.
    Nonsense,
    /// More than the API server reads.
    Huge,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    is_down: bool,
    delay: Duration,
    lie: Option<Lie>,
}

/// Where connections to a server are handed over; nothing while none listens.
type Line = Arc<Mutex<Option<mpsc::Sender<Box<dyn Stream>>>>>;

/// A place outside of the cluster at which a webhook server listens, and what is wrong with it. Cheap to clone; clones are the same.
#[derive(Clone)]
pub struct Webhook {
    state: Arc<watch::Sender<State>>,
    connections: Line,
}

impl Webhook {
    fn new() -> Self {
        Webhook { state: Arc::new(watch::Sender::new(State::default())), connections: Arc::default() }
    }

    /// For [`serve_over`](pintle_runtime::webhook::WebhookServer::serve_over). A second one takes the place of the first, as a new
    /// process does.
    pub fn wire(&self) -> Wire {
        let (sender, connections) = mpsc::channel(BACKLOG);
        *self.connections.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        let state = self.state.subscribe();
        let answered = move |body: Vec<u8>| {
            let State { delay, lie, .. } = *state.borrow();
            async move {
                tokio::time::sleep(delay).await;
                match lie {
                    Some(lie) => told(lie, body),
                    None => body,
                }
            }
            .boxed()
        };
        Wire { connections, answered: Arc::new(answered) }
    }

    /// Nobody answers any more, and connections that were open are cut.
    pub fn down(&self) {
        self.state.send_modify(|state| state.is_down = true);
    }

    /// Every answer takes this long.
    pub fn slow(&self, delay: Duration) {
        self.state.send_modify(|state| state.delay = delay);
    }

    /// From now on it lies so.
    pub fn lies(&self, lie: Lie) {
        self.state.send_modify(|state| state.lie = Some(lie));
    }

    /// All is well again.
    pub fn well(&self) {
        self.state.send_replace(State::default());
    }

    async fn connect(&self) -> Option<Box<dyn Duplex>> {
        let sender = self.connections.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let mut state = self.state.subscribe();
        if state.borrow().is_down {
            return None;
        }
        let (near, mut from_server) = tokio::io::duplex(PIPE_BYTES);
        let (far, mut from_webhook) = tokio::io::duplex(PIPE_BYTES);
        sender.send(Box::new(far)).await.ok()?;
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = state.wait_for(|state| state.is_down) => {}
                _ = tokio::io::copy_bidirectional(&mut from_server, &mut from_webhook) => {}
            }
        });
        Some(Box::new(near))
    }
}

fn told(lie: Lie, body: Vec<u8>) -> Vec<u8> {
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut review: Value = serde_json::from_slice(&body).unwrap_or_default();
        change(&mut review["response"]);
        review.to_string().into_bytes()
    };
    match lie {
        Lie::WrongUid => changed(&|response| response["uid"] = "another".into()),
        Lie::Yes => changed(&|response| response["allowed"] = true.into()),
        Lie::BadPatch => changed(&|response| {
            response["patchType"] = "JSONPatch".into();
            // [{"op": "remove", "path": "/nothing/here"}]
            response["patch"] = "W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL25vdGhpbmcvaGVyZSJ9XQ==".into();
        }),
        Lie::Nonsense => b"I am no JSON".to_vec(),
        Lie::Huge => vec![b' '; HUGE_BYTES],
    }
}

impl Cluster {
    /// A Service without a selector, and the place behind it at which a webhook server of the test listens. Its namespace must be
    /// there.
    pub async fn webhook(&self, namespace: &str, service: &str) -> Webhook {
        let webhook = Webhook::new();
        let address = {
            let mut all = self.outside.all();
            // The range that documentation may use.
            let address = format!("192.0.2.{}", all.len() + 1);
            // By the name of the Service too, for programs that are not found through the cluster.
            all.insert(format!("{service}.{namespace}.svc"), webhook.clone());
            all.insert(address.clone(), webhook.clone());
            address
        };
        let metadata = json!({"name": service, "namespace": namespace});
        self.apply(json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata,
            "spec": {"ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": PORT}]}}))
            .await;
        self.apply(json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": format!("{service}-outside"), "namespace": namespace,
                "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4", "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
            "ports": [{"name": "https", "port": PORT, "protocol": "TCP"}]}))
            .await;
        webhook
    }
}
