//! How packets find Services and Pods on one machine.
//!
//! # Layout
//!
//! - [`address`]: families, protocols, ranges
//! - [`dataplane`]: what carries packets, behind one trait: the kernel through `nft`, and one that only writes down
//! - [`services`]: Services and EndpointSlices become rules
//! - [`dns`]: their names

pub mod address;
pub mod dataplane;
pub mod dns;
pub mod services;

pub use address::{Family, Protocol, Range};
pub use dataplane::{Dataplane, DataplaneError, Kernel, Recorded};
