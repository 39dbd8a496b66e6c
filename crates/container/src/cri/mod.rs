//! Containers run by containerd or CRI-O, over the container runtime interface (gRPC, v1).
//!
//! # Layout
//!
//! - `channel`: calls over the runtime's socket
//! - `messages`: what is sent, as the protocol numbers it
//! - `write`, `read`: between our configurations and those messages
//! - `changes`: what has changed by itself: the runtime's events where it has them, a look every second anyway
//! - [`private`]: a containerd of our own, for machines where none runs
//! - `network`: where it looks for the network of its Pods; `pause`: the image of the process that holds a sandbox's namespaces

pub mod archive;
mod changes;
mod channel;
mod messages;
pub mod network;
mod pause;
pub mod private;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::container::{Container, ContainerConfig, ContainerId};
use crate::error::Error;
use crate::image::{Image, PullRequest};
use crate::runtime::{Execution, Runtime, Version};
use crate::sandbox::{PodRef, Sandbox, SandboxConfig, SandboxId};
use crate::security::Resources;
use crate::spdy;
use crate::stats::{Health, ImageStore, NetworkUsage, Usage};
use crate::streams::{Connection, Process, Wanted};
use changes::Changes;
use channel::{Caller, USUAL, failed, or_gone};
use messages as cri;
use tonic::{Code, Status};

/// The label that tells whose Pod it is, where a runtime has those of others too.
const OWNER: &str = "pintle.dev/node";

/// Images come over slow networks.
const PULL: Duration = Duration::from_secs(30 * 60);

/// How often and how long it is waited for a killed task.
const TASK_LOOKS: usize = 40;
const TASK_LOOK: Duration = Duration::from_millis(50);

/// A runtime behind a socket.
pub struct Cri {
    caller: Caller,
    version: Version,
    /// The image of sandboxes, as far as the runtime tells: without it no Pod can start.
    pause: Option<String>,
    /// Whose Pods are seen; all if nobody else has any.
    owner: Option<String>,
    known: Arc<Mutex<Known>>,
    changes: tokio::sync::Mutex<Changes>,
}

/// What need not be asked again: an ended container stays ended, a sandbox keeps its addresses.
#[derive(Default)]
struct Known {
    /// By container, with the state in which it was asked for.
    statuses: BTreeMap<String, (i32, cri::ContainerStatus)>,
    addresses: BTreeMap<String, Vec<IpAddr>>,
    /// Containers that were asked to stop, and have not.
    stopping: BTreeSet<String>,
}

impl Cri {
    /// Connects to the runtime behind this socket.
    pub async fn connect(socket: &Path) -> Result<Self, Error> {
        let caller = channel::to(socket);
        let request = cri::VersionRequest { version: "v1".to_owned() };
        let told: cri::VersionResponse = caller
            .call("/runtime.v1.RuntimeService/Version", request, Duration::from_secs(10))
            .await
            .map_err(|status| Error::Failed(format!("{}: {}", socket.display(), status.message())))?;
        let version = Version { name: told.runtime_name, version: told.runtime_version };
        let changes = tokio::sync::Mutex::new(Changes::new(caller.clone()));
        // Older runtimes do not say of an image that it is pinned, but show their configuration.
        let shown = configuration(&caller).await;
        let pause = shown.as_ref().and_then(|config| config["sandboxImage"].as_str().map(str::to_owned));
        Ok(Cri { caller, version, pause, owner: None, known: Arc::default(), changes })
    }

