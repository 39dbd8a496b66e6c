//! `pintle reset`: takes what a cluster, or a node of one, has made on this machine away.

use std::fs::File;
use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use pintle_container::cri::private::{Private, PrivateConfig};
use pintle_container::{Cri, Runtime, Sandbox};
use pintle_network::dataplane::{removal, tables_of};
use pintle_network::routes::{PROTOCOL, tunnel_device};
use pintle_network::{Dataplane, Kernel, Range, RouteLines};

use crate::data_dir;
use crate::machine::made::{self, Made};
use crate::say::{complain, say};

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// The directory of the cluster or of the node [default: both $XDG_DATA_HOME/pintle and pintle-node, or those below
    /// ~/.local/share].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{} is in use: stop what runs there first, then reset", .0.display())]
    Running(PathBuf),
    #[error("nothing is removed: nobody was there to ask; give --yes to remove it all the same")]
    Unasked,
    #[error("nothing is removed")]
    Declined,
    #[error("the Pods cannot be removed: {0}; nothing else was removed")]
    Runtime(pintle_container::Error),
    #[error("{}: {source}; what is listed above may be gone in part", path.display())]
    Files { path: PathBuf, source: io::Error },
    #[error("cannot start: {0}")]
    Start(io::Error),
}

impl Failure {
    /// 2: it was not done; 3: somebody else has it; 4: it broke in between.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Running(_) => 3,
            Failure::Files { .. } => 4,
            _ => 2,
        }
    }
}

pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::Start)?;
    runtime.block_on(reset(flags))
}

async fn reset(flags: &Flags) -> Result<(), Failure> {
    let asked = flags.data_dir.as_ref();
    let mut directories: Vec<PathBuf> = [data_dir::resolve(asked), data_dir::resolve_node(asked)]
        .into_iter()
        .flatten()
        .filter(|one| one.exists())
        .collect();
    directories.dedup();
    if directories.is_empty() {
        say!("there is nothing to remove: no cluster and no node is kept on this machine");
        return Ok(());
    }
    for directory in directories {
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        if is_running(&directory) {
            return Err(Failure::Running(directory));
        }
        if !is_ours(&directory) {
            complain!("pintle: {} is left alone: it is no directory of a cluster", directory.display());
            continue;
        }
        Whole::find(directory).await?.remove(flags.yes).await?;
    }
    Ok(())
}

/// Whether somebody holds one of the locks.
fn is_running(directory: &Path) -> bool {
    let is_held = |file: PathBuf| {
        let Ok(file) = File::open(file) else { return false };
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err()
    };
    is_held(directory.join("lock")) || is_held(directory.join("store/LOCK"))
}

/// A directory that somebody names by mistake is not removed.
fn is_ours(directory: &Path) -> bool {
    ["store", "pki", "node"].iter().any(|part| directory.join(part).is_dir())
}

/// All of a cluster on this machine.
struct Whole {
    directory: PathBuf,
    made: Option<Made>,
    private: Option<Private>,
    runtime: Option<Cri>,
    pods: Vec<Sandbox>,
    mounts: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

impl Whole {
    async fn find(directory: PathBuf) -> Result<Whole, Failure> {
        let node = directory.join("node");
        let made = made::read(&node);
        let containerd = node.join("containerd");
        let (private, runtime) = match made.as_ref().and_then(|made| made.runtime.as_ref().zip(Some(&made.bridge))) {
            Some((socket, owner)) => {
                (None, Some(Cri::connect(socket).await.map_err(Failure::Runtime)?.owned_by(owner)))
            }
            None if containerd.exists() => {
                let config = PrivateConfig { plugins: containerd.join("bin"), directory: containerd };
                let (private, cri) = Private::start(&config).await.map_err(Failure::Runtime)?;
                (Some(private), Some(cri))
            }
            None => (None, None),
        };
        let pods = match &runtime {
            Some(runtime) => runtime.list_sandboxes(None).await.map_err(Failure::Runtime)?,
            None => Vec::new(),
        };
        let places = made.as_ref().and_then(|made| made.places.clone());
        let outside = |file: &PathBuf| !file.starts_with(&directory);
        let mut files: Vec<PathBuf> = places.iter().flat_map(|places| places.ours()).filter(outside).collect();
        let logs = made.as_ref().and_then(|made| made.logs.clone()).filter(outside);
        files.extend(
            logs.iter().flat_map(|logs| pods.iter().map(move |pod| logs_of(logs, pod))).filter(|one| one.exists()),
        );
        let mounts = mounts_below(&directory);
        Ok(Whole { directory, made, private, runtime, pods, mounts, files })
    }

