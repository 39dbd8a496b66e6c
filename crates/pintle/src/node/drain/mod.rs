//! `pintle node drain`: closes a node, asks the disruption budgets for each of its Pods, and waits until they are gone.

mod plan;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use pintle_kubelet::pressure::duration;
use serde_json::json;
use tokio::time::Instant;

use crate::kubeconfig::{ClusterFlags, NoWay};
use crate::say::say;
use plan::{Allowed, Fate, fate};

/// Between two tries at a Pod that its budget keeps, as with kubectl.
const AGAIN: Duration = Duration::from_secs(5);

const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

#[derive(clap::Args)]
pub(super) struct Flags {
    /// The node.
    #[arg(value_name = "NODE")]
    node: String,
    #[command(flatten)]
    allowed: Allowed,
    /// How many seconds each Pod has to end [default: what it says itself].
    #[arg(long, value_name = "SECONDS")]
    grace_period: Option<u32>,
    /// After which time to give up, such as 5m [default: never].
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,
    #[command(flatten)]
    cluster: ClusterFlags,
}

/// Why Pods are still there, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{0}")]
    NoWay(#[from] NoWay),
    #[error("there is no node {0:?}; `kubectl get nodes` lists them")]
    NoNode(String),
    #[error("the node is closed, but nothing was sent away, because of these Pods:\n{0}")]
    Blocked(String),
    #[error(
        "given up after {0:?}; still there: {1}. The node stays closed; drain it again, or open it with `kubectl uncordon`"
    )]
    Late(Duration, String),
    #[error("the server cannot be asked: {0}")]
    Server(#[from] kube::Error),
    #[error("cannot start: {0}")]
    Runtime(std::io::Error),
}

pub(super) fn run(flags: Flags) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
    runtime.block_on(drain(&flags))
}

async fn drain(flags: &Flags) -> Result<(), Failure> {
    let client = Client::try_from(flags.cluster.config().await?)?;
    let closed = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    match Api::<Node>::all(client.clone()).patch(&flags.node, &PatchParams::default(), &closed).await {
        Err(kube::Error::Api(status)) if status.code == 404 => return Err(Failure::NoNode(flags.node.clone())),
        other => other?,
    };
    say!("closed     {}: no more Pods come", flags.node);
    let on_node = ListParams::default().fields(&format!("spec.nodeName={}", flags.node));
    let pods = Api::<Pod>::all(client.clone()).list(&on_node).await?.items;
    let blocking: Vec<String> = pods
        .iter()
        .filter_map(|pod| match fate(pod, flags.allowed) {
            Fate::Blocks(why) => Some(format!("  {}: {why}", named(pod))),
            Fate::Goes | Fate::Stays => None,
        })
        .collect();
    if !blocking.is_empty() {
        return Err(Failure::Blocked(blocking.join("\n")));
    }
    let leaving: BTreeMap<String, Pod> =
        pods.into_iter().filter(|pod| fate(pod, flags.allowed) == Fate::Goes).map(|pod| (named(&pod), pod)).collect();
    let count = leaving.len();
    send_away(&client, flags, leaving).await?;
    say!("drained    {}: {count} Pods are gone", flags.node);
    Ok(())
}

/// Asks for each until it may go, then waits for each until it is gone.
async fn send_away(client: &Client, flags: &Flags, mut asked: BTreeMap<String, Pod>) -> Result<(), Failure> {
    let started = Instant::now();
    let mut going: BTreeMap<String, Pod> = BTreeMap::new();
    let mut next = Instant::now();
    while !asked.is_empty() || !going.is_empty() {
        if next <= Instant::now() {
            for (name, pod) in std::mem::take(&mut asked) {
                match evict(client, &pod, flags.grace_period).await? {
                    true => going.insert(name, pod),
                    false => {
                        say!("waiting    {name}: its disruption budget keeps it");
                        asked.insert(name, pod)
                    }
                };
            }
            next = Instant::now() + AGAIN;
        }
        for (name, pod) in std::mem::take(&mut going) {
            match is_gone(client, &pod).await? {
                true => say!("gone       {name}"),
                false => {
                    going.insert(name, pod);
                }
            }
        }
        if let Some(longest) = flags.timeout.filter(|longest| started.elapsed() > *longest) {
            let left: Vec<&str> = asked.keys().chain(going.keys()).map(String::as_str).collect();
            if !left.is_empty() {
                return Err(Failure::Late(longest, left.join(", ")));
            }
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    Ok(())
}

/// False if its budget keeps it for now.
async fn evict(client: &Client, pod: &Pod, grace: Option<u32>) -> Result<bool, Failure> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let delete = DeleteParams { grace_period_seconds: grace, ..DeleteParams::default() };
    let params = EvictParams { delete_options: Some(delete), ..EvictParams::default() };
    match pods.evict(&pod.name_any(), &params).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 429 => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Another Pod of the same name is not the same Pod.
async fn is_gone(client: &Client, pod: &Pod) -> Result<bool, Failure> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    Ok(pods.get_opt(&pod.name_any()).await?.is_none_or(|found| found.uid() != pod.uid()))
}

fn named(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any())
}

fn time(text: &str) -> Result<Duration, String> {
    duration(text).ok_or_else(|| format!("{text:?} is not a time such as 5m"))
}
