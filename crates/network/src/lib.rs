//! How packets find Services and Pods on one machine.
//!
//! # Layout
//!
//! - [`address`]: families, protocols, ranges
//! - [`dataplane`]: what carries packets, behind one trait: the kernel through `nft`, and one that only writes down
//! - [`bridge`]: the bridge between the Pods of a machine
//! - [`cni`]: the plugin that gives each Pod a cable to it
//! - [`tool`]: the programs that talk to the kernel
//! - [`own_node`]: what the cluster says to this node
//! - [`routes`]: packets find Pods of other machines
//! - [`services`]: Services and EndpointSlices become rules
//! - [`policies`]: NetworkPolicies become rules
//! - [`dns`]: names of Services and Pods
//! - [`node`]: all of it, for one node

pub mod address;
pub mod bridge;
pub mod cni;
pub mod dataplane;
pub mod dns;
pub mod node;
pub mod own_node;
pub mod policies;
pub mod routes;
pub mod services;
pub mod tool;

pub use address::{Family, Protocol, Range};
pub use bridge::{Bridge, BridgeError};
pub use dataplane::{Dataplane, DataplaneError, HealthChecks, Kernel, Recorded, RouteLines, Ruleset, Stale, Way};
pub use node::{NodeNetwork, NodeNetworkConfig, Own, PodRanges};