    /// Others have Pods in the same runtime: only those that are made under this name are seen, and so none of theirs is removed.
    #[must_use]
    pub fn owned_by(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Finds what belongs to one Pod, or everything that is ours.
    fn selector(&self, pod_uid: Option<&str>) -> BTreeMap<String, String> {
        let owner = self.owner.iter().map(|owner| (OWNER.to_owned(), owner.clone()));
        write::selector(pod_uid).into_iter().chain(owner).collect()
    }

    fn signed(&self, config: &SandboxConfig) -> cri::SandboxConfig {
        let mut written = write::sandbox(config);
        written.labels.extend(self.owner.iter().map(|owner| (OWNER.to_owned(), owner.clone())));
        written
    }

    /// Images of containers that are not ours.
    async fn images_of_others(&self) -> Result<BTreeSet<String>, Error> {
        let Some(owner) = &self.owner else { return Ok(BTreeSet::new()) };
        let request = cri::ListContainersRequest { filter: None };
        let listed = self.caller.call("/runtime.v1.RuntimeService/ListContainers", request, USUAL).await;
        let listed: cri::ListContainersResponse = listed.map_err(failed)?;
        let others = listed.containers.into_iter().filter(|item| item.labels.get(OWNER) != Some(owner));
        Ok(others.map(|item| item.image_ref).collect())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn addresses(&self, id: &str) -> Result<Vec<IpAddr>, Error> {
        if let Some(known) = self.known().addresses.get(id) {
            return Ok(known.clone());
        }
        let request = cri::SandboxIdMessage { id: id.to_owned() };
        let told = self.caller.call("/runtime.v1.RuntimeService/PodSandboxStatus", request, USUAL).await;
        let told: cri::SandboxStatusResponse = or_gone(told)?;
        let addresses = read::addresses(&told.status.unwrap_or_default());
        self.known().addresses.insert(id.to_owned(), addresses.clone());
        Ok(addresses)
    }

    /// The list does not say when a container started or how it ended.
    async fn status(&self, item: &cri::ContainerItem) -> Result<Option<cri::ContainerStatus>, Error> {
        if item.state == read::CREATED {
            return Ok(Some(cri::ContainerStatus::default()));
        }
        if let Some((state, status)) = self.known().statuses.get(&item.id)
            && *state == item.state
        {
            return Ok(Some(status.clone()));
        }
        let request = cri::ContainerIdMessage { id: item.id.clone() };
        let told = self.caller.call("/runtime.v1.RuntimeService/ContainerStatus", request, USUAL).await;
        let told: cri::ContainerStatusResponse = or_gone(told)?;
        let Some(status) = told.status else { return Ok(None) };
        // It may have moved on since the list was made; then it is asked again.
        if status.state == item.state {
            self.known().statuses.insert(item.id.clone(), (item.state, status.clone()));
        }
        Ok(Some(status))
    }

    async fn containers(&self, filter: cri::ContainerFilter) -> Result<Vec<Container>, Error> {
        let request = cri::ListContainersRequest { filter: Some(filter) };
        let listed = self.caller.call("/runtime.v1.RuntimeService/ListContainers", request, USUAL).await;
        let listed: cri::ListContainersResponse = listed.map_err(failed)?;
        let mut containers = Vec::with_capacity(listed.containers.len());
        for mut item in listed.containers {
            let Some(status) = self.status(&item).await? else { continue };
            if item.state != read::CREATED {
                item.state = status.state;
            }
            let stopping = self.known().stopping.contains(&item.id);
            containers.push(read::container(&item, &status, stopping));
        }
        containers.sort_by(|a, b| (a.created_at, a.attempt, &a.id).cmp(&(b.created_at, b.attempt, &b.id)));
        Ok(containers)
    }

    async fn forget_container(&self, id: &str) -> Result<(), Status> {
        let request = cri::ContainerIdMessage { id: id.to_owned() };
        let answer = self.caller.call("/runtime.v1.RuntimeService/RemoveContainer", request, USUAL).await;
        answer.map(|_: cri::Empty| ())
    }

    /// Ends what containerd left behind when a start was cut off: a task that never ran, of which the runtime interface knows
    /// nothing and which keeps its container from being removed. Elsewhere there is no such service, and nothing happens.
    async fn end_task(&self, id: &str) {
        const KILL: u32 = 9;
        let kill = cri::KillTaskRequest { container_id: id.to_owned(), signal: KILL, all: true };
        let killed = self.caller.call("/containerd.services.tasks.v1.Tasks/Kill", kill, USUAL).await;
        if let Err(status) = killed.map(|_: cri::Empty| ()) {
            tracing::debug!(container = id, error = status.message(), "there is no task to end");
            return;
        }
        for _ in 0..TASK_LOOKS {
            let delete = cri::DeleteTaskRequest { container_id: id.to_owned() };
            let deleted = self.caller.call("/containerd.services.tasks.v1.Tasks/Delete", delete, USUAL).await;
            if deleted.map(|_: cri::Empty| ()).is_ok() {
                return;
            }
            tokio::time::sleep(TASK_LOOK).await;
        }
    }

    async fn image_status(&self, name: &str) -> Result<Option<Image>, Error> {
        let request = cri::ImageRequest { image: Some(write::image_spec(name)) };
        let told = self.caller.call("/runtime.v1.ImageService/ImageStatus", request, USUAL).await;
        let told: cri::ImageStatusResponse = told.map_err(failed)?;
        Ok(told.image.map(|image| read::image(image, Some(name))))
    }
}

/// What the runtime shows of its configuration: containerd most of it, CRI-O which image holds sandboxes.
async fn configuration(caller: &Caller) -> Option<serde_json::Value> {
    let request = cri::StatusRequest { verbose: true };
    let told = caller.call("/runtime.v1.RuntimeService/Status", request, Duration::from_secs(10)).await;
    let told: cri::StatusResponse = told.ok()?;
    serde_json::from_str(told.info.get("config")?).ok()
}

#[async_trait]
impl Runtime for Cri {
    fn version(&self) -> Version {
        self.version.clone()
    }

    async fn run_sandbox(&self, config: SandboxConfig) -> Result<SandboxId, Error> {
        let request =
            cri::RunSandboxRequest { config: Some(self.signed(&config)), runtime_handler: config.handler.clone() };
        // A network plugin may take its time.
        let patience = USUAL * 2;
        let made = self.caller.call("/runtime.v1.RuntimeService/RunPodSandbox", request, patience).await;
        let made: cri::SandboxIdMessage = made.map_err(failed)?;
        Ok(SandboxId(made.id))
    }

    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), Error> {
        let request = cri::SandboxIdMessage { id: id.0.clone() };
        let answer = self.caller.call("/runtime.v1.RuntimeService/StopPodSandbox", request, USUAL).await;
        or_gone::<cri::Empty>(answer).map(|_| ())
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), Error> {
        // One that was never stopped would keep its address.
        self.stop_sandbox(id).await?;
        let request = cri::SandboxIdMessage { id: id.0.clone() };
        let remove = || self.caller.call("/runtime.v1.RuntimeService/RemovePodSandbox", request.clone(), USUAL);
        if or_gone::<cri::Empty>(remove().await).is_err() {
            // One of its containers cannot be removed: each is tried with more force.
            for container in self.list_containers(None).await?.iter().filter(|container| container.sandbox == *id) {
                self.remove_container(&container.id).await?;
            }
            or_gone::<cri::Empty>(remove().await)?;
        }
        self.known().addresses.remove(&id.0);
        Ok(())
    }

    async fn list_sandboxes(&self, pod_uid: Option<&str>) -> Result<Vec<Sandbox>, Error> {
        let filter = cri::SandboxFilter { label_selector: self.selector(pod_uid) };
        let request = cri::ListSandboxesRequest { filter: Some(filter) };
        let listed = self.caller.call("/runtime.v1.RuntimeService/ListPodSandbox", request, USUAL).await;
        let listed: cri::ListSandboxesResponse = listed.map_err(failed)?;
        let mut sandboxes = Vec::with_capacity(listed.items.len());
        for item in listed.items {
            let addresses = self.addresses(&item.id).await?;
            sandboxes.push(read::sandbox(&item, addresses));
        }
        sandboxes.sort_by(|a, b| (a.created_at, a.attempt, &a.id).cmp(&(b.created_at, b.attempt, &b.id)));
        Ok(sandboxes)
    }

    async fn create_container(
        &self,
        sandbox: &SandboxId,
        shared: &SandboxConfig,
        config: ContainerConfig,
    ) -> Result<ContainerId, Error> {
        let mut written = write::container(&config, shared);
        written.labels.extend(self.owner.iter().map(|owner| (OWNER.to_owned(), owner.clone())));
        let request = cri::CreateContainerRequest {
            sandbox_id: sandbox.0.clone(),
            config: Some(written),
            sandbox_config: Some(self.signed(shared)),
        };
        let made = self.caller.call("/runtime.v1.RuntimeService/CreateContainer", request, USUAL).await;
        let made: cri::ContainerIdMessage = made.map_err(failed)?;
        Ok(ContainerId(made.id))
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), Error> {
        let request = cri::ContainerIdMessage { id: id.0.clone() };
        let answer = self.caller.call("/runtime.v1.RuntimeService/StartContainer", request, USUAL).await;
        answer.map(|_: cri::Empty| ()).map_err(failed)
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), Error> {
        let timeout = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
        let request = cri::StopContainerRequest { id: id.0.clone(), timeout };
        self.known().stopping.insert(id.0.clone());
        let (caller, known, id) = (self.caller.clone(), self.known.clone(), id.0.clone());
        // The runtime answers when the container has ended; the caller does not wait for that.
        tokio::spawn(async move {
            let patience = grace.saturating_add(USUAL);
            let answer = caller.call("/runtime.v1.RuntimeService/StopContainer", request, patience).await;
            if let Err(error) = or_gone::<cri::Empty>(answer) {
                tracing::warn!(container = %id, %error, "it could not be stopped; it will be asked again");
            }
            known.lock().unwrap_or_else(PoisonError::into_inner).stopping.remove(&id);
        });
        Ok(())
    }

    async fn remove_container(&self, id: &ContainerId) -> Result<(), Error> {
        if or_gone(self.forget_container(&id.0).await).is_err() {
            self.end_task(&id.0).await;
            or_gone(self.forget_container(&id.0).await)?;
        }
        self.known().statuses.remove(&id.0);
        Ok(())
    }

    async fn list_containers(&self, pod_uid: Option<&str>) -> Result<Vec<Container>, Error> {
        self.containers(cri::ContainerFilter { label_selector: self.selector(pod_uid), ..Default::default() }).await
    }

    async fn container_status(&self, id: &ContainerId) -> Result<Container, Error> {
        let found = self.containers(cri::ContainerFilter { id: id.0.clone(), ..Default::default() }).await?;
        found.into_iter().next().ok_or_else(|| Error::no_container(&id.0))
    }

    async fn pull_image(&self, request: PullRequest) -> Result<Image, Error> {
        let pull = cri::PullImageRequest {
            image: Some(write::image_spec(&request.image)),
            auth: request.credentials.as_ref().map(write::credentials),
            sandbox_config: None,
        };
        let pulled = self.caller.call("/runtime.v1.ImageService/PullImage", pull, PULL).await;
        let pulled: cri::PullImageResponse = pulled.map_err(|status| Error::PullFailed(status.message().to_owned()))?;
        match self.image_status(&pulled.image_ref).await? {
            Some(image) => Ok(Image { name: request.image, ..image }),
            None => Err(Error::PullFailed(format!("{:?} is not there after it was pulled", request.image))),
        }
    }

    async fn image(&self, name: &str) -> Result<Option<Image>, Error> {
        self.image_status(name).await
    }

    async fn list_images(&self) -> Result<Vec<Image>, Error> {
        let listed = self.caller.call("/runtime.v1.ImageService/ListImages", cri::ListImagesRequest::default(), USUAL);
        let listed: cri::ListImagesResponse = listed.await.map_err(failed)?;
        let images = listed.images.into_iter().map(|image| read::image(image, None));
        let others = self.images_of_others().await?;
        let pinned = |image: &Image| {
            others.contains(&image.id) || self.pause.as_ref().is_some_and(|pause| image.names.contains(pause))
        };
        Ok(images.map(|image| Image { pinned: image.pinned || pinned(&image), ..image }).collect())
    }

    async fn remove_image(&self, name: &str) -> Result<(), Error> {
        let request = cri::ImageRequest { image: Some(write::image_spec(name)) };
        let answer = self.caller.call("/runtime.v1.ImageService/RemoveImage", request, USUAL).await;
        or_gone::<cri::Empty>(answer).map(|_| ())
    }

    async fn exec(&self, id: &ContainerId, command: &[String], timeout: Duration) -> Result<Execution, Error> {
        // Less than a second would mean no bound.
        let seconds = i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX).max(1);
        let request = cri::ExecSyncRequest { id: id.0.clone(), cmd: command.to_vec(), timeout: seconds };
        let patience = timeout.saturating_add(Duration::from_secs(10));
        let ran = self.caller.call("/runtime.v1.RuntimeService/ExecSync", request, patience).await;
        let ran: cri::ExecSyncResponse = ran.map_err(failed)?;
        Ok(Execution { exit_code: ran.exit_code, output: [ran.stdout, ran.stderr].concat() })
    }

