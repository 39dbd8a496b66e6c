//! What runs containers, behind one trait shaped like CRI.
//!
//! The node agent knows [`Runtime`] and nothing else. *cri* runs containers through containerd or CRI-O; *simulated* runs Pods
//! by script, in virtual time if wanted; *native* (OCI, in process) can take the same place later.
//!
//! # Layout
//!
//! - [`runtime`]: the trait
//! - [`sandbox`]: what a Pod's containers share, and whose it is
//! - [`container`]: one run of one container: its configuration, its state, its end
//! - [`image`]: images by name and by digest
//! - [`security`]: what a container may do and use, and what it shares with the node
//! - [`streams`]: what runs between a container and someone who is connected to it
//! - [`stats`]: what containers and images use
//! - [`grpc`]: calls over Unix sockets, and answers to them
//! - [`spdy`]: a client for the streaming servers of CRI runtimes, and what a server of the same needs
//! - [`error`]: what can go wrong
//! - [`cri`]: the back end of containerd and CRI-O
//! - [`simulated`]: the back end that follows a script in the Pod's annotations

pub mod runtime;

pub mod container;
pub mod image;
pub mod sandbox;

pub mod security;
pub mod stats;
pub mod streams;

pub mod grpc;
pub mod spdy;

pub mod error;

pub mod cri;
pub mod simulated;

pub use container::{Container, ContainerConfig, ContainerId, Device, Mount, Propagation, State};
pub use cri::Cri;
pub use error::Error;
pub use image::{Credentials, Image, PullRequest};
pub use runtime::{Execution, ProbeKind, Runtime, Version};
pub use sandbox::{
    Dns, PodRef, Port, Protocol, Recalled, RecalledRun, Sandbox, SandboxConfig, SandboxId, SandboxState,
};
pub use security::{Namespaces, PidNamespace, Resources, Seccomp, Security};
pub use simulated::Simulated;
pub use stats::{Health, ImageStore, NetworkUsage, Usage};
pub use streams::{Connection, Process, Reader, Size, Wanted, Writer};
