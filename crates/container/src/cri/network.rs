//! How Pods get a network when nobody has set one up: a bridge, by the standard plugins.

use std::path::{Path, PathBuf};

/// Where distributions and upstream put the standard plugins.
const PLUGINS: [&str; 3] = ["/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"];

/// The directory that has the plugins a bridge needs.
pub(super) fn plugins() -> Option<PathBuf> {
    let complete = |directory: &PathBuf| {
        ["bridge", "host-local", "loopback"].iter().all(|plugin| directory.join(plugin).is_file())
    };
    PLUGINS.iter().map(PathBuf::from).find(complete)
}

/// A bridge over which the Pods of this node reach each other, the node, and through its address the world.
///
/// Without iptables there is nothing that could rewrite addresses: Pods then reach only each other and the node, and ports of
/// the node lead nowhere.
pub(super) fn bridge(name: &str, subnet: &str, books: &Path, iptables: bool) -> serde_json::Value {
    let bridge = serde_json::json!({
        "type": "bridge", "bridge": name, "isGateway": true, "ipMasq": iptables, "hairpinMode": true,
        "ipam": {"type": "host-local", "dataDir": books, "ranges": [[{"subnet": subnet}]], "routes": [{"dst": "0.0.0.0/0"}]},
    });
    let ports = serde_json::json!({"type": "portmap", "capabilities": {"portMappings": true}});
    let plugins: Vec<_> = std::iter::once(bridge).chain(iptables.then_some(ports)).collect();
    serde_json::json!({"cniVersion": "0.4.0", "name": "pintle", "plugins": plugins})
}
