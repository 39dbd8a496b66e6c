//! The runtime of one simulated node.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use pintle_meta::Clock;
use pintle_meta::hash::stable;
use tokio::sync::Notify;

use super::books::Books;
use super::script::Script;
use crate::container::{Container, ContainerConfig, ContainerId};
use crate::error::Error;
use crate::image::{Image, PullRequest};
use crate::runtime::{Execution, ProbeKind, Runtime, Version};
use crate::sandbox::{PodRef, Recalled, Sandbox, SandboxConfig, SandboxId};
use crate::security::Resources;
use crate::stats::{Health, Usage};

/// A machine that is not there.
#[derive(Debug)]
pub struct Node {
    clock: Clock,
    seed: u64,
    subnet: [u8; 3],
    // Held only for bookkeeping, never across an await.
    books: Mutex<Books>,
    /// Nobody answers.
    down: AtomicBool,
    changed: Notify,
}

impl Node {
    pub(super) fn new(clock: Clock, name: &str, index: u16) -> Self {
        let [high, low] = index.to_be_bytes();
        let subnet = [10, 64u8.saturating_add(high), low];
        Node {
            seed: stable(name.as_bytes()),
            subnet,
            books: Mutex::new(Books::new(clock.now())),
            clock,
            down: AtomicBool::new(false),
            changed: Notify::new(),
        }
    }

    pub(super) fn fork(&self, clock: Clock) -> Self {
        let books = Mutex::new(self.books().clone());
        let down = AtomicBool::new(self.down.load(Ordering::Relaxed));
        Node { clock, seed: self.seed, subnet: self.subnet, books, down, changed: Notify::new() }
    }

    /// The runtime goes away, or comes back; containers run on.
    pub fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::Relaxed);
        self.changed.notify_one();
    }

    fn answers(&self) -> Result<(), Error> {
        match self.down.load(Ordering::Relaxed) {
            true => Err(Error::Failed("connection refused: the runtime is down".to_owned())),
            false => Ok(()),
        }
    }

    /// The sandboxes of a Pod die, as if their process had been killed.
    pub fn lose_sandbox(&self, pod_uid: &str) {
        self.act(|books, _| books.lose_sandbox(pod_uid));
    }

    /// From now on the containers of a Pod use so many thousandths of a CPU, whatever their script says.
    pub fn use_cpu(&self, pod_uid: &str, cpu_milli: u64) {
        self.act(|books, now| books.use_cpu(pod_uid, cpu_milli, now));
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state; tasks that wait for changes look at it again.
    fn act<T>(&self, act: impl FnOnce(&mut Books, Timestamp) -> T) -> T {
        let done = act(&mut self.books(), self.clock.now());
        self.changed.notify_one();
        done
    }
}

#[async_trait]
impl Runtime for Node {
    fn version(&self) -> Version {
        Version { name: "simulated".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
    }

    fn recall(&self, recalled: Recalled) {
        self.act(|books, _| books.recall(recalled, self.seed));
    }

    async fn run_sandbox(&self, config: SandboxConfig) -> Result<SandboxId, Error> {
        self.answers()?;
        let delay = Script::of(&config.annotations, "").sandbox_delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        self.books().run_sandbox(config, self.seed, self.subnet, self.clock.now())
    }

    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), Error> {
        self.answers()?;
        self.act(|books, now| books.stop_sandbox(id, now));
        Ok(())
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), Error> {
        self.answers()?;
        self.act(|books, now| books.remove_sandbox(id, now));
        Ok(())
    }

    async fn list_sandboxes(&self, pod_uid: Option<&str>) -> Result<Vec<Sandbox>, Error> {
        self.answers()?;
        Ok(self.books().sandboxes(pod_uid))
    }

    async fn create_container(
        &self,
        sandbox: &SandboxId,
        _: &SandboxConfig,
        config: ContainerConfig,
    ) -> Result<ContainerId, Error> {
        self.answers()?;
        self.books().create_container(sandbox, config, self.seed, self.clock.now())
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), Error> {
        self.answers()?;
        self.act(|books, now| books.start(id, now))
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), Error> {
        self.answers()?;
        self.act(|books, now| books.stop(id, grace, now));
        Ok(())
    }

    async fn remove_container(&self, id: &ContainerId) -> Result<(), Error> {
        self.answers()?;
        self.books().remove_container(id);
        Ok(())
    }

