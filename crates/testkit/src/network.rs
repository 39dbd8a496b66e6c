//! The network of simulated nodes: the real loops, over a kernel that is a record of what it was told.
//!
//! A loop tells its node's kernel by requests of its own client, which faults act on as on all others: a script is a write of
//! `rulesets/NODE`, at which the loop can be crashed or refused. The kernel survives the loop, as a machine survives a process.

use crate::Cluster;
use crate::processes::Factory;
use async_trait::async_trait;
use futures::FutureExt;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Api, ListParams};
use kube::client::Body;
use kube::{Client, ResourceExt};
use pintle_meta::network::{SERVICE_NETWORK, SERVICE_NETWORK_BITS};
use pintle_network::policies::{self, Member, Policy};
use pintle_network::services::{self, Here, ZONE, service_of};
use pintle_network::tool::ToolError;
use pintle_network::{Dataplane, DataplaneError, HealthChecks, Range, RouteLines, Ruleset, Stale, Way};
use pintle_runtime::{Context, Key};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where loops reach the kernel of their node.
const PATH: &str = "/apis/kernel/v1/rulesets/";

/// The addresses of simulated Pods.
const PODS: &str = "10.64.0.0/11";

/// Differences that a message shows.
const SHOWN: usize = 12;

/// The kernels of a cluster's nodes. Cheap to clone; clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Kernels(Arc<Mutex<BTreeMap<String, Kernel>>>);

/// What a node's kernel has taken, the rules that came of it, and why it refused what it refused.
#[derive(Clone, Default)]
struct Kernel {
    scripts: Vec<String>,
    rules: Ruleset,
    refused: Vec<String>,
}

impl Kernel {
    fn apply(&mut self, script: String) -> StatusCode {
        match self.rules.apply(&script) {
            Ok(()) => {
                self.scripts.push(script);
                StatusCode::OK
            }
            Err(why) => {
                self.refused.push(why);
                StatusCode::UNPROCESSABLE_ENTITY
            }
        }
    }
}

impl Kernels {
    /// Others with the same rules.
    pub(crate) fn fork(&self) -> Kernels {
        Kernels(Arc::new(Mutex::new(self.all().clone())))
    }

    fn of(&self, node: &str) -> Kernel {
        self.all().get(node).cloned().unwrap_or_default()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Kernel>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client that reaches the kernels too.
    pub(crate) fn over(&self, client: Client) -> Client {
        let (kernels, namespace) = (self.clone(), client.default_namespace().to_owned());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (kernels, client) = (kernels.clone(), client.clone());
            async move {
                match request.uri().path().strip_prefix(PATH).map(str::to_owned) {
                    None => client.send(request).await,
                    Some(node) => Ok(tell(&kernels, &node, request).await),
                }
            }
        });
        Client::new(service, namespace)
    }
}

