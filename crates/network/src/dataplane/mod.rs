//! What carries packets. Loops plan scripts of rules; a dataplane takes each script whole or not at all.

mod flows;
mod health;
mod kernel;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use pintle_runtime::Key;

pub use flows::{Stale, forget};
pub use kernel::Kernel;

/// Takes rules.
#[async_trait]
pub trait Dataplane: Send + Sync + 'static {
    /// Applies a script in the language of `nft` in one transaction.
    async fn apply(&self, script: &str) -> Result<(), DataplaneError>;

    /// Is there a table of this name? Firewalls that start anew tend to take away what they do not know.
    async fn has(&self, table: &str) -> bool;

    /// Lets balancers ask, at these ports and no others, how many endpoints of a Service this node has.
    async fn answer_balancers(&self, ports: HealthChecks);

    /// Forgets UDP flows to these frontends that lead to none of their endpoints.
    async fn forget(&self, stale: Vec<Stale>) -> Result<(), DataplaneError>;
}

/// The ports at which balancers ask, with the Service and how many of its endpoints are here.
pub type HealthChecks = BTreeMap<u16, (Key, usize)>;

#[derive(Debug, thiserror::Error)]
pub enum DataplaneError {
    #[error("nft, from the package nftables, cannot be started: {0}")]
    Missing(std::io::Error),
    #[error("the kernel takes no rules: {0}")]
    Refused(String),
    #[error("flows of endpoints that are gone cannot be forgotten: {0}")]
    Flows(String),
}

/// Writes scripts down and carries nothing, for clusters whose nodes are simulated.
#[derive(Debug, Default)]
pub struct Recorded(Mutex<Vec<String>>);

impl Recorded {
    /// All scripts so far.
    pub fn scripts(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Dataplane for Recorded {
    async fn apply(&self, script: &str) -> Result<(), DataplaneError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(script.to_owned());
        Ok(())
    }

    async fn has(&self, _: &str) -> bool {
        true
    }

    async fn answer_balancers(&self, _: HealthChecks) {}

    async fn forget(&self, _: Vec<Stale>) -> Result<(), DataplaneError> {
        Ok(())
    }
}
