//! How packets find Services and Pods on one machine.
//!
//! # Layout
//!
//! - [`address`]: families, protocols, ranges
//! - [`dataplane`]: what carries packets, behind one trait: the kernel through `nft`, and one that only writes down
//! - [`bridge`]: the bridge between the Pods of a machine
//! - [`services`]: Services and EndpointSlices become rules
//! - [`dns`]: their names
//! - [`node`]: all of it, for one node

pub mod address;
pub mod bridge;
pub mod dataplane;
pub mod dns;
pub mod node;
pub mod services;

pub use address::{Family, Protocol, Range};
pub use bridge::{Bridge, BridgeError};
pub use dataplane::{Dataplane, DataplaneError, HealthChecks, Kernel, Recorded, Stale};
pub use node::{NodeNetwork, NodeNetworkConfig};