/// A PUT is a script; a GET asks for the table that its query names.
async fn tell(kernels: &Kernels, node: &str, request: Request<Body>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let code = if head.method == Method::GET {
        let is_there = kernels.of(node).rules.has(head.uri.query().unwrap_or_default());
        if is_there { StatusCode::OK } else { StatusCode::NOT_FOUND }
    } else {
        let script = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let script = String::from_utf8_lossy(&script).into_owned();
        kernels.all().entry(node.to_owned()).or_default().apply(script)
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = code;
    response
}

/// The dataplane of one node, for one life of its loops.
struct Told {
    client: Client,
    node: String,
}

impl Told {
    async fn ask(&self, method: Method, query: &str, body: &str) -> Result<StatusCode, String> {
        let request = Request::builder().method(method).uri(format!("{PATH}{}?{query}", self.node));
        let request = request.body(Body::from(body.as_bytes().to_vec())).map_err(|error| error.to_string())?;
        self.client.send(request).await.map(|answer| answer.status()).map_err(|error| error.to_string())
    }
}

#[async_trait]
impl Dataplane for Told {
    async fn apply(&self, script: &str) -> Result<(), DataplaneError> {
        let refused = |why: String| Err(DataplaneError::Refused(ToolError::Failed(why)));
        match self.ask(Method::PUT, "", script).await {
            Ok(StatusCode::OK) => Ok(()),
            Ok(code) => refused(code.to_string()),
            Err(error) => refused(error),
        }
    }

    async fn has(&self, table: &str) -> bool {
        self.ask(Method::GET, table, "").await == Ok(StatusCode::OK)
    }

    async fn answer_balancers(&self, _: HealthChecks) {}

    async fn way_to(&self, _: IpAddr) -> Option<Way> {
        None
    }

    async fn route(&self, _: &RouteLines) -> Result<(), DataplaneError> {
        Ok(())
    }

    async fn routes(&self, _: u8) -> Vec<Range> {
        Vec::new()
    }

    async fn forget(&self, _: Vec<Stale>) -> Result<(), DataplaneError> {
        Ok(())
    }
}

/// The name of the process that carries packets on a node, which it also signs its requests with.
fn agent(node: &str) -> String {
    format!("network-{node}")
}

fn here(node: &str, zone: &str) -> Here {
    let services = format!("{SERVICE_NETWORK}/{SERVICE_NETWORK_BITS}");
    Here {
        table: "pintle".to_owned(),
        bridge: "pintle".to_owned(),
        node: node.to_owned(),
        zone: zone.to_owned(),
        pods: PODS.parse().into_iter().collect(),
        services: services.parse().into_iter().collect(),
    }
}

impl Cluster {
    /// Starts the network of all nodes: the loops of Services and NetworkPolicies, each node's as a process of the name
    /// `network-NODE`.
    pub fn start_network(&self) {
        for index in 0..self.nodes {
            let node = format!("node-{index}");
            let (agent, named) = (agent(&node), node.clone());
            let factory: Factory = Arc::new(move |context: Context| {
                let (here, node) = (here(&named, ""), named.clone());
                async move {
                    let dataplane = Arc::new(Told { client: context.client.clone(), node });
                    tokio::join!(
                        services::run(context.clone(), here.clone(), dataplane.clone()),
                        policies::run(context, here, dataplane)
                    );
                }
                .boxed()
            });
            // It is there even if nothing is ever told to it.
            self.kernels.all().entry(node).or_default();
            self.start_process(&agent, &agent, factory, None);
        }
    }

    /// The scripts that a node's kernel has taken, in order.
    pub fn scripts(&self, node: &str) -> Vec<String> {
        self.kernels.of(node).scripts
    }

    /// The rules of a node.
    pub fn rules(&self, node: &str) -> Ruleset {
        self.kernels.of(node).rules
    }

    /// How the rules of nodes differ from those that the objects of now make, and the scripts that no kernel would take.
    ///
    /// # Panics
    ///
    /// When the objects cannot be listed.
    pub async fn stray_rules(&self) -> Vec<String> {
        let kernels = self.kernels.all().clone();
        let mut stray = Vec::new();
        for (node, kernel) in kernels {
            stray.extend(kernel.refused.iter().map(|why| format!("{node} refused a script: {why}")));
            let mut fresh = Ruleset::default();
            for script in self.planned(&node).await {
                fresh.apply(&script).unwrap_or_else(|why| panic!("no kernel takes a fresh plan: {why}"));
            }
            let (wanted, got) = (fresh.lines(), kernel.rules.lines());
            stray.extend(wanted.difference(&got).map(|line| format!("{node} lacks {line}")));
            stray.extend(got.difference(&wanted).map(|line| format!("{node} still has {line}")));
        }
        stray.truncate(SHOWN);
        stray
    }

    /// All rules that a node needs now, by somebody who has seen nothing before.
    async fn planned(&self, node: &str) -> Vec<String> {
        let zone = self.list::<Node>().await.into_iter().find(|one| one.name_any() == node);
        let here = here(node, zone.and_then(|one| one.labels().get(ZONE).cloned()).as_deref().unwrap_or_default());
        let slices: Vec<Arc<EndpointSlice>> = self.list().await.into_iter().map(Arc::new).collect();
        let (mut table, mut touched) = (services::Table::default(), services::Touched::default());
        for service in self.list::<Service>().await {
            let key = Key::of(&service);
            let own: Vec<_> = slices.iter().filter(|slice| service_of(slice).as_ref() == Some(&key)).cloned().collect();
            table.put(&key, services::plan(&service, &own, &here), &mut touched);
        }
        let (mut judged, mut touched) = (policies::Table::default(), policies::Touched::default());
        for namespace in self.list::<Namespace>().await {
            let labels = namespace.metadata.labels.clone().unwrap_or_default();
            judged.put_namespace(&namespace.name_any(), Some(labels), &mut touched);
        }
        for pod in self.list::<Pod>().await {
            judged.put_pod(&Key::of(&pod), Member::of(&pod, node), &mut touched);
        }
        for policy in self.list::<NetworkPolicy>().await {
            judged.put_policy(&Key::of(&policy), Some(Policy::of(&policy)));
        }
        judged.settle(&mut touched);
        let mut scripts = judged.whole(&here);
        scripts.push(table.whole(&here));
        scripts
    }

    async fn list<K>(&self) -> Vec<K>
    where
        K: kube::Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        let listed = Api::<K>::all(self.client()).list(&ListParams::default()).await;
        listed.unwrap_or_else(|error| panic!("{error}")).items
    }
}
