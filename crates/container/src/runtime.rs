//! The trait that every back end implements.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;

use crate::container::{Container, ContainerConfig, ContainerId};
use crate::error::Error;
use crate::image::{Image, PullRequest};
use crate::sandbox::{PodRef, Recalled, Sandbox, SandboxConfig, SandboxId};
use crate::security::Resources;
use crate::stats::{Health, ImageStore, NetworkUsage, Usage};
use crate::streams::{Connection, Process, Wanted};

/// Runs the containers of one node.
///
/// - The runtime is the memory: a restarted agent learns from `list_sandboxes` and `list_containers` what is running.
/// - Every call is idempotent where it can be: stopping what is stopped and removing what is gone are successes.
/// - `stop_container` asks and returns; the end is seen in the container's state and told by `changes`.
/// - `start_container` may return before the process runs; the container is `Starting` until then.
#[async_trait]
pub trait Runtime: Send + Sync + 'static {
    /// What the node reports as its container runtime.
    fn version(&self) -> Version;

    /// A runtime that keeps nothing is told what ran in it before it was started; one that remembers need not listen.
    fn recall(&self, _: Recalled) {}

    async fn run_sandbox(&self, config: SandboxConfig) -> Result<SandboxId, Error>;

    /// Stops what is left in it, at once, and gives its address back.
    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), Error>;

    /// Forgets it with all its containers.
    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), Error>;

    /// The sandboxes of one Pod by UID, or of all; oldest first.
    async fn list_sandboxes(&self, pod_uid: Option<&str>) -> Result<Vec<Sandbox>, Error>;

    /// `shared` is what the sandbox was made from, or would be made from now: back ends keep no memory of it.
    async fn create_container(
        &self,
        sandbox: &SandboxId,
        shared: &SandboxConfig,
        config: ContainerConfig,
    ) -> Result<ContainerId, Error>;

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

    /// Runs a command for someone who is connected to it.
    async fn exec_streams(&self, id: &ContainerId, command: &[String], wanted: Wanted) -> Result<Process, Error> {
        let _ = (id, command, wanted);
        Err(Error::Unsupported("run commands for others"))
    }

    /// Connects someone to the streams of a running container.
    async fn attach(&self, id: &ContainerId, wanted: Wanted) -> Result<Process, Error> {
        let _ = (id, wanted);
        Err(Error::Unsupported("let others attach"))
    }

    /// Connects to a port on the Pod's own loopback address.
    async fn connect(&self, sandbox: &SandboxId, port: u16) -> Result<Connection, Error> {
        let _ = (sandbox, port);
        Err(Error::Unsupported("connect to ports"))
    }

    /// Holds a running container to other bounds.
    async fn update_resources(&self, id: &ContainerId, resources: &Resources) -> Result<(), Error> {
        let _ = (id, resources);
        Err(Error::Unsupported("resize containers"))
    }

    /// Makes the runtime open the container's log anew, after it was moved away.
    async fn reopen_log(&self, id: &ContainerId) -> Result<(), Error> {
        let _ = id;
        Err(Error::Unsupported("reopen logs"))
    }

    /// What the running containers have used; nothing where nothing is used.
    async fn usage(&self) -> Result<Vec<Usage>, Error> {
        Ok(Vec::new())
    }

    /// What went over the interfaces of Pods; nothing where the runtime does not tell.
    async fn network_usage(&self) -> Result<Vec<NetworkUsage>, Error> {
        Ok(Vec::new())
    }

    /// Where images are; nothing if they take no room.
    async fn image_store(&self) -> Result<Option<ImageStore>, Error> {
        Ok(None)
    }

    async fn health(&self) -> Health {
        Health { runtime: Ok(()), network: Ok(()) }
    }

    /// The answer to a probe from a back end that has no processes or ports to ask; `None` leaves it to the node agent.
    async fn probe(&self, id: &ContainerId, kind: ProbeKind) -> Option<Result<(), String>> {
        let _ = (id, kind);
        None
    }

    /// Waits until something has changed by itself since the last call, and says whose it was, each Pod once.
    ///
    /// Being told too often does no harm; an agent that starts lists everything first.
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
