//! Real Pods: `pintle up` as root with a containerd of its own, images made of busybox, no network.
//!
//! Each test has its own cluster. Where a machine cannot run containers they are reported as skipped.

#[path = "../harness/mod.rs"]
mod harness;

#[path = "../../../../xtask/src/test/skip.rs"]
mod skip;

mod disk;
mod node;

mod autoscaling;
mod claims;
mod collection;
mod devices;
mod files;
mod foreign;
mod greed;
mod health;
mod inside;
mod kills;
mod lifecycle;
mod limits;
mod pressure;
mod registry;
mod resize;
mod scrape;
mod statics;
mod stops;
mod streams;
mod surroundings;
mod terminal;
mod tokens;
mod traffic;
mod two_nodes;
