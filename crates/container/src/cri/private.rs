//! A containerd of our own, for machines where the program is installed and none runs for us.
//!
//! Everything of it is below one directory. It is told to end when we end; the containers run on under their shims, and the
//! next one finds them. One that was left behind by a crash of ours is taken over.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::process::{Child, Command};

use super::{Cri, pause};
use crate::error::Error;
use crate::runtime::Runtime;

/// containerd is up in a tenth of a second on an idle machine.
const START: Duration = Duration::from_secs(30);
const STOP: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// What a private containerd is told.
#[derive(Clone, Debug)]
pub struct PrivateConfig {
    pub directory: PathBuf,
    /// Where it finds the plugins that give Pods a network.
    pub plugins: PathBuf,
}

impl PrivateConfig {
    /// Where it looks for the configuration of Pods' network. It notices what is written there later.
    pub fn networks(&self) -> PathBuf {
        self.directory.join("cni")
    }
}

/// A containerd that we started, or found as we had left it.
pub struct Private {
    socket: PathBuf,
    pid: Pid,
    /// Nothing if it was left behind by another process.
    child: Option<Child>,
    ended: bool,
}

/// Whoever gives it up in the middle of a start, or on the way out of an error, ends it too.
impl Drop for Private {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let _ = rustix::process::kill_process(self.pid, Signal::TERM);
        let steps = STOP.as_millis() / POLL.as_millis();
        for _ in 0..steps {
            if self.has_ended() {
                return;
            }
            #[expect(clippy::disallowed_methods, reason = "a container back end; nobody else runs while we end")]
            std::thread::sleep(POLL);
        }
        let _ = rustix::process::kill_process(self.pid, Signal::KILL);
        let _ = self.child.as_mut().map(Child::try_wait);
    }
}

impl Private {
    /// Whether the programs are there.
    pub fn is_possible() -> bool {
        program("containerd").is_some() && program("runc").is_some() && program("ctr").is_some()
    }

