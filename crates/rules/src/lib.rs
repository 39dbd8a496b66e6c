//! API semantics as pure functions over objects, for the components that must agree on them: the API server's admission and
//! the control loops, the scheduler and the nodes.
//!
//! # Layout
//!
//! - [`amounts`]: lists of resources with their amounts: added, subtracted, compared
//! - [`resources`]: which names of resources mean what
//! - [`pod`]: what a Pod requests, its limits, its class of service
//! - [`placement`]: which nodes a Pod asks for, and which taints it tolerates
//! - [`share`]: numbers that may be given as a part of a whole
//! - [`hash`]: the short hashes in the names of ReplicaSets and ControllerRevisions
//! - [`quota`]: what a ResourceQuota counts, and which objects are in its scopes
//! - [`cron`]: when a CronJob runs

pub mod amounts;
pub mod resources;

pub mod pod;

pub mod placement;

pub mod share;

pub mod hash;

pub mod quota;

pub mod cron;

pub use amounts::Amounts;