    async fn list_containers(&self, pod_uid: Option<&str>) -> Result<Vec<Container>, Error> {
        self.answers()?;
        Ok(self.books().containers(pod_uid, self.clock.now()))
    }

    async fn container_status(&self, id: &ContainerId) -> Result<Container, Error> {
        self.books().container(id, self.clock.now()).ok_or_else(|| Error::no_container(&id.0))
    }

    async fn pull_image(&self, request: PullRequest) -> Result<Image, Error> {
        self.answers()?;
        let PullRequest { image: name, container, annotations, .. } = request;
        let script = Script::of(&annotations, &container);
        if !script.pull_delay.is_zero() {
            tokio::time::sleep(script.pull_delay).await;
        }
        if self.books().pull_fails(&name, script.pull_fails) {
            return Err(Error::PullFailed(format!("failed to pull image {name:?}: the script says that it fails")));
        }
        let digest: String =
            (0..4).map(|part| format!("{:016x}", stable(format!("{part}{name}").as_bytes()))).collect();
        let image =
            Image { id: format!("{}@sha256:{digest}", repository(&name)), size: 1 << 20, name, ..Image::default() };
        self.books().images.insert(image.name.clone(), image.clone());
        Ok(image)
    }

    async fn image(&self, name: &str) -> Result<Option<Image>, Error> {
        self.answers()?;
        Ok(self.books().images.get(name).cloned())
    }

    async fn list_images(&self) -> Result<Vec<Image>, Error> {
        Ok(self.books().images.values().cloned().collect())
    }

    async fn remove_image(&self, name: &str) -> Result<(), Error> {
        self.books().images.remove(name);
        Ok(())
    }

    async fn exec(&self, id: &ContainerId, _command: &[String], _timeout: Duration) -> Result<Execution, Error> {
        match self.container_status(id).await? {
            container if container.is_running() => Ok(Execution::default()),
            _ => Err(Error::WrongState { id: id.0.clone(), state: "not running", wanted: "running" }),
        }
    }

    /// Nothing is used, so nothing has to be held to bounds.
    async fn update_resources(&self, id: &ContainerId, _: &Resources) -> Result<(), Error> {
        self.container_status(id).await.map(|_| ())
    }

    async fn usage(&self) -> Result<Vec<Usage>, Error> {
        self.answers()?;
        Ok(self.books().usage(self.clock.now()))
    }

    async fn health(&self) -> Health {
        let told = self.answers().map_err(|error| error.to_string());
        Health { runtime: told.clone(), network: told }
    }

    async fn probe(&self, id: &ContainerId, kind: ProbeKind) -> Option<Result<(), String>> {
        let now = self.clock.now();
        let books = self.books();
        let started_at = books.container(id, now).filter(Container::is_running).and_then(|found| found.started_at());
        let (Some(script), Some(started_at)) = (books.script(id), started_at) else {
            return Some(Err("the container is not running".to_owned()));
        };
        let ran = Duration::try_from(now.duration_since(started_at)).unwrap_or_default();
        let fails = |after: Option<Duration>| after.is_some_and(|after| ran >= after);
        let healthy = match kind {
            ProbeKind::Startup => ran >= script.started_after,
            ProbeKind::Readiness => ran >= script.ready_after && !fails(script.ready_fails_after),
            ProbeKind::Liveness => !fails(script.liveness_fails_after),
        };
        Some(if healthy { Ok(()) } else { Err("the script says that it fails".to_owned()) })
    }

    async fn changes(&self) -> BTreeSet<PodRef> {
        loop {
            let woken = self.changed.notified();
            let now = self.clock.now();
            let (changed, next) = self.books().take_changed(now);
            if !changed.is_empty() {
                return changed;
            }
            match next {
                Some(next) => {
                    let wait = Duration::try_from(next.duration_since(now)).unwrap_or_default();
                    // Timers tick in milliseconds; never spin on what is left of one.
                    let wait = wait.max(Duration::from_millis(1));
                    tokio::select! {
                        biased;
                        () = woken => {}
                        () = tokio::time::sleep(wait) => {}
                    }
                }
                None => woken.await,
            }
        }
    }
}

/// The image's name without its tag or digest.
fn repository(image: &str) -> &str {
    let name = image.split('@').next().unwrap_or(image);
    match name.rfind(':') {
        // A colon before a slash belongs to the registry's port.
        Some(colon) if !name[colon..].contains('/') => &name[..colon],
        _ => name,
    }
}
