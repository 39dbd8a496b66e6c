//! How Pods get a network when nobody has set one up: a bridge, by the standard plugins.

use std::path::{Path, PathBuf};

use super::{Cri, configuration};
use crate::error::Error;
use crate::runtime::Runtime;

/// Where distributions and upstream put the standard plugins.
const PLUGINS: [&str; 3] = ["/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"];

/// Where a runtime that does not say so looks for plugins and their configuration.
const USUAL_PLUGINS: &str = "/opt/cni/bin";
const USUAL_PLACE: &str = "/etc/cni/net.d";

/// The name of what is written; whoever sets a network up later takes an earlier one.
const FILE: &str = "99-pintle.conflist";

/// The directory that has the plugins a bridge needs: one of `CNI_PATH`, as the plugins themselves call it, or a usual one.
pub(super) fn plugins() -> Option<PathBuf> {
    let asked = std::env::var_os("CNI_PATH").unwrap_or_default();
    let usual = PLUGINS.iter().map(PathBuf::from);
    std::env::split_paths(&asked).chain(usual).find(|directory| is_complete(directory))
}

fn is_complete(directory: &Path) -> bool {
    ["bridge", "host-local", "loopback"].iter().all(|plugin| directory.join(plugin).is_file())
}

impl Cri {
    /// Sets a bridge up for a runtime that somebody else started, if it has no network for Pods and has the plugins. Says which
    /// file it wrote.
    pub async fn bridge_if_none(&self, bridge: &str, subnet: &str, iptables: bool) -> Result<Option<PathBuf>, Error> {
        if self.health().await.network.is_ok() {
            return Ok(None);
        }
        let shown = configuration(&self.caller).await.unwrap_or_default();
        let place = |field: &str, usual: &str| PathBuf::from(shown["cni"][field].as_str().unwrap_or(usual));
        lay(&place("confDir", USUAL_PLACE), &place("binDir", USUAL_PLUGINS), bridge, subnet, iptables)
    }
}

/// Nothing where another configuration stands, whatever is wrong with it, or where the plugins are missing.
fn lay(place: &Path, plugins: &Path, name: &str, subnet: &str, iptables: bool) -> Result<Option<PathBuf>, Error> {
    let is_configuration = |file: &Path| {
        file.extension().is_some_and(|extension| ["conf", "conflist", "json"].iter().any(|known| extension == *known))
    };
    let mut there = std::fs::read_dir(place).into_iter().flatten().flatten();
    if there.any(|entry| is_configuration(&entry.path())) || !is_complete(plugins) {
        return Ok(None);
    }
    let file = place.join(FILE);
    let failed = |error| Error::Failed(format!("{} cannot be written: {error}", file.display()));
    std::fs::create_dir_all(place).map_err(failed)?;
    let books = Path::new("/var/lib/cni/networks");
    std::fs::write(&file, bridge(name, subnet, books, iptables).to_string()).map_err(failed)?;
    Ok(Some(file))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobodys_network_is_taken_away() {
        let directory = tempfile::tempdir().unwrap();
        let (place, plugins) = (directory.path().join("net.d"), directory.path().join("bin"));
        let laid = || lay(&place, &plugins, "b0", "10.9.0.0/24", false).unwrap();
        assert_eq!(laid(), None, "there are no plugins");
        std::fs::create_dir(&plugins).unwrap();
        for plugin in ["bridge", "host-local", "loopback"] {
            std::fs::write(plugins.join(plugin), "").unwrap();
        }
        assert_eq!(laid(), Some(place.join(FILE)));
        let written: serde_json::Value = serde_json::from_slice(&std::fs::read(place.join(FILE)).unwrap()).unwrap();
        assert_eq!(written["plugins"][0]["ipam"]["ranges"][0][0]["subnet"], "10.9.0.0/24");
        std::fs::rename(place.join(FILE), place.join("10-other.conf")).unwrap();
        assert_eq!(laid(), None, "somebody has set one up");
    }
}
