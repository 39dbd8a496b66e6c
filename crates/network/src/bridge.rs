//! The bridge between the Pods of this machine, and what the kernel must allow for it.
//!
//! It is there before the first Pod: the name server and the API server listen at its address.

use std::net::IpAddr;
use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use crate::address::Range;

/// Packets between two Pods of one bridge are shown to the rules too; without that the answer of a Service would come from an
/// address that nobody asked.
const SHOWN_TO_RULES: [&str; 2] =
    ["/proc/sys/net/bridge/bridge-nf-call-iptables", "/proc/sys/net/bridge/bridge-nf-call-ip6tables"];
const PASSED_ON: &str = "/proc/sys/net/ipv4/ip_forward";

#[derive(Clone, Debug)]
pub struct Bridge {
    /// At most 15 characters.
    pub name: String,
    /// The addresses of this machine's Pods.
    pub pods: Range,
    /// The addresses of all Services, to which Pods and the node have a way through the bridge, wherever other packets go.
    pub services: Vec<Range>,
}

#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    #[error("`ip {0}` failed: {1}")]
    Ip(String, String),
    #[error("{0} cannot be written: {1}")]
    Setting(&'static str, std::io::Error),
    #[error("{0} has no room for Pods")]
    Small(Range),
}

impl Bridge {
    /// The bridge's own address, the first of the range.
    pub fn gateway(&self) -> Result<IpAddr, BridgeError> {
        self.pods.second().ok_or(BridgeError::Small(self.pods))
    }

    /// Makes it, or takes it as it was left.
    pub async fn lay(&self) -> Result<(), BridgeError> {
        let (name, gateway) = (&self.name, self.gateway()?);
        if !Path::new("/sys/class/net").join(name).exists() && !is_there(name).await {
            ip(&format!("link add {name} type bridge")).await?;
        }
        ip(&format!("addr replace {gateway}/{} dev {name}", self.pods.bits())).await?;
        ip(&format!("link set {name} up")).await?;
        for services in self.services.iter().filter(|range| range.family() == self.pods.family()) {
            ip(&format!("route replace {services} dev {name} src {gateway}")).await?;
        }
        set(PASSED_ON)?;
        for setting in SHOWN_TO_RULES {
            // A kernel without it never shows them, and one whose rules are told so by somebody else does.
            if Path::new(setting).exists() {
                set(setting)?;
            }
        }
        Ok(())
    }
}

async fn is_there(name: &str) -> bool {
    ip(&format!("link show {name}")).await.is_ok()
}

async fn ip(line: &str) -> Result<(), BridgeError> {
    let failed = |why: String| BridgeError::Ip(line.to_owned(), why);
    let mut command = Command::new("ip");
    command.args(line.split(' ')).stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

/// Writes only what is not so yet: where settings are read-only they may be right.
fn set(setting: &'static str) -> Result<(), BridgeError> {
    if std::fs::read_to_string(setting).is_ok_and(|value| value.trim() == "1") {
        return Ok(());
    }
    std::fs::write(setting, "1").map_err(|error| BridgeError::Setting(setting, error))
}
