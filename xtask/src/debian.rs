//! Programs out of Debian's packages, below `target`: nothing is installed, and it takes no root.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Unpacks one package, without what it depends on.
pub(crate) fn unpack(package: &str, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory)?;
    let download = ["--quiet", "download", package];
    if call("apt-get", &download, directory).is_err() {
        // The lists of packages may be missing; only root may fetch them.
        call("apt-get", &["--quiet", "update"], directory).context("as root, run apt-get update")?;
        call("apt-get", &download, directory)?;
    }
    let archive = fs::read_dir(directory)?
        .filter_map(|file| Some(file.ok()?.path()))
        .find(|file| file.extension().is_some_and(|end| end == "deb"))
        .context("apt-get downloaded no package")?;
    call("dpkg", &["-x", &archive.display().to_string(), "."], directory)?;
    Ok(fs::remove_file(&archive)?)
}

fn call(program: &str, arguments: &[&str], directory: &Path) -> Result<()> {
    let status = Command::new(program).args(arguments).current_dir(directory).status();
    let status = status.with_context(|| format!("{program} cannot be started"))?;
    ensure!(status.success(), "{program} {}: {status}", arguments.join(" "));
    Ok(())
}