    async fn exec_streams(&self, id: &ContainerId, command: &[String], wanted: Wanted) -> Result<Process, Error> {
        let Wanted { stdin, stdout, stderr, tty } = wanted;
        let stderr = stderr && !tty;
        let request = cri::ExecRequest { id: id.0.clone(), cmd: command.to_vec(), tty, stdin, stdout, stderr };
        let answer = self.caller.call("/runtime.v1.RuntimeService/Exec", request, USUAL).await;
        let answer: cri::StreamResponse = answer.map_err(failed)?;
        spdy::exec(&answer.url, wanted).await
    }

    async fn attach(&self, id: &ContainerId, wanted: Wanted) -> Result<Process, Error> {
        let Wanted { stdin, stdout, stderr, tty } = wanted;
        let request = cri::AttachRequest { id: id.0.clone(), stdin, tty, stdout, stderr: stderr && !tty };
        let answer = self.caller.call("/runtime.v1.RuntimeService/Attach", request, USUAL).await;
        let answer: cri::StreamResponse = answer.map_err(failed)?;
        spdy::attach(&answer.url, wanted).await
    }

    async fn connect(&self, sandbox: &SandboxId, port: u16) -> Result<Connection, Error> {
        let request = cri::PortForwardRequest { sandbox: sandbox.0.clone(), ports: vec![i32::from(port)] };
        let answer = self.caller.call("/runtime.v1.RuntimeService/PortForward", request, USUAL).await;
        let answer: cri::StreamResponse = answer.map_err(failed)?;
        spdy::port(&answer.url, port).await
    }

