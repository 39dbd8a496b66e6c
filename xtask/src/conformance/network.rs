//! The network of the cluster under test: a namespace with one address and no way out, so that nothing of it reaches others.

use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::path::Path;
use tokio::process::Command;

/// The machine's address in its network, of a range for such tests.
pub(super) const ADDRESS: &str = "198.18.0.1";

/// A network namespace, removed when dropped.
pub(super) struct Namespace(String);

impl Namespace {
    pub(super) async fn new() -> Result<Namespace> {
        let namespace = Namespace(format!("pintle-conformance-{}", std::process::id()));
        let name = &namespace.0;
        for line in [
            format!("netns add {name}"),
            format!("-n {name} link set lo up"),
            format!("-n {name} link add end0 type veth peer name end1"),
            format!("-n {name} addr add {ADDRESS}/24 dev end0"),
            format!("-n {name} link set end0 up"),
            format!("-n {name} link set end1 up"),
        ] {
            let status = Command::new("ip").args(line.split(' ')).status().await.context("ip cannot be started")?;
            ensure!(status.success(), "ip {line}: {status}");
        }
        Ok(namespace)
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

/// A program, in that namespace if there is one.
pub(super) fn command(program: &Path, namespace: Option<&str>) -> Command {
    let Some(name) = namespace else { return Command::new(program) };
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{name}")).arg::<&OsStr>(program.as_ref());
    command
}
