//! The node agent: it keeps a node present and runs the Pods bound to it, over any container runtime.
//!
//! # Layout
//!
//! - [`config`]: what a node is told about itself
//! - [`fleet`]: node agents in this process, and how to start and stop them
//! - `logs`: the logs of containers, read, followed and rotated
//! - `node`: the Node object, its heartbeat and its Lease
//! - `pods`: who wakes a Pod's worker; observe, probe, plan, act, write
//! - [`serve`]: logs, exec, attach, port-forward and statistics, for the API server and over HTTPS
//! - `machine`: the machine under a node: what its Pods find there
//! - `make`: from a Pod's spec to what its sandbox and containers are made from; no I/O
//! - `volumes`: what a Pod has on the machine's disk
//! - `plan`: from spec, runtime and time to actions and status; no I/O
//! - [`collect`]: images, containers and sandboxes that go when there are too many
//! - `credentials`: what registries are told, from pull secrets and plugins
//! - `cgroups`: the control group that holds a Pod as a whole to its bounds
//! - [`devices`]: device plugins, and which devices a container gets
//! - `fit`: whether a Pod fits on the node that it was bound to; no I/O
//! - `ephemeral`: containers that were put beside the others to look at them
//! - [`pressure`]: what a node does that runs out of memory, disk or processes
//! - `handlers`: what probes and hooks do: commands, HTTP, gRPC, TCP, waiting
//! - `statics`: Pods that files of this machine say
//! - `probes`: when a probe is due and what its answers add up to

pub mod config;
pub mod fleet;
pub mod serve;

mod cgroups;
pub mod collect;
mod credentials;
pub mod devices;
mod ephemeral;
mod fit;
mod handlers;
mod logs;
mod node;

mod machine;
mod make;
mod plan;
mod pods;
pub mod pressure;
mod probes;
mod resize;
mod statics;
mod volumes;

pub use cgroups::remove_group_of;
pub use collect::Collection;
pub use config::{KUBELET_VERSION, LEASE, NodeConfig};
pub use credentials::providers::CredentialProviders;
pub use fleet::{Fleet, Kubelet};
pub use logs::LogRotation;
pub use logs::links::prune as prune_log_links;
pub use pressure::Eviction;
pub use serve::Serving;
pub use statics::StaticPods;
