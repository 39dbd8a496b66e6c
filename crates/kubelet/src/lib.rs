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
//! - `plan`: from spec, runtime and time to actions and status; no I/O
//! - [`collect`]: images, containers and sandboxes that go when there are too many
//! - `handlers`: what probes and hooks do: commands, HTTP, gRPC, TCP, waiting
//! - `probes`: when a probe is due and what its answers add up to

pub mod config;
pub mod fleet;
pub mod serve;

pub mod collect;
mod handlers;
mod logs;
mod node;

mod plan;
mod pods;
mod probes;

pub use collect::Collection;
pub use config::{KUBELET_VERSION, LEASE, NodeConfig};
pub use fleet::{Fleet, Kubelet};
pub use serve::Serving;
