//! One run of one container: its configuration, its state, its end.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use crate::sandbox::{PodRef, SandboxId};
use crate::security::{Resources, Security};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerId(pub String);

impl fmt::Display for ContainerId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What a container is made from.
#[derive(Clone, Debug, Default)]
pub struct ContainerConfig {
    pub name: String,
    /// How often this container of the Pod was made before; it becomes the restart count.
    pub attempt: u32,
    /// The image as the Pod names it.
    pub image: String,
    /// The digest that the pull answered.
    pub image_id: String,
    pub command: Vec<String>,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub working_directory: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// The Pod's annotations; the simulated back end finds its script here.
    pub annotations: BTreeMap<String, String>,
    pub mounts: Vec<Mount>,
    pub devices: Vec<Device>,
    /// Devices by the names that the runtime finds in its CDI files, as in `vendor.com/class=name`.
    pub cdi_devices: Vec<String>,
    /// Below the log directory of its sandbox.
    pub log_path: String,
    /// Its input is kept open for clients that attach; with `stdin_once` it ends with the first who did.
    pub stdin: bool,
    pub stdin_once: bool,
    pub tty: bool,
    pub resources: Resources,
    pub security: Security,
    /// The container whose processes it sees: set for an ephemeral container that looks at another.
    pub target: Option<ContainerId>,
}

/// A file or directory of the node that a container sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    pub host_path: String,
    pub container_path: String,
    pub read_only: bool,
    pub propagation: Propagation,
}

/// Who sees what is mounted below a mount later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    #[default]
    Private,
    HostToContainer,
    Bidirectional,
}

/// A device of the node that a container may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    pub host_path: String,
    pub container_path: String,
    /// Some of `r`, `w` and `m`.
    pub permissions: String,
}

/// Where a container stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Created,
    /// Asked to start; the process does not run yet.
    Starting,
    Running {
        started_at: Timestamp,
    },
    Exited {
        /// Nothing if it was stopped before it ran.
        started_at: Option<Timestamp>,
        finished_at: Timestamp,
        exit_code: i32,
        /// `Completed`, `Error`, `OOMKilled`, …
        reason: String,
        message: String,
    },
    /// The runtime cannot tell.
    Unknown,
}

/// A container as the runtime knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    pub id: ContainerId,
    pub sandbox: SandboxId,
    pub pod: PodRef,
    pub name: String,
    pub attempt: u32,
    pub image: String,
    pub image_id: String,
    /// The image as the Pod named it when the container was made, where the runtime remembers that.
    pub asked_image: Option<String>,
    pub created_at: Timestamp,
    pub state: State,
    /// A stop was asked for and has not come to its end.
    pub stopping: bool,
}

impl Container {
    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    /// Neither ended nor unknown: it has a process, or will have one.
    pub fn is_alive(&self) -> bool {
        matches!(self.state, State::Created | State::Starting | State::Running { .. })
    }

    /// It has a process, or is about to get one without being asked again.
    pub fn has_process(&self) -> bool {
        matches!(self.state, State::Starting | State::Running { .. })
    }

    pub fn exit_code(&self) -> Option<i32> {
        match self.state {
            State::Exited { exit_code, .. } => Some(exit_code),
            _ => None,
        }
    }

    pub fn started_at(&self) -> Option<Timestamp> {
        match self.state {
            State::Running { started_at } => Some(started_at),
            State::Exited { started_at, .. } => started_at,
            _ => None,
        }
    }

    pub fn finished_at(&self) -> Option<Timestamp> {
        match self.state {
            State::Exited { finished_at, .. } => Some(finished_at),
            _ => None,
        }
    }
}
