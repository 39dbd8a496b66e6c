//! `pintle network show`: what a node does with packets to a Service, or to and from a Pod, and by which rules.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use pintle_meta::network::{SERVICE_NETWORK, SERVICE_NETWORK_BITS};
use pintle_network::policies::{self, Member, Policy};
use pintle_network::services::{Here, ZONE, explain, plan, service_of};
use pintle_runtime::Key;

use crate::kubeconfig::{ClusterFlags, NoWay};
use crate::{machine, say};

#[derive(clap::Args)]
pub(crate) struct Flags {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Explain the rules for a Service, or for a Pod: its NetworkPolicies and the Services that it serves.
    Show {
        /// `service/NAME` or `pod/NAME`.
        #[arg(value_name = "KIND/NAME")]
        object: String,
        /// Its namespace [default: the kubeconfig's].
        #[arg(short, long, value_name = "NS")]
        namespace: Option<String>,
        /// The node whose rules are shown [default: this machine].
        #[arg(long, value_name = "NAME")]
        node: Option<String>,
        #[command(flatten)]
        cluster: ClusterFlags,
    },
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0:?} is neither service/NAME nor pod/NAME")]
    NoObject(String),
    #[error("{0}")]
    NoWay(#[from] NoWay),
    #[error("the server cannot be asked: {0}")]
    Server(#[from] kube::Error),
    #[error("cannot start: {0}")]
    Runtime(std::io::Error),
}

pub(crate) fn run(flags: Flags) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
    let What::Show { object, namespace, node, cluster } = flags.what;
    say::text(&runtime.block_on(show(&object, namespace, node, &cluster))?);
    Ok(())
}

async fn show(
    object: &str,
    namespace: Option<String>,
    node: Option<String>,
    cluster: &ClusterFlags,
) -> Result<String, Failure> {
    let (kind, name) = object.split_once('/').ok_or_else(|| Failure::NoObject(object.to_owned()))?;
    let client = Client::try_from(cluster.config().await?)?;
    let namespace = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
    let here = here(&client, node.unwrap_or_else(machine::name)).await?;
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), &namespace);
    let slices: Vec<Arc<EndpointSlice>> =
        slices.list(&ListParams::default()).await?.items.into_iter().map(Arc::new).collect();
    let (mut out, names) = match kind {
        "service" | "services" | "svc" => (String::new(), vec![name.to_owned()]),
        "pod" | "pods" | "po" => {
            let pod = Api::<Pod>::namespaced(client.clone(), &namespace).get(name).await?;
            (judged(&client, &namespace, &pod).await?, served_by(&pod, &slices))
        }
        _ => return Err(Failure::NoObject(object.to_owned())),
    };
    let services: Api<Service> = Api::namespaced(client, &namespace);
    for name in names {
        let service = services.get(&name).await?;
        let key = Key::new(&namespace, &name);
        let own: Vec<_> = slices.iter().filter(|slice| service_of(slice).as_ref() == Some(&key)).cloned().collect();
        out += &format!("Service {key} on {}\n\n{}", here.node, explain(&key, &plan(&service, &own, &here), &here));
    }
    Ok(out)
}

/// What policies let in and out of a Pod, on its own node.
async fn judged(client: &Client, namespace: &str, pod: &Pod) -> Result<String, Failure> {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("no node yet");
    let title = format!("Pod {} on {node}\n\n", Key::of(pod));
    let Some(member) = Member::of(pod, node) else {
        return Ok(title + "It has no address of its own: no NetworkPolicy concerns it\n\n");
    };
    let policies = Api::<NetworkPolicy>::namespaced(client.clone(), namespace).list(&ListParams::default()).await?;
    let policies: Vec<(Key, Policy)> =
        policies.items.iter().map(|policy| (Key::of(policy), Policy::of(policy))).collect();
    Ok(title + &policies::explain(&policies, &member) + "\n")
}

/// The Services that send packets to a Pod.
fn served_by(pod: &Pod, slices: &[Arc<EndpointSlice>]) -> Vec<String> {
    let addresses: Vec<&String> =
        pod.status.iter().flat_map(|status| &status.pod_ips).flatten().map(|one| &one.ip).collect();
    let has = |slice: &&Arc<EndpointSlice>| {
        slice.endpoints.iter().flatten().any(|one| one.addresses.iter().any(|address| addresses.contains(&address)))
    };
    let mut names: Vec<String> =
        slices.iter().filter(has).filter_map(|slice| Some(service_of(slice)?.name().to_owned())).collect();
    names.sort();
    names.dedup();
    names
}

/// The node as its own rules know it, but for the names of its tables and the addresses of Pods, which do not change what is
/// explained.
async fn here(client: &Client, node: String) -> Result<Here, Failure> {
    let found = Api::<Node>::all(client.clone()).get(&node).await?;
    let zone = found.labels().get(ZONE).cloned().unwrap_or_default();
    let services = format!("{SERVICE_NETWORK}/{SERVICE_NETWORK_BITS}").parse().into_iter().collect();
    Ok(Here { table: "pintle".to_owned(), bridge: "pintle".to_owned(), node, zone, pods: Vec::new(), services })
}
