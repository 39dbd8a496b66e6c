//! What carries packets. Loops plan scripts of rules; a dataplane takes each script whole or not at all.

use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::address::Family;

/// Takes rules.
#[async_trait]
pub trait Dataplane: Send + Sync + 'static {
    /// Applies a script in the language of `nft` in one transaction.
    async fn apply(&self, script: &str) -> Result<(), DataplaneError>;

    /// Is there a table of this name? Firewalls that start anew tend to take away what they do not know.
    async fn has(&self, table: &str) -> bool;
}

#[derive(Debug, thiserror::Error)]
pub enum DataplaneError {
    #[error("nft, from the package nftables, cannot be started: {0}")]
    Missing(std::io::Error),
    #[error("the kernel takes no rules: {0}")]
    Refused(String),
}

/// The kernel of this machine.
#[derive(Debug, Default)]
pub struct Kernel {
    namespace: Option<String>,
}

impl Kernel {
    /// In a network namespace that `ip netns` knows, instead of that of this process.
    pub fn in_namespace(name: impl Into<String>) -> Self {
        Kernel { namespace: Some(name.into()) }
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
}

/// nft repeats a line of input for each complaint; a few say enough.
fn first_lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().take(3).map(|line| line.chars().take(300).collect()).collect();
    lines.join(" / ")
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
}
