//! The network of the cluster under test: a namespace for each machine, with a link between them and no route out.

use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::path::Path;
use tokio::process::Command;

/// The addresses of the two machines, of a range for such tests.
pub(super) const ADDRESSES: [&str; 2] = ["198.18.0.1", "198.18.0.2"];

/// A network namespace, removed when dropped.
pub(super) struct Namespace(String);

impl Namespace {
    /// One for each machine.
    pub(super) async fn linked() -> Result<[Namespace; 2]> {
        let [first, second] = ["first", "second"].map(|end| format!("pintle-conformance-{}-{end}", std::process::id()));
        let namespaces = [Namespace::new(first).await?, Namespace::new(second).await?];
        let [first, second] = namespaces.each_ref().map(Namespace::name);
        ip(&format!("-n {first} link add end type veth peer name end netns {second}")).await?;
        for (namespace, address) in [first, second].into_iter().zip(ADDRESSES) {
            ip(&format!("-n {namespace} addr add {address}/24 dev end")).await?;
            ip(&format!("-n {namespace} link set lo up")).await?;
            ip(&format!("-n {namespace} link set end up")).await?;
        }
        Ok(namespaces)
    }

    async fn new(name: String) -> Result<Namespace> {
        ip(&format!("netns add {name}")).await?;
        Ok(Namespace(name))
    }

    pub(super) fn name(&self) -> &str {
        &self.0
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let status = std::process::Command::new("ip").args(["netns", "del", &self.0]).status();
        if !status.is_ok_and(|status| status.success()) {
            eprintln!("the network namespace {} is left", self.0);
        }
    }
}

async fn ip(line: &str) -> Result<()> {
    let status = Command::new("ip").args(line.split(' ')).status().await.context("ip cannot be started")?;
    ensure!(status.success(), "ip {line}: {status}");
    Ok(())
}

/// A program, in that namespace if there is one.
pub(super) fn command(program: &Path, namespace: Option<&str>) -> Command {
    let Some(name) = namespace else { return Command::new(program) };
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{name}")).arg::<&OsStr>(program.as_ref());
    command
}
