//! The cluster that is tested: one that is there, or a new `pintle up` with real containers that leaves nothing behind.

use super::network::{self, Namespace};
use crate::containers::{self, Tools};
use crate::root;
use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::Instant;

/// Where a containerd of the machine's own listens; `pintle up` would use it.
const MACHINES_OWN: &str = "/run/containerd/containerd.sock";

/// How long starting may take, on a machine with much else to do.
const START: Duration = Duration::from_secs(60);

/// How long stopping may take: every container that the specs have left is ended.
const STOP: Duration = Duration::from_secs(180);

pub(super) struct Cluster {
    pub(super) kubeconfig: PathBuf,
    own: Option<Own>,
}

/// A `pintle up` of ours, with a directory for all that it keeps while it runs, in a network of its own.
struct Own {
    program: PathBuf,
    child: Child,
    directory: PathBuf,
    network: Namespace,
}

impl Cluster {
    /// A cluster that somebody else has started.
    pub(super) fn there(kubeconfig: &Path) -> Result<Cluster> {
        let kubeconfig = fs::canonicalize(kubeconfig).with_context(|| kubeconfig.display().to_string())?;
        Ok(Cluster { kubeconfig, own: None })
    }

    /// A new one of this program, or of this tree's release.
    pub(super) async fn start(program: Option<&Path>, images: Option<&Path>) -> Result<Cluster> {
        let images = images.map(archives).transpose()?.unwrap_or_default();
        ensure!(containers::is_root(), "real containers need root; or name a cluster with --kubeconfig");
        ensure!(
            !Path::new(MACHINES_OWN).exists(),
            "this machine runs a containerd of its own, which is left alone; name a cluster with --kubeconfig"
        );
        let tools =
            containers::ensure()?.context("this machine cannot run containers; name a cluster with --kubeconfig")?;
        let program = match program {
            Some(program) => fs::canonicalize(program).with_context(|| program.display().to_string())?,
            None => built().await?,
        };
        let own = Own::start(program, &tools).await?;
        let cluster = Cluster { kubeconfig: own.directory.join("kubeconfig"), own: Some(own) };
        match cluster.prepare(&images, &tools).await {
            Ok(()) => Ok(cluster),
            Err(error) => {
                cluster.stop().await?;
                Err(error)
            }
        }
    }

    /// The network namespace to run the suite in.
    pub(super) fn network(&self) -> Option<String> {
        self.own.as_ref().map(|own| own.network.name().to_owned())
    }

    async fn prepare(&self, images: &[PathBuf], tools: &Tools) -> Result<()> {
        let Some(own) = &self.own else { return Ok(()) };
        own.ready().await?;
        if images.is_empty() {
            return Ok(());
        }
        println!("importing {} images …", images.len());
        let endpoint = format!("unix://{}", own.socket()?.display());
        let mut command = Command::new(&own.program);
        command.args(["image", "import", "--container-runtime-endpoint", &endpoint]).args(images);
        command.env("PATH", tools.path()?).envs(tools.variables.clone());
        ensure!(command.status().await?.success(), "the images cannot be imported");
        Ok(())
    }

    /// Ends what was started, and fails if something of it is left.
    pub(super) async fn stop(self) -> Result<()> {
        match self.own {
            Some(own) => own.stop().await,
            None => Ok(()),
        }
    }
}

impl Own {
    async fn start(program: PathBuf, tools: &Tools) -> Result<Own> {
        let directory = std::env::temp_dir().join(format!("pintle-conformance-{}", std::process::id()));
        // Nobody else can have made it: then this fails.
        DirBuilder::new().mode(0o700).create(&directory).with_context(|| directory.display().to_string())?;
        let network = Namespace::new().await?;
        let child = network::command(&program, Some(network.name()))
            .args(["up", "--ephemeral", "--listen", &format!("{}:6443", network::ADDRESS)])
            // Whether the disk of the machine is nearly full must not decide what the specs see.
            .args(["--eviction-hard", "memory.available<50Mi", "--image-gc-high-threshold", "99"])
            .arg("--write-kubeconfig")
            .arg(directory.join("kubeconfig"))
            .env("TMPDIR", &directory)
            .env("PATH", tools.path()?)
            .envs(tools.variables.clone())
            .stdin(Stdio::null())
            .stdout(File::create(directory.join("stdout"))?)
            .stderr(File::create(root().join("target/conformance/pintle.log"))?)
            .spawn()
            .context("pintle cannot be started")?;
        Ok(Own { program, child, directory, network })
    }

    async fn ready(&self) -> Result<()> {
        let started = Instant::now();
        loop {
            let said = fs::read_to_string(self.directory.join("stdout")).unwrap_or_default();
            if said.contains("\nready ") {
                ensure!(!said.contains("simulated node"), "this machine cannot run containers:\n{said}");
                return Ok(());
            }
            if started.elapsed() > START {
                bail!("pintle did not become ready; target/conformance/pintle.log:\n{said}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The socket of its containerd, somewhere in its temporary directory.
    fn socket(&self) -> Result<PathBuf> {
        let places = fs::read_dir(&self.directory)?.filter_map(|place| Some(place.ok()?.path()));
        let mut sockets = places.map(|place| place.join("node/containerd/containerd.sock"));
        sockets.find(|socket| socket.exists()).context("pintle has no containerd of its own")
    }

    async fn stop(mut self) -> Result<()> {
        println!("stopping the cluster …");
        if let Some(id) = self.child.id() {
            Command::new("kill").arg("-TERM").arg(id.to_string()).status().await?;
        }
        if tokio::time::timeout(STOP, self.child.wait()).await.is_err() {
            self.child.kill().await?;
            bail!("pintle did not stop and was killed; what it has left is in {}", self.directory.display());
        }
        let below = format!(" {}/", self.directory.display());
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let left: Vec<&str> = mounts.lines().filter(|line| line.contains(&below)).collect();
        ensure!(left.is_empty(), "pintle has left these mounts:\n{}", left.join("\n"));
        fs::remove_dir_all(&self.directory).with_context(|| self.directory.display().to_string())
    }
}

/// The release of this tree.
async fn built() -> Result<PathBuf> {
    println!("building a release …");
    let mut build = Command::new("cargo");
    build.args(["build", "--release", "--package", "pintle"]).current_dir(root());
    ensure!(build.status().await?.success(), "pintle cannot be built");
    Ok(root().join("target/release/pintle"))
}

/// The archives in a directory.
fn archives(directory: &Path) -> Result<Vec<PathBuf>> {
    let files = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let mut archives: Vec<PathBuf> = files
        .filter_map(|file| Some(file.ok()?.path()))
        .filter(|file| file.extension().is_some_and(|end| end == "tar"))
        .collect();
    archives.sort();
    ensure!(!archives.is_empty(), "there is no *.tar in {}", directory.display());
    Ok(archives)
}
