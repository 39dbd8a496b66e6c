//! `cargo xtask test`: each step with its name and time, the first failure ends it; at the end, what ran and what did not.

// The writing half, which test crates include by its path, is compiled here too: it is formatted and checked with the rest.
#[cfg(test)]
mod skip;
mod skips;

use crate::containers::{self, Tools};
use crate::{etcd, go, kubectl, root, tidy};
use anyhow::{Context, Result, ensure};
use skips::Summary;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use tokio::time::Instant;

pub(crate) fn run() -> Result<()> {
    let kubectl = step("kubectl", kubectl::ensure)?;
    let etcd = step("etcd", etcd::ensure)?;
    let go = go::ensure().inspect_err(|error| println!("xtask: tests in Go are skipped: {error:#}")).ok();
    let containers = step("containers", containers::ensure)?;
    step("format", || cargo(&["fmt", "--all", "--check"]))?;
    step("tidy", tidy::run)?;
    step("lints", || {
        cargo(&["clippy", "--workspace", "--all-targets", "--all-features", "--quiet", "--", "-D", "warnings"])
    })?;
    let mut command = Command::new("cargo");
    command.args(["test", "--workspace", "--no-fail-fast"]).env("PINTLE_KUBECTL", &kubectl).env("PINTLE_ETCD", &etcd);
    // Where nobody watches, and where all that tests need could be made ready, a skipped test is a failure.
    let is_ci = std::env::var("CI").is_ok_and(|ci| !["", "0", "false"].contains(&ci.as_str()));
    let must_run = is_ci || (containers::is_root() && containers.is_some() && go.is_some());
    let mut tools: Tools = containers.unwrap_or_default();
    tools.programs.extend(go.as_deref().and_then(Path::parent).map(Path::to_owned));
    command.env("PATH", tools.path()?).envs(tools.variables);
    if is_ci {
        // Built once and never again: what would speed up the next build only takes up the disk.
        command.env("CARGO_INCREMENTAL", "0");
    }
    let skipped = root().join("target/skipped-tests.tsv");
    step("tests", || tests(command, &skipped, must_run))
}

/// Runs the tests and shows their output as it comes.
fn tests(mut command: Command, skipped: &Path, must_run: bool) -> Result<()> {
    let _ = fs::remove_file(skipped);
    command.env("PINTLE_SKIPS", skipped).current_dir(root()).stdout(Stdio::piped());
    let mut child = command.spawn().context("cargo cannot be started")?;
    let mut summary = Summary::default();
    for line in child.stdout.take().into_iter().flat_map(|output| BufReader::new(output).split(b'\n')) {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        summary.line(&line);
    }
    let status = child.wait()?;
    summary.skipped(&read_if_any(skipped)?);
    print!("xtask: tests: {summary}");
    ensure!(status.success(), "{status}");
    let unexcused = summary.unexcused();
    ensure!(!must_run || unexcused == 0, "{unexcused} tests that must run here were skipped");
    Ok(())
}

fn read_if_any(file: &Path) -> Result<String> {
    if !file.exists() {
        return Ok(String::new());
    }
    fs::read_to_string(file).with_context(|| file.display().to_string())
}

fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    println!("xtask: {name} …");
    let started = Instant::now();
    let result = work().with_context(|| format!("{name} failed"))?;
    println!("xtask: {name} ok in {:.1} s", started.elapsed().as_secs_f64());
    Ok(result)
}

fn cargo(arguments: &[&str]) -> Result<()> {
    let status =
        Command::new("cargo").args(arguments).current_dir(root()).status().context("cargo cannot be started")?;
    ensure!(status.success(), "{status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A `cargo test` whose only test is skipped for this reason.
    fn skipping(missing: &str) -> Command {
        let mut command = Command::new("sh");
        let script =
            "printf 'real::pods\\t%s\\n' \"$0\" >> \"$PINTLE_SKIPS\"; echo 'test result: ok. 1 passed; 0 failed;'";
        command.args(["-c", script, missing]);
        command
    }

    /// A file of this test's own.
    fn file(test: &str) -> PathBuf {
        std::env::temp_dir().join(format!("xtask-{test}-{}.tsv", std::process::id()))
    }

    #[test]
    fn a_test_that_must_run_and_is_skipped_fails_the_whole() {
        let file = file("must-run");
        assert!(tests(skipping("containerd"), &file, false).is_ok());
        let error = tests(skipping("containerd"), &file, true).unwrap_err();
        assert!(error.to_string().contains("1 tests that must run here were skipped"), "{error}");
        assert!(tests(skipping("root"), &file, true).is_ok());
        fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_skipped_test_is_named_with_what_it_needs() {
        // This very test, run once more in a process of its own, says that it cannot run.
        if std::env::var_os("XTASK_SKIP_ME").is_some() {
            return skip::skip(&["a second moon"]);
        }
        let file = file("named");
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.arg("a_skipped_test_is_named_with_what_it_needs").env("XTASK_SKIP_ME", "1").env("PINTLE_SKIPS", &file);
        assert!(again.output().unwrap().status.success());
        let said = read_if_any(&file).unwrap();
        fs::remove_file(&file).unwrap();
        assert_eq!(said, "test::tests::a_skipped_test_is_named_with_what_it_needs\ta second moon\n");
    }
}
