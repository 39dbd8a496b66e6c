//! What real containers need, for the tests: containerd, runc, network plugins, a static busybox and a
//! clock that can be moved, from Debian's packages.

use anyhow::{Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};

const PACKAGES: [&str; 6] =
    ["containerd", "runc", "containernetworking-plugins", "busybox-static", "iptables", "libfaketime"];

/// A file of each, to see whether it is there.
const FILES: [&str; 6] = [
    "/usr/bin/containerd",
    "/usr/sbin/runc",
    "/usr/lib/cni/bridge",
    "/bin/busybox",
    "/usr/sbin/iptables",
    "/usr/share/doc/libfaketime",
];

/// Installs what is missing, as root. Elsewhere, the tests that need it say so and the rest runs.
pub(crate) fn ensure() -> Result<()> {
    let missing: Vec<&str> = PACKAGES
        .into_iter()
        .zip(FILES)
        .filter(|(_, file)| !Path::new(file).exists())
        .map(|(package, _)| package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    if !is_root || !quiet("apt-get", &["--version"]) {
        println!("xtask: no real containers in the tests: they need root and {}", missing.join(", "));
        return Ok(());
    }
    println!("xtask: installing {}", missing.join(", "));
    let install = [&["install", "--yes", "--no-install-recommends"], &missing[..]].concat();
    // The lists of packages may be missing or old.
    let installed = quiet("apt-get", &install) || (quiet("apt-get", &["update"]) && quiet("apt-get", &install));
    ensure!(installed, "apt-get cannot install {}; install them by hand", missing.join(" "));
    Ok(())
}

fn quiet(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null()).stdout(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
