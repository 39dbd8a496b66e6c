//! How packets of this machine's Pods find Services, and Pods names.

use std::net::SocketAddr;

use pintle_kubelet::NodeConfig;
use pintle_meta::network::{DNS_ADDRESS, SERVICE_NETWORK, SERVICE_NETWORK_BITS};
use pintle_network::dns::Published;
use pintle_network::node::Names;
use pintle_network::services::Here;
use pintle_network::{Bridge, NodeNetworkConfig, Range};

/// Where names are answered.
const DNS_PORT: u16 = 53;
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Makes the bridge if it is ours to make. Where somebody else gives Pods their addresses, they look names up as the node does.
pub(super) async fn config(bridge: &str, node: &NodeConfig, pods: &str, is_ours: bool) -> NodeNetworkConfig {
    let range = |text: &str| text.parse::<Range>().ok();
    let services: Vec<Range> = range(&format!("{SERVICE_NETWORK}/{SERVICE_NETWORK_BITS}")).into_iter().collect();
    let pods: Vec<Range> = range(pods).into_iter().collect();
    let here = Here {
        table: bridge.to_owned(),
        bridge: bridge.to_owned(),
        node: node.name.clone(),
        zone: String::new(),
        pods: pods.clone(),
        services: services.clone(),
    };
    let names = match pods.first().filter(|_| is_ours) {
        Some(pods) => names(Bridge { name: bridge.to_owned(), pods: *pods, services }, node).await,
        None => None,
    };
    NodeNetworkConfig { here, names }
}

async fn names(bridge: Bridge, node: &NodeConfig) -> Option<Names> {
    let gateway = match bridge.lay().await.and_then(|()| bridge.gateway()) {
        Ok(gateway) => gateway,
        Err(error) => {
            tracing::warn!(%error, "Pods find neither names nor the API server: the bridge between them cannot be laid");
            return None;
        }
    };
    let at = SocketAddr::new(gateway, DNS_PORT);
    let published = Published { node: node.name.clone(), at, service: DNS_ADDRESS.into() };
    let resolv_conf = tokio::fs::read_to_string(RESOLV_CONF).await.unwrap_or_default();
    Some(Names { published, domain: node.cluster_domain.clone(), resolv_conf })
}
