//! `cargo xtask test`: each step with its name and time, the first failure ends it.

use crate::{containerd, etcd, kubectl, root, tidy};
use anyhow::{Context, Result, ensure};
use std::process::Command;
use tokio::time::Instant;

pub(crate) fn run() -> Result<()> {
    let kubectl = step("kubectl", kubectl::ensure)?;
    let etcd = step("etcd", etcd::ensure)?;
    step("containerd", containerd::ensure)?;
    step("format", || cargo(&["fmt", "--all", "--check"]))?;
    step("tidy", tidy::run)?;
    step("lints", || {
        cargo(&["clippy", "--workspace", "--all-targets", "--all-features", "--quiet", "--", "-D", "warnings"])
    })?;
    step("tests", || {
        let mut command = Command::new("cargo");
        command
            .args(["test", "--workspace", "--no-fail-fast"])
            .env("PINTLE_KUBECTL", &kubectl)
            .env("PINTLE_ETCD", &etcd);
        call(command)
    })
}

fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    println!("xtask: {name} …");
    let started = Instant::now();
    let result = work().with_context(|| format!("{name} failed"))?;
    println!("xtask: {name} ok in {:.1} s", started.elapsed().as_secs_f64());
    Ok(result)
}

fn cargo(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("cargo");
    command.args(arguments);
    call(command)
}

fn call(mut command: Command) -> Result<()> {
    let status = command.current_dir(root()).status().context("cargo cannot be started")?;
    ensure!(status.success(), "{status}");
    Ok(())
}
