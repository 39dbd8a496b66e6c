//! The bridge between the Pods of this machine, and what the kernel must allow for it.
//!
//! It is there before the first Pod: the name server and the API server listen at its address.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::address::{Family, OfFamily, Range};
use crate::cni::{Books, Ports};
use crate::tool::{self, ToolError};

/// Packets between two Pods of one bridge are shown to the rules too; without that the answer of a Service would come from an
/// address that nobody asked.
const SHOWN_TO_RULES: [&str; 2] =
    ["/proc/sys/net/bridge/bridge-nf-call-iptables", "/proc/sys/net/bridge/bridge-nf-call-ip6tables"];
const PASSED_ON: [(Family, &str); 2] =
    [(Family::V4, "/proc/sys/net/ipv4/ip_forward"), (Family::V6, "/proc/sys/net/ipv6/conf/all/forwarding")];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bridge {
    /// At most 15 characters.
    pub name: String,
    /// The addresses of this machine's Pods, of each family at most one range; the first is the family that they have first.
    pub pods: Vec<Range>,
    /// The addresses of all Pods of the cluster. Packets among them show who sent them.
    pub cluster: Vec<Range>,
    /// The addresses of all Services, to which Pods and the node have a way through the bridge, wherever other packets go.
    pub services: Vec<Range>,
    /// Where it is written down which Pod has which address.
    pub books: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    #[error("the bridge {0} cannot be laid: {1}")]
    Ip(String, ToolError),
    #[error("ports of the node cannot lead to Pods, nor Pods reach the world: {0}")]
    Rules(ToolError),
    #[error("{0} cannot be written: {1}")]
    Setting(String, std::io::Error),
    #[error("{0} has no room for Pods")]
    Small(Range),
    #[error("a bridge needs a range of addresses for its Pods")]
    NoRange,
}

impl Bridge {
    /// The bridge's own address, the first of the first range.
    pub fn gateway(&self) -> Result<IpAddr, BridgeError> {
        let first = self.pods.first().ok_or(BridgeError::NoRange)?;
        first.second().ok_or(BridgeError::Small(*first))
    }

    /// Makes it, or takes it as it was left.
    pub async fn lay(&self) -> Result<(), BridgeError> {
        let name = &self.name;
        let mut lines = Vec::new();
        if !is_there(name).await {
            // An address of its own: else it would have that of one of its Pods, and others would have to learn it anew.
            lines.push(format!("link add {name} address {} type bridge", hardware_address(self.gateway()?)));
        }
        for range in &self.pods {
            let gateway = range.second().ok_or(BridgeError::Small(*range))?;
            let quick = if range.family() == Family::V6 { " nodad" } else { "" };
            lines.push(format!("addr replace {gateway}/{} dev {name}{quick}", range.bits()));
        }
        lines.push(format!("link set {name} up"));
        for range in &self.pods {
            let gateway = range.second().ok_or(BridgeError::Small(*range))?;
            for services in self.services.iter().filter(|services| services.family() == range.family()) {
                lines.push(format!("route replace {services} dev {name} src {gateway}"));
            }
        }
        tool::batch("ip", &lines).await.map_err(|error| BridgeError::Ip(name.clone(), error))?;
        for (family, setting) in PASSED_ON {
            if self.pods.iter().any(|range| range.family() == family) {
                set(setting)?;
            }
        }
        // A port of the node is answered on loopback too; rules keep others away from there.
        set(&format!("/proc/sys/net/ipv4/conf/{name}/route_localnet"))?;
        for setting in SHOWN_TO_RULES {
            // A kernel without it never shows them, and one whose rules are told so by somebody else does.
            if Path::new(setting).exists() {
                set(setting)?;
            }
        }
        let script = Ports::new(self).whole(&Books::new(&self.books).all());
        tool::run("nft", &["-f", "-"], &script).await.map_err(BridgeError::Rules)?;
        Ok(())
    }

    /// Takes it away, and the rules with it.
    pub async fn remove(&self) {
        // What was never made is as good as gone.
        let _ = tool::run("ip", &["link", "delete", &self.name], "").await;
        let _ = tool::run("nft", &["-f", "-"], &Ports::new(self).removal()).await;
    }
}

/// The same for the same address, and nobody else's.
pub(crate) fn hardware_address(address: IpAddr) -> String {
    let last = match address {
        IpAddr::V4(v4) => v4.octets(),
        IpAddr::V6(v6) => {
            let [.., a, b, c, d] = v6.octets();
            [a, b, c, d]
        }
    };
    let [a, b, c, d] = last;
    format!("0a:58:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

async fn is_there(name: &str) -> bool {
    tool::run("ip", &["link", "show", name], "").await.is_ok()
}

/// Writes only what is not so yet: where settings are read-only they may be right.
fn set(setting: &str) -> Result<(), BridgeError> {
    if std::fs::read_to_string(setting).is_ok_and(|value| value.trim() == "1") {
        return Ok(());
    }
    std::fs::write(setting, "1").map_err(|error| BridgeError::Setting(setting.to_owned(), error))
}
