//! What tests need beside kubectl, etcd and go, real containers above all: what the machine lacks is unpacked from Debian's packages below `target`.
//!
//! Nothing is installed, upgraded or removed, and no service is started: a containerd of the machine's own is left alone.

use crate::root;
use anyhow::{Context, Result, ensure};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Each package, with a file of it to see whether the machine has it.
const PACKAGES: [(&str, &str); 8] = [
    ("containerd", "/usr/bin/containerd"),
    ("runc", "/usr/sbin/runc"),
    ("containernetworking-plugins", "/usr/lib/cni/bridge"),
    ("busybox-static", "/bin/busybox"),
    ("nftables", "/usr/sbin/nft"),
    ("iproute2", "/bin/ip"),
    ("python3", "/usr/bin/python3"),
    ("libfaketime", "/usr/share/doc/libfaketime"),
];

/// What tests are given beside the machine's own.
#[derive(Default)]
pub(crate) struct Tools {
    /// Directories of programs.
    pub(crate) programs: Vec<PathBuf>,
    pub(crate) variables: Vec<(&'static str, OsString)>,
}

impl Tools {
    /// The search path with these programs in it; the machine's own come first.
    pub(crate) fn path(&self) -> Result<OsString> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Ok(std::env::join_paths(std::env::split_paths(&path).chain(self.programs.iter().cloned()))?)
    }
}

/// Makes ready what is missing, as root on Debian. Nothing elsewhere: the tests that need it are skipped.
pub(crate) fn ensure() -> Result<Option<Tools>> {
    let missing: Vec<&str> =
        PACKAGES.into_iter().filter(|(_, file)| !Path::new(file).exists()).map(|(package, _)| package).collect();
    if missing.is_empty() {
        return Ok(Some(Tools::default()));
    }
    if !is_root() || !succeeds(Command::new("apt-get").arg("--version")) {
        println!("xtask: tests with real containers are skipped: they need root and {}", missing.join(", "));
        return Ok(None);
    }
    let tools = root().join("target/tools/containers");
    let complete = tools.join("complete");
    let asked_for = missing.join(" ");
    if fs::read_to_string(&complete).is_ok_and(|done| done == asked_for) {
        return Ok(Some(found(&tools)));
    }
    println!("xtask: unpacking {asked_for} below {}", tools.display());
    unpack(&missing, &tools).with_context(|| format!("{asked_for} cannot be unpacked; install them by hand"))?;
    fs::write(&complete, asked_for)?;
    Ok(Some(found(&tools)))
}

pub(crate) fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

fn unpack(packages: &[&str], tools: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(tools);
    let archives = tools.join("archives");
    fs::create_dir_all(archives.join("partial"))?;
    let download = || {
        let mut command = Command::new("apt-get");
        command.args(["install", "--download-only", "--yes", "--no-install-recommends", "--no-remove", "--no-upgrade"]);
        command.arg("-o").arg(format!("Dir::Cache::archives={}/", archives.display())).args(packages);
        succeeds(&mut command)
    };
    // The lists of packages may be missing or old.
    let downloaded = download() || (succeeds(Command::new("apt-get").arg("update")) && download());
    ensure!(downloaded, "apt-get cannot download them");
    for file in fs::read_dir(&archives)?.filter_map(|file| Some(file.ok()?.path())) {
        if file.extension().is_some_and(|end| end == "deb") {
            ensure!(succeeds(Command::new("dpkg").arg("-x").arg(&file).arg(tools)), "dpkg -x {}", file.display());
        }
    }
    fs::remove_dir_all(&archives)?;
    Ok(())
}

fn found(tools: &Path) -> Tools {
    let library = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    let libraries = [tools.join("usr").join(&library), tools.join(&library)];
    let known = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let search = std::env::split_paths(&known).filter(|path| path != Path::new("")).chain(libraries.clone());
    Tools {
        programs: ["usr/bin", "usr/sbin", "bin", "sbin"].map(|directory| tools.join(directory)).to_vec(),
        variables: vec![
            ("LD_LIBRARY_PATH", std::env::join_paths(search).unwrap_or_default()),
            ("CNI_PATH", tools.join("usr/lib/cni").into()),
            ("PINTLE_TOOLS", tools.into()),
        ],
    }
}

fn succeeds(command: &mut Command) -> bool {
    command.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null()).stdout(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
