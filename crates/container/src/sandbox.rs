//! What a Pod's containers share, and whose it is.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use jiff::Timestamp;

/// Whose a sandbox or container is. The UID tells two lives of one name apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodRef {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SandboxId(pub String);

impl fmt::Display for SandboxId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What a sandbox is made from.
#[derive(Clone, Debug, Default)]
pub struct SandboxConfig {
    pub pod: PodRef,
    /// Counts the sandboxes that the Pod had before.
    pub attempt: u32,
    pub labels: BTreeMap<String, String>,
    /// The Pod's annotations; the simulated back end finds its script here.
    pub annotations: BTreeMap<String, String>,
    /// The Pod shares the node's addresses and gets none of its own.
    pub host_network: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxState {
    Ready,
    NotReady,
}

/// A sandbox as the runtime knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    pub id: SandboxId,
    pub pod: PodRef,
    pub attempt: u32,
    pub state: SandboxState,
    pub created_at: Timestamp,
    /// Empty for a Pod on the node's own network.
    pub addresses: Vec<IpAddr>,
}