    async fn update_resources(&self, id: &ContainerId, resources: &Resources) -> Result<(), Error> {
        let linux = Some(write::resources(resources));
        let request = cri::UpdateResourcesRequest { id: id.0.clone(), linux };
        let answer = self.caller.call("/runtime.v1.RuntimeService/UpdateContainerResources", request, USUAL).await;
        answer.map(|_: cri::Empty| ()).map_err(failed)
    }

    async fn reopen_log(&self, id: &ContainerId) -> Result<(), Error> {
        let request = cri::ContainerIdMessage { id: id.0.clone() };
        let answer = self.caller.call("/runtime.v1.RuntimeService/ReopenContainerLog", request, USUAL).await;
        answer.map(|_: cri::Empty| ()).map_err(failed)
    }

    async fn usage(&self) -> Result<Vec<Usage>, Error> {
        let listed = self.caller.call("/runtime.v1.RuntimeService/ListContainerStats", cri::Empty {}, USUAL).await;
        let listed: cri::ListStatsResponse = listed.map_err(failed)?;
        Ok(listed.stats.into_iter().filter_map(read::usage).collect())
    }

    async fn network_usage(&self) -> Result<Vec<NetworkUsage>, Error> {
        let listed = self.caller.call("/runtime.v1.RuntimeService/ListPodSandboxStats", cri::Empty {}, USUAL).await;
        match listed {
            Ok(listed) => Ok(read::network_usage(listed)),
            // Older runtimes count for containers alone.
            Err(status) if status.code() == Code::Unimplemented => Ok(Vec::new()),
            Err(status) => Err(failed(status)),
        }
    }

    async fn image_store(&self) -> Result<Option<ImageStore>, Error> {
        let told = self.caller.call("/runtime.v1.ImageService/ImageFsInfo", cri::Empty {}, USUAL).await;
        told.map(read::image_store).map_err(failed)
    }

    async fn health(&self) -> Health {
        let told = self
            .caller
            .call("/runtime.v1.RuntimeService/Status", cri::StatusRequest { verbose: false }, Duration::from_secs(10))
            .await;
        let told: cri::StatusResponse = match told {
            Ok(told) => told,
            Err(status) => {
                let message = status.message().to_owned();
                return Health { runtime: Err(message.clone()), network: Err(message) };
            }
        };
        let conditions = told.status.unwrap_or_default().conditions;
        let is = |kind: &str| match conditions.iter().find(|condition| condition.kind == kind) {
            Some(condition) if condition.status => Ok(()),
            Some(condition) => Err(condition.message.clone()),
            None => Err(format!("the runtime does not tell {kind}")),
        };
        Health { runtime: is("RuntimeReady"), network: is("NetworkReady") }
    }

    async fn changes(&self) -> BTreeSet<PodRef> {
        self.changes.lock().await.next().await
    }
}