    /// Starts it, and waits until it answers and has the image that holds sandboxes.
    pub async fn start(config: &PrivateConfig) -> Result<(Private, Cri), Error> {
        let directory = &config.directory;
        let write = |error| Error::Failed(format!("cannot write below {}: {error}", directory.display()));
        std::fs::create_dir_all(config.networks()).map_err(write)?;
        let socket = directory.join("containerd.sock");
        let file = directory.join("containerd.toml");
        let settings = configuration(config, &socket);
        if let Some(pid) = left_behind(directory, &file) {
            let found = Private { socket: socket.clone(), pid, child: None, ended: false };
            let is_as_now = std::fs::read_to_string(&file).is_ok_and(|before| before == settings);
            match Cri::connect(&socket).await {
                Ok(cri) if is_as_now => return Ok((found, cri)),
                _ => found.stop().await,
            }
        }
        std::fs::write(&file, settings).map_err(write)?;
        let log = std::fs::File::create(directory.join("containerd.log")).map_err(write)?;
        let child = Command::new("containerd")
            .arg("--config")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(write)?)
            .stderr(log)
            // A signal for us from a terminal is not for it: it ends when we say so.
            .process_group(0)
            .spawn()
            .map_err(|error| Error::Failed(format!("containerd cannot be started: {error}")))?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Error::Failed("containerd ended at once".to_owned()))?;
        let mut private = Private { socket, pid, child: Some(child), ended: false };
        std::fs::write(pid_file(directory), pid.as_raw_nonzero().to_string()).map_err(write)?;
        let cri = private.answer(directory).await?;
        private.bring_pause(&cri, directory).await?;
        Ok((private, cri))
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    async fn answer(&mut self, directory: &Path) -> Result<Cri, Error> {
        let log = directory.join("containerd.log");
        let deadline = tokio::time::Instant::now() + START;
        loop {
            match Cri::connect(&self.socket).await {
                Ok(cri) => return Ok(cri),
                Err(error) if tokio::time::Instant::now() >= deadline => {
                    return Err(Error::Failed(format!("containerd does not answer ({error}); see {}", log.display())));
                }
                Err(_) => {}
            }
            if let Some(child) = &mut self.child
                && let Ok(Some(status)) = child.try_wait()
            {
                return Err(Error::Failed(format!("containerd ended with {status}; see {}", log.display())));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn bring_pause(&self, cri: &Cri, directory: &Path) -> Result<(), Error> {
        if cri.image(pause::NAME).await?.is_some() {
            return Ok(());
        }
        let archive = pause::archive().ok_or(Error::Unsupported("run Pods on this kind of processor"))?;
        let file = directory.join("pause.tar");
        std::fs::write(&file, archive).map_err(|error| Error::Failed(error.to_string()))?;
        import(&self.socket, &file).await?;
        // The runtime interface learns of it by an event.
        let deadline = tokio::time::Instant::now() + START;
        while cri.image(pause::NAME).await?.is_none() {
            if tokio::time::Instant::now() >= deadline {
                return Err(Error::Failed(format!("{} was imported and is not there", pause::NAME)));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    fn has_ended(&mut self) -> bool {
        match &mut self.child {
            Some(child) => !matches!(child.try_wait(), Ok(None)),
            None => rustix::process::test_kill_process(self.pid).is_err(),
        }
    }

    /// Ends it; containers run on.
    pub async fn stop(mut self) {
        // One that is gone needs no signal.
        let _ = rustix::process::kill_process(self.pid, Signal::TERM);
        self.ended = true;
        if let Some(child) = &mut self.child {
            if tokio::time::timeout(STOP, child.wait()).await.is_err() {
                tracing::warn!("containerd does not end; it is killed");
                let _ = child.kill().await;
            }
            return;
        }
        let deadline = tokio::time::Instant::now() + STOP;
        while rustix::process::test_kill_process(self.pid).is_ok() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Brings the images in an archive (`docker save`, OCI layout) into containerd, and says what it says.
pub async fn import(socket: &Path, archive: &Path) -> Result<String, Error> {
    let output = Command::new("ctr")
        .arg("--address")
        .arg(socket)
        .args(["--namespace", "k8s.io", "images", "import"])
        .arg(archive)
        .stdin(Stdio::null())
        // Nobody waits for it any more if the start is given up.
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| Error::Failed(format!("ctr, which comes with containerd, cannot be started: {error}")))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(Error::Failed(format!("{} cannot be imported: {}", archive.display(), text(&output.stderr)))),
    }
}

/// The containerd that an earlier process of ours started with this file, if it runs.
fn left_behind(directory: &Path, file: &Path) -> Option<Pid> {
    let raw: i32 = std::fs::read_to_string(pid_file(directory)).ok()?.trim().parse().ok()?;
    let command = std::fs::read(format!("/proc/{raw}/cmdline")).ok()?;
    let mut words = command.split(|byte| *byte == 0);
    let ours = words.any(|word| word == file.as_os_str().as_encoded_bytes());
    ours.then(|| Pid::from_raw(raw)).flatten()
}

fn pid_file(directory: &Path) -> PathBuf {
    directory.join("containerd.pid")
}

fn configuration(config: &PrivateConfig, socket: &Path) -> String {
    let directory = &config.directory;
    // JSON writes strings as TOML reads them.
    let quoted = |path: &Path| serde_json::Value::from(path.to_string_lossy()).to_string();
    let protects = may_protect();
    format!(
        "version = 2\nroot = {root}\nstate = {state}\noom_score = {oom}\n\
         disabled_plugins = [\"io.containerd.snapshotter.v1.aufs\", \"io.containerd.snapshotter.v1.btrfs\", \
         \"io.containerd.snapshotter.v1.devmapper\", \"io.containerd.snapshotter.v1.zfs\"]\n\
         [grpc]\n  address = {socket}\n\
         [plugins.\"io.containerd.grpc.v1.cri\"]\n  sandbox_image = \"{pause}\"\n  \
         restrict_oom_score_adj = {restricted}\n\
         [plugins.\"io.containerd.grpc.v1.cri\".cni]\n  bin_dir = {plugins}\n  conf_dir = {conf}\n",
        root = quoted(&directory.join("root")),
        state = quoted(&directory.join("state")),
        socket = quoted(socket),
        pause = pause::NAME,
        oom = if protects { -999 } else { 0 },
        restricted = !protects,
        plugins = quoted(&config.plugins),
        conf = quoted(&config.networks()),
    )
}

/// Whether we may make the kernel spare a process when memory runs out. Inside another container we often may not, and
/// containerd must then not try.
fn may_protect() -> bool {
    const SYS_RESOURCE: u32 = 24;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    bits >> SYS_RESOURCE & 1 == 1
}

/// Where a program is, by the search path.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    // Root's path does not always have them, and runc may be there.
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(more).map(|directory| directory.join(name)).find(|file| file.is_file())
}
