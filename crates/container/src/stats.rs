//! What containers and images use.

use jiff::Timestamp;

use crate::container::ContainerId;
use crate::sandbox::PodRef;

/// What one container has used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    pub id: ContainerId,
    pub pod: PodRef,
    pub name: String,
    pub measured_at: Timestamp,
    /// Since it started.
    pub cpu_nanoseconds: u64,
    /// What cannot be taken back from it.
    pub memory_working_set: u64,
    pub memory_usage: u64,
    pub memory_rss: u64,
    /// What it wrote on top of its image.
    pub disk: u64,
    pub inodes: u64,
}

/// What went over one interface of a Pod since it has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkUsage {
    pub pod: PodRef,
    pub interface: String,
    pub received_bytes: u64,
    pub received_errors: u64,
    pub sent_bytes: u64,
    pub sent_errors: u64,
}

/// Where images are kept, and what they take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageStore {
    /// A directory on the file system that holds them.
    pub path: String,
    pub used: u64,
    pub inodes: u64,
}

/// Whether the runtime can do its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Why containers cannot run, if they cannot.
    pub runtime: Result<(), String>,
    /// Why Pods get no network, if they get none.
    pub network: Result<(), String>,
}
