//! The cluster that is tested: one that is there, or a new one of two machines with real containers that leaves nothing behind.

use super::network::{self, ADDRESSES, Namespace};
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

/// What every machine is started with: whether its disk is nearly full must not decide what the specs see.
const MACHINE: [&str; 4] = ["--eviction-hard", "memory.available<50Mi", "--image-gc-high-threshold", "99"];

pub(super) struct Cluster {
    pub(super) kubeconfig: PathBuf,
    own: Option<Own>,
}

/// A cluster of two machines: a `pintle up` of ours, and a `pintle node join`.
struct Own {
    program: PathBuf,
    tools: Tools,
    /// All that the machines keep.
    directory: PathBuf,
    networks: [Namespace; 2],
    /// In the order in which they were started.
    machines: Vec<Child>,
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
        let mut own = Own::new(program, tools).await?;
        let started = own.start(&images).await;
        let cluster = Cluster { kubeconfig: own.kubeconfig(), own: Some(own) };
        if let Err(error) = started {
            cluster.stop().await?;
            return Err(error);
        }
        Ok(cluster)
    }

    /// The network namespace to run the suite in.
    pub(super) fn network(&self) -> Option<String> {
        self.own.as_ref().map(|own| own.networks[0].name().to_owned())
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
    async fn new(program: PathBuf, tools: Tools) -> Result<Own> {
        let directory = std::env::temp_dir().join(format!("pintle-conformance-{}", std::process::id()));
        // Nobody else can have made it: then this fails.
        DirBuilder::new().mode(0o700).create(&directory).with_context(|| directory.display().to_string())?;
        let networks = Namespace::linked().await?;
        Ok(Own { program, tools, directory, networks, machines: Vec::new() })
    }

    async fn start(&mut self, images: &[PathBuf]) -> Result<()> {
        let kubeconfig = self.kubeconfig().display().to_string();
        let listen = format!("{}:6443", ADDRESSES[0]);
        let up = ["up", "--ephemeral", "--listen", &listen, "--write-kubeconfig", &kubeconfig];
        let said = self.machine(0, &up, "\nready ").await?;
        ensure!(!said.contains("simulated node"), "this machine cannot run containers:\n{said}");

        let invitation = self.output(&["token", "create", "--kubeconfig", &kubeconfig]).await?;
        let join = invitation.lines().find_map(|line| line.trim().strip_prefix("pintle "));
        let mut join: Vec<&str> = join.with_context(|| invitation.clone())?.split(' ').collect();
        let data = self.joined().display().to_string();
        join.extend(["--name", "second", "--data-dir", &data]);
        self.machine(1, &join, "\njoined ").await?;

        if images.is_empty() {
            return Ok(());
        }
        println!("importing {} images …", images.len());
        for socket in self.sockets()? {
            let endpoint = format!("unix://{}", socket.display());
            let mut command = self.command(0)?;
            command.args(["image", "import", "--container-runtime-endpoint", &endpoint]).args(images);
            ensure!(command.status().await?.success(), "the images cannot be imported");
        }
        Ok(())
    }

    /// Starts a machine, and waits until it has said this.
    async fn machine(&mut self, number: usize, words: &[&str], ready: &str) -> Result<String> {
        let stdout = self.directory.join(format!("stdout-{number}"));
        let log = root().join(format!("target/conformance/machine-{number}.log"));
        let mut command = self.command(number)?;
        command.args(words).args(MACHINE).stdout(File::create(&stdout)?).stderr(File::create(&log)?);
        self.machines.push(command.spawn().context("pintle cannot be started")?);
        let started = Instant::now();
        loop {
            let said = fs::read_to_string(&stdout).unwrap_or_default();
            if said.contains(ready) {
                return Ok(said);
            }
            if started.elapsed() > START {
                bail!("pintle did not become ready; {}:\n{said}", log.display());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn output(&self, words: &[&str]) -> Result<String> {
        let output = self.command(0)?.args(words).output().await?;
        ensure!(output.status.success(), "pintle {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The program, on one of the machines.
    fn command(&self, machine: usize) -> Result<Command> {
        let mut command = network::command(&self.program, Some(self.networks[machine].name()));
        command.env("TMPDIR", &self.directory).env("PATH", self.tools.path()?);
        command.envs(self.tools.variables.clone()).stdin(Stdio::null());
        Ok(command)
    }

    fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// Where the machine that joins keeps what it needs.
    fn joined(&self) -> PathBuf {
        self.directory.join("joined")
    }

    /// The sockets of both containerds; that of `pintle up` is somewhere in its temporary directory.
    fn sockets(&self) -> Result<Vec<PathBuf>> {
        let places = fs::read_dir(&self.directory)?.filter_map(|place| Some(place.ok()?.path()));
        let sockets = places.map(|place| place.join("node/containerd/containerd.sock"));
        let found: Vec<PathBuf> = sockets.filter(|socket| socket.exists()).collect();
        ensure!(found.len() == self.machines.len(), "pintle has no containerd of its own: {found:?}");
        Ok(found)
    }

    async fn stop(mut self) -> Result<()> {
        println!("stopping the cluster …");
        // The machine that has joined first: it still tells what has become of its Pods.
        while let Some(mut machine) = self.machines.pop() {
            if let Some(id) = machine.id() {
                Command::new("kill").arg("-TERM").arg(id.to_string()).status().await?;
            }
            if tokio::time::timeout(STOP, machine.wait()).await.is_err() {
                machine.kill().await?;
                bail!("pintle did not stop and was killed; what it has left is in {}", self.directory.display());
            }
        }
        if self.joined().exists() {
            // Its containers run on until then.
            self.output(&["reset", "--yes", "--data-dir", &self.joined().display().to_string()]).await?;
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
