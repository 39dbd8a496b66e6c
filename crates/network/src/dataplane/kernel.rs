//! The kernel of this machine, told by `nft`.

use std::process::Stdio;

use async_trait::async_trait;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::health::Balancers;
use super::{Dataplane, DataplaneError, HealthChecks, Stale, forget};
use crate::address::Family;

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

    fn nft(&self, arguments: &[&str]) -> Command {
        let mut command = match &self.namespace {
            None => Command::new(program()),
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace]).arg(program());
                command
            }
        };
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }
}

/// Root's search path does not always have it.
fn program() -> &'static str {
    ["/usr/sbin/nft", "/sbin/nft"].into_iter().find(|file| std::path::Path::new(file).is_file()).unwrap_or("nft")
}

#[async_trait]
impl Dataplane for Kernel {
    async fn apply(&self, script: &str) -> Result<(), DataplaneError> {
        let mut child = self.nft(&["-f", "-"]).stdin(Stdio::piped()).spawn().map_err(DataplaneError::Missing)?;
        // It reads to the end before it says anything. One that ends early says why.
        if let Some(mut input) = child.stdin.take() {
            let _ = input.write_all(script.as_bytes()).await;
        }
        let output = child.wait_with_output().await.map_err(DataplaneError::Missing)?;
        match output.status.success() {
            true => Ok(()),
            false => Err(DataplaneError::Refused(first_lines(&String::from_utf8_lossy(&output.stderr)))),
        }
    }

    async fn has(&self, table: &str) -> bool {
        let Ok(output) = self.nft(&["list", "tables"]).output().await else { return false };
        let there = String::from_utf8_lossy(&output.stdout);
        Family::ALL.iter().all(|family| there.lines().any(|line| line == format!("table {} {table}", family.word())))
    }

    async fn answer_balancers(&self, ports: HealthChecks) {
        self.balancers.answer(ports).await;
    }

    async fn forget(&self, stale: Vec<Stale>) -> Result<(), DataplaneError> {
        let forgotten = tokio::task::spawn_blocking(move || forget(&stale)).await;
        let failed = |why: &dyn std::fmt::Display| DataplaneError::Flows(why.to_string());
        let count = forgotten.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
        tracing::debug!(count, "flows of endpoints that are gone are forgotten");
        Ok(())
    }
}

/// nft repeats a line of input for each complaint; a few say enough.
fn first_lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().take(3).map(|line| line.chars().take(300).collect()).collect();
    lines.join(" / ")
}
