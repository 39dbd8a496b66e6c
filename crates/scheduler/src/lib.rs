//! Which node a Pod runs on.
//!
//! # Layout
//!
//! In the order in which a Pod walks them:
//!
//! - [`scheduler`]: the loop, and how to start and stop it
//! - [`setup`]: what it is told, a KubeSchedulerConfiguration
//! - `watch`: from changes in the cluster to the cache and the queue
//! - [`queue`]: Pods that wait for a node
//! - [`cycle`]: one Pod, all nodes, one answer; no I/O
//! - [`plugins`]: what keeps a Pod off a node and what makes one better, one file each
//! - `filters`: all filters of one Pod, over nodes as they are or as they would be
//! - `extended`: the same with extenders, `extender`: one of them, asked over HTTP
//! - `preemption`: which Pods have to leave for one that fits nowhere; `evict` makes them leave
//! - [`cache`]: nodes and the Pods on them, bound or assumed; [`nominated`]: Pods for which room is made
//! - [`storage`]: claims and volumes, and which a Pod would have where
//! - [`pod`], [`node`], [`resources`], [`terms`]: objects as the scheduler sees them, read once
//! - `volumes`: gives a Pod its volumes before its node; `bind`: tells the API server

pub mod scheduler;
pub mod setup;

mod watch;

pub mod queue;

pub mod cycle;
pub mod plugins;

mod filters;

mod extended;
mod extender;

mod evict;
mod preemption;

pub mod cache;
pub mod node;
pub mod nominated;
pub mod pod;
pub mod resources;
pub mod storage;
pub mod terms;

mod bind;
mod volumes;

#[cfg(test)]
mod testing;

pub use extender::Dial;
pub use scheduler::{Prepared, Scheduler};
pub use setup::Setup;

/// The scheduler that Pods have unless they name another.
pub const DEFAULT_NAME: &str = "default-scheduler";
