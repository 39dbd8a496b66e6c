//! What a Pod's containers share, and whose it is.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use jiff::Timestamp;

use crate::container::ContainerId;
use crate::security::{Namespaces, Security};

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
    /// On the node's network the Pod gets no address of its own.
    pub namespaces: Namespaces,
    pub hostname: String,
    /// Where the logs of its containers go.
    pub log_directory: String,
    /// What its `resolv.conf` says; that of the node if empty.
    pub dns: Dns,
    pub ports: Vec<Port>,
    pub cgroup_parent: String,
    pub sysctls: BTreeMap<String, String>,
    /// What all of its containers have in common.
    pub security: Security,
    /// The runtime's own name for how to run it, from a RuntimeClass; its default if empty.
    pub handler: String,
}

/// How names are looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dns {
    pub servers: Vec<String>,
    pub searches: Vec<String>,
    pub options: Vec<String>,
}

/// A port of the node that leads to one of the Pod's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    pub protocol: Protocol,
    pub container_port: u16,
    pub host_port: u16,
    /// All of the node's if empty.
    pub host_address: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
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

/// A Pod as somebody else remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recalled {
    pub pod: PodRef,
    pub annotations: BTreeMap<String, String>,
    /// Those of its own; none in the node's network.
    pub addresses: Vec<IpAddr>,
    pub runs: Vec<RecalledRun>,
}

/// One run of a container, the last of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecalledRun {
    pub id: ContainerId,
    pub name: String,
    pub attempt: u32,
    pub image: String,
    pub image_id: String,
    pub started_at: Timestamp,
    /// When and how it ended, if it did.
    pub ended: Option<(Timestamp, i32)>,
}
