//! A real etcd for the tests: the one at hand if it is new enough, else Debian's, else one built from its Go module.

use crate::{debian, go, root};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest version that the tests are written for.
const OLDEST: [u32; 2] = [3, 4];

const INSTEAD: &str = "etcd 3.4 or later (Debian: etcd-server)";

pub(crate) fn ensure() -> Result<PathBuf> {
    let unpacked = root().join("target/tools/usr/bin/etcd");
    let built = root().join("target/tools/etcd-3.6");
    let asked_for = std::env::var_os("PINTLE_ETCD").map(PathBuf::from);
    let candidates = [asked_for, Some(PathBuf::from("etcd")), Some(unpacked.clone()), Some(built.clone())];
    for candidate in candidates.into_iter().flatten() {
        if is_new_enough(&candidate) {
            println!("xtask: using {}", candidate.display());
            // The tests run in another directory and know no PATH.
            return on_path(&candidate).context("etcd has gone from the PATH");
        }
    }
    if let Err(reason) = unpack(&unpacked) {
        println!("xtask: no etcd from the distribution ({reason:#}); building one from its Go module (minutes, once)");
        go::build("xtask/etcd", &built, "", INSTEAD)?;
        ensure!(is_new_enough(&built), "the etcd that was built does not answer; install {INSTEAD}");
        return Ok(built);
    }
    Ok(unpacked)
}

fn is_new_enough(program: &Path) -> bool {
    let Ok(output) = Command::new(program).arg("--version").output() else { return false };
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.lines().find_map(|line| line.strip_prefix("etcd Version: ")).unwrap_or_default();
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    [next(), next()] >= OLDEST
}

/// Takes the program out of Debian's package, which needs no root.
fn unpack(target: &Path) -> Result<()> {
    debian::unpack("etcd-server", &root().join("target/tools"))?;
    ensure!(is_new_enough(target), "the etcd in the package is too old or does not start");
    Ok(())
}

/// The file that a program's name stands for.
fn on_path(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return fs::canonicalize(program).ok();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|file| file.is_file())
}
