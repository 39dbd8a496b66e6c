//! The kernel of this machine, told by `nft`.

use std::net::IpAddr;

use async_trait::async_trait;
use tokio::process::Command;

use super::health::Balancers;
use super::{Dataplane, DataplaneError, HealthChecks, RouteLines, Stale, Way, forget};
use crate::address::{Family, Range};
use crate::tool;

/// The kernel of this machine.
#[derive(Default)]
pub struct Kernel {
    namespace: Option<String>,
    balancers: Balancers,
}

impl Kernel {
    /// In a network namespace that `ip netns` knows, instead of that of this process.
    pub fn in_namespace(name: impl Into<String>) -> Self {
        Kernel { namespace: Some(name.into()), ..Kernel::default() }
    }

    /// `ip` and `bridge` find a namespace by themselves.
    async fn iproute(&self, program: &'static str, arguments: &[&str], input: &str) -> Result<String, tool::ToolError> {
        let namespace = self.namespace.as_deref().map(|name| ["-n", name]);
        let arguments: Vec<&str> = namespace.iter().flatten().chain(arguments).copied().collect();
        tool::run(program, &arguments, input).await
    }

    async fn lines(&self, program: &'static str, options: &[&str], lines: &[String]) -> Result<(), DataplaneError> {
        if lines.is_empty() {
            return Ok(());
        }
        let arguments: Vec<&str> = options.iter().copied().chain(["-batch", "-"]).collect();
        let input = lines.join("\n") + "\n";
        self.iproute(program, &arguments, &input).await.map(|_| ()).map_err(DataplaneError::Routes)
    }

    async fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let text = self.iproute("ip", &[&["-j"], arguments].concat(), "").await.unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    async fn nft(&self, arguments: &[&str], input: &str) -> Result<String, tool::ToolError> {
        match &self.namespace {
            None => tool::run("nft", arguments, input).await,
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace]).arg(tool::find("nft")).args(arguments);
                tool::complete("nft", command, input).await
            }
        }
    }
}

#[async_trait]
impl Dataplane for Kernel {
    async fn apply(&self, script: &str) -> Result<(), DataplaneError> {
        Ok(self.nft(&["-f", "-"], script).await.map(|_| ())?)
    }

    async fn has(&self, table: &str) -> bool {
        let Ok(there) = self.nft(&["list", "tables"], "").await else { return false };
        Family::ALL.iter().all(|family| there.lines().any(|line| line == format!("table {} {table}", family.word())))
    }

    async fn answer_balancers(&self, ports: HealthChecks) {
        self.balancers.answer(ports).await;
    }

    async fn way_to(&self, machine: IpAddr) -> Option<Way> {
        let found = self.json(&["route", "get", &machine.to_string()]).await;
        let route = &found[0];
        let device = route["dev"].as_str().filter(|device| *device != "lo")?.to_owned();
        let from = route["prefsrc"].as_str()?.parse().ok()?;
        let link = self.json(&["link", "show", "dev", &device]).await;
        let mtu = link[0]["mtu"].as_u64().and_then(|mtu| u32::try_from(mtu).ok()).unwrap_or(1500);
        Some(Way { device, mtu, from, is_direct: route["gateway"].is_null() })
    }

    async fn route(&self, lines: &RouteLines) -> Result<(), DataplaneError> {
        // It goes on after lines that fail, and ends with an error that says so.
        let _ = self.lines("ip", &["-force"], &lines.forgiving).await;
        let _ = self.lines("bridge", &["-force"], &lines.forgotten).await;
        self.lines("ip", &[], &lines.ip).await?;
        self.lines("bridge", &[], &lines.bridge).await
    }

    async fn routes(&self, protocol: u8) -> Vec<Range> {
        let mut all = Vec::new();
        for family in ["-4", "-6"] {
            let found = self.json(&[family, "route", "show", "proto", &protocol.to_string()]).await;
            let ranges =
                found.as_array().into_iter().flatten().filter_map(|route| route["dst"].as_str()?.parse::<Range>().ok());
            all.extend(ranges);
        }
        all
    }

    async fn forget(&self, stale: Vec<Stale>) -> Result<(), DataplaneError> {
        let forgotten = tokio::task::spawn_blocking(move || forget(&stale)).await;
        let failed = |why: &dyn std::fmt::Display| DataplaneError::Flows(why.to_string());
        let count = forgotten.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
        tracing::debug!(count, "flows of endpoints that are gone are forgotten");
        Ok(())
    }
}