    fn show(&self) {
        say!("to be removed:");
        for pod in &self.pods {
            say!("  pod        {}/{}", pod.pod.namespace, pod.pod.name);
        }
        if let Some(made) = &self.made {
            say!("  network    bridge {} with its rules and routes", made.bridge);
        }
        for mount in &self.mounts {
            say!("  mount      {}", mount.display());
        }
        for file in &self.files {
            say!("  file       {}", file.display());
        }
        say!("  directory  {}, with everything in it", self.directory.display());
    }

    async fn remove(mut self, yes: bool) -> Result<(), Failure> {
        self.show();
        let agreed = if yes { Ok(()) } else { ask() };
        let removed = match agreed {
            Ok(()) => self.remove_all().await,
            Err(failure) => Err(failure),
        };
        if let Some(private) = self.private.take() {
            private.stop().await;
        }
        removed?;
        self.remove_files()?;
        say!("removed    {}", self.directory.display());
        Ok(())
    }

    async fn remove_all(&self) -> Result<(), Failure> {
        for pod in &self.pods {
            if let Some(runtime) = &self.runtime {
                runtime.remove_sandbox(&pod.id).await.map_err(Failure::Runtime)?;
            }
            if let Err(message) = pintle_kubelet::remove_group_of(&pod.pod.uid).await {
                complain!("pintle: {message}");
            }
        }
        if let Some(made) = &self.made {
            self.remove_network(made).await;
        }
        Ok(())
    }

    async fn remove_network(&self, made: &Made) {
        let kernel = Kernel::default();
        let cluster = made.places.as_ref().map(|places| places.cluster()).unwrap_or_default();
        let is_ours = |range: &Range| cluster.iter().any(|all| all.contains(range.first()));
        let routes = kernel.routes(PROTOCOL).await.into_iter().filter(is_ours);
        let mut forgiving: Vec<String> = routes.map(|range| format!("route delete {range} proto {PROTOCOL}")).collect();
        forgiving.extend([&made.bridge, &tunnel_device(&made.bridge)].map(|device| format!("link delete {device}")));
        // What is not there need not go.
        let _ = kernel.route(&RouteLines { forgiving, ..RouteLines::default() }).await;
        let removal = removal(&tables_of(&made.bridge));
        if let Err(error) = kernel.apply(&removal).await {
            complain!("pintle: rules are left behind: {error}");
        }
    }

    /// What is on disks, once nothing runs any more.
    fn remove_files(&self) -> Result<(), Failure> {
        // Those of containers are gone with them; the rest goes from the innermost to the outermost.
        for mount in mounts_below(&self.directory) {
            let _ = rustix::mount::unmount(&mount, rustix::mount::UnmountFlags::DETACH);
        }
        for file in &self.files {
            let removed = if file.is_dir() && !file.is_symlink() {
                std::fs::remove_dir_all(file)
            } else {
                std::fs::remove_file(file)
            };
            gone(file, removed)?;
        }
        if let Some(logs) = self.made.as_ref().and_then(|made| made.logs.as_ref()) {
            // Links to logs that are gone.
            let _ = pintle_kubelet::prune_log_links(logs);
        }
        gone(&self.directory, std::fs::remove_dir_all(&self.directory))
    }
}

fn gone(path: &Path, removed: io::Result<()>) -> Result<(), Failure> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(|source| Failure::Files { path: path.to_owned(), source }),
    }
}

fn logs_of(logs: &Path, sandbox: &Sandbox) -> PathBuf {
    let pod = &sandbox.pod;
    logs.join(format!("{}_{}_{}", pod.namespace, pod.name, pod.uid))
}

/// The innermost first.
fn mounts_below(directory: &Path) -> Vec<PathBuf> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut mounts: Vec<PathBuf> = table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        // Spaces are written as numbers.
        .map(|place| PathBuf::from(place.replace("\\040", " ")))
        .filter(|place| place.starts_with(directory))
        .collect();
    mounts.sort_by_key(|place| std::cmp::Reverse(place.components().count()));
    mounts
}

fn ask() -> Result<(), Failure> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure::Unasked);
    }
    say!("remove all of it? [y/N]");
    let mut answer = String::new();
    let _ = stdin.lock().read_line(&mut answer);
    if ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) { Ok(()) } else { Err(Failure::Declined) }
}
