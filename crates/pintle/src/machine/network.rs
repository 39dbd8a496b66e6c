//! How packets of this machine's Pods find Services, and Pods names.

use std::path::Path;

use pintle_kubelet::NodeConfig;
use pintle_meta::network::{DNS_ADDRESS, SERVICE_NETWORK, SERVICE_NETWORK_BITS};
use pintle_network::cni::Places;
use pintle_network::services::Here;
use pintle_network::{NodeNetworkConfig, Own, Range};

const RESOLV_CONF: &str = "/etc/resolv.conf";

/// What a node is told; `places` where it is ours to give Pods a network.
pub(super) fn config(bridge: &str, node: &NodeConfig, places: Option<Places>, directory: &Path) -> NodeNetworkConfig {
    let services = format!("{SERVICE_NETWORK}/{SERVICE_NETWORK_BITS}").parse::<Range>();
    let here = Here {
        table: bridge.to_owned(),
        bridge: bridge.to_owned(),
        node: node.name.clone(),
        zone: String::new(),
        pods: Vec::new(),
        services: services.into_iter().collect(),
    };
    let own = places.and_then(|places| match link(&places) {
        Ok(()) => Some(Own {
            places,
            books: directory.join("addresses"),
            names: DNS_ADDRESS.into(),
            domain: node.cluster_domain.clone(),
            resolv_conf: std::fs::read_to_string(RESOLV_CONF).unwrap_or_default(),
        }),
        Err(error) => {
            tracing::warn!(%error, "Pods get no network: the plugin cannot be put below {}", places.plugins.display());
            None
        }
    });
    NodeNetworkConfig { here, own }
}

/// The runtime starts this program as the plugin.
fn link(places: &Places) -> std::io::Result<()> {
    places.link(&std::env::current_exe()?)
}
