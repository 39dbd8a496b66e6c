//! What carries packets. Loops plan scripts of rules; a dataplane takes each script whole or not at all.

mod flows;
mod health;
mod kernel;
mod replay;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use pintle_runtime::Key;

pub use flows::{Stale, forget};
pub use kernel::Kernel;
pub use replay::Ruleset;

use crate::address::{Family, Range};
use crate::tool::ToolError;

/// Takes rules.
#[async_trait]
pub trait Dataplane: Send + Sync + 'static {
    /// Applies a script in the language of `nft` in one transaction.
    async fn apply(&self, script: &str) -> Result<(), DataplaneError>;

    /// Is there a table of this name? Firewalls that start anew tend to take away what they do not know.
    async fn has(&self, table: &str) -> bool;

    /// Lets balancers ask, at these ports and no others, how many endpoints of a Service this node has.
    async fn answer_balancers(&self, ports: HealthChecks);

    /// The way that packets to another machine take; nothing if none leads there.
    async fn way_to(&self, machine: IpAddr) -> Option<Way>;

    /// Changes routes.
    async fn route(&self, lines: &RouteLines) -> Result<(), DataplaneError>;

    /// The ranges to which routes with this protocol number lead.
    async fn routes(&self, protocol: u8) -> Vec<Range>;

    /// Forgets UDP flows to these frontends that lead to none of their endpoints.
    async fn forget(&self, stale: Vec<Stale>) -> Result<(), DataplaneError>;
}

/// A script that takes tables of both families away, if they are there.
pub fn removal(tables: &[String]) -> String {
    let of = |table: &String| {
        Family::ALL.map(|family| format!("table {0} {table}\ndelete table {0} {table}\n", family.word())).concat()
    };
    tables.iter().map(of).collect()
}

/// All tables of a node whose Pods have this bridge: of Services, of Pods' ports, of policies, and what stands in for those.
pub fn tables_of(bridge: &str) -> Vec<String> {
    ["", "-pods", "-policy", "-policy-guard"].map(|part| format!("{bridge}{part}")).to_vec()
}

/// How packets leave for another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    pub device: String,
    pub mtu: u32,
    /// This machine's address on that way.
    pub from: IpAddr,
    /// No router is between.
    pub is_direct: bool,
}

/// Lines for the programs that change routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteLines {
    /// For `ip`, first of all; what is not there need not go.
    pub forgiving: Vec<String>,
    /// For `ip`.
    pub ip: Vec<String>,
    /// For `bridge`.
    pub bridge: Vec<String>,
    /// For `bridge`; what is not there need not go.
    pub forgotten: Vec<String>,
}

impl RouteLines {
    pub fn is_empty(&self) -> bool {
        *self == RouteLines::default()
    }
}

/// The ports at which balancers ask, with the Service and how many of its endpoints are here.
pub type HealthChecks = BTreeMap<u16, (Key, usize)>;

#[derive(Debug, thiserror::Error)]
pub enum DataplaneError {
    #[error("the kernel takes no rules: {0}")]
    Refused(#[from] ToolError),
    #[error("the kernel takes no routes: {0}")]
    Routes(ToolError),
    #[error("flows of endpoints that are gone cannot be forgotten: {0}")]
    Flows(String),
}

/// Writes scripts down and carries nothing, for clusters whose nodes are simulated.
#[derive(Debug, Default)]
pub struct Recorded {
    scripts: Mutex<Vec<String>>,
    routes: Mutex<Vec<String>>,
}

impl Recorded {
    /// All scripts so far.
    pub fn scripts(&self) -> Vec<String> {
        self.scripts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All lines about routes so far.
    pub fn route_lines(&self) -> Vec<String> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Dataplane for Recorded {
    async fn apply(&self, script: &str) -> Result<(), DataplaneError> {
        self.scripts.lock().unwrap_or_else(PoisonError::into_inner).push(script.to_owned());
        Ok(())
    }

    async fn has(&self, _: &str) -> bool {
        true
    }

    async fn answer_balancers(&self, _: HealthChecks) {}

    async fn way_to(&self, _: IpAddr) -> Option<Way> {
        Some(Way { device: "eth0".to_owned(), mtu: 1500, from: Ipv4Addr::LOCALHOST.into(), is_direct: true })
    }

    async fn route(&self, lines: &RouteLines) -> Result<(), DataplaneError> {
        let all = [&lines.forgiving, &lines.ip, &lines.bridge, &lines.forgotten];
        self.routes.lock().unwrap_or_else(PoisonError::into_inner).extend(all.into_iter().flatten().cloned());
        Ok(())
    }

    async fn routes(&self, _: u8) -> Vec<Range> {
        Vec::new()
    }

    async fn forget(&self, _: Vec<Stale>) -> Result<(), DataplaneError> {
        Ok(())
    }
}
