//! The trait that every back end implements.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;

use crate::container::{Container, ContainerConfig, ContainerId};
use crate::error::Error;
use crate::image::{Image, PullRequest};
use crate::sandbox::{PodRef, Sandbox, SandboxConfig, SandboxId};

/// Runs the containers of one node.
///
/// - The runtime is the memory: whoever restarts learns from `list_sandboxes` and `list_containers` what is running.
/// - Every call is idempotent where it can be: stopping what is stopped and removing what is gone are successes.
/// - `stop_container` asks and returns; the end is seen in the container's state and told by `changes`.
/// - `start_container` may return before the process runs; the container is `Starting` until then.
#[async_trait]
pub trait Runtime: Send + Sync + 'static {
    /// What the node reports as its container runtime.
    fn version(&self) -> Version;

    async fn run_sandbox(&self, config: SandboxConfig) -> Result<SandboxId, Error>;

    /// Stops what is left in it, at once, and gives its address back.
    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), Error>;

    /// Forgets it with all its containers.
    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), Error>;

    /// The sandboxes of one Pod by UID, or of all; oldest first.
    async fn list_sandboxes(&self, pod_uid: Option<&str>) -> Result<Vec<Sandbox>, Error>;

    async fn create_container(&self, sandbox: &SandboxId, config: ContainerConfig) -> Result<ContainerId, Error>;

    async fn start_container(&self, id: &ContainerId) -> Result<(), Error>;

    /// Asks the container to end; after `grace` it is made to. A shorter grace than an earlier one takes its place.
    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), Error>;

    async fn remove_container(&self, id: &ContainerId) -> Result<(), Error>;

    /// The containers of one Pod by UID, or of all, ended ones too; oldest first.
    async fn list_containers(&self, pod_uid: Option<&str>) -> Result<Vec<Container>, Error>;

    async fn container_status(&self, id: &ContainerId) -> Result<Container, Error>;

    /// Brings an image onto the node and answers with its digest. Takes as long as it takes.
    async fn pull_image(&self, request: PullRequest) -> Result<Image, Error>;

    /// The image of that name, if the node has it.
    async fn image(&self, name: &str) -> Result<Option<Image>, Error>;

    async fn list_images(&self) -> Result<Vec<Image>, Error>;

    async fn remove_image(&self, name: &str) -> Result<(), Error>;

    /// Runs a command in a running container, as exec probes and hooks do.
    async fn exec(&self, id: &ContainerId, command: &[String], timeout: Duration) -> Result<Execution, Error>;

    /// The answer to a probe from a back end that has no processes or ports to ask; `None` leaves it to the node agent.
    async fn probe(&self, id: &ContainerId, kind: ProbeKind) -> Option<Result<(), String>> {
        let _ = (id, kind);
        None
    }

    /// Waits until something has changed by itself since the last call, and says whose it was, each Pod once.
    ///
    /// Being told too often does no harm; whoever starts lists everything first.
    async fn changes(&self) -> BTreeSet<PodRef>;
}

/// The name and version of a runtime, as in `containerd://2.1.0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub name: String,
    pub version: String,
}

impl std::fmt::Display for Version {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}://{}", self.name, self.version)
    }
}

/// What came of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Execution {
    pub exit_code: i32,
    pub output: Vec<u8>,
}

/// What a probe asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeKind {
    Startup,
    Liveness,
    Readiness,
}
