//! The built-in control loops. Each knows the API server and nothing else.
//!
//! # Layout
//!
//! - [`roster`]: lists every loop, and starts, stops and crashes them by name; `concurrency`: how many keys each works on at once
//! - `deployment`, `replicaset`, `replicationcontroller`: Pods from templates, rolled out
//! - `daemonset`: one Pod on every node that fits
//! - `statefulset`: Pods with names and storage of their own, in order
//! - `job`: Pods that run until enough of them have succeeded
//! - `cronjob`: a Job at each time of a schedule; `ttlafterfinished`: Jobs that have ended go after a while
//! - `podgc`: Pods that no node will end
//! - `garbage`: what goes when its owner goes
//! - `namespace`: what goes when its namespace goes
//! - `serviceaccount`, `rootca`: what every namespace has
//! - `endpointslice`: which Pods stand behind a Service
//! - `clusterdns`: which nodes answer names
//! - `nodeipam`: which addresses the Pods of each node get
//! - `nodelifecycle`, `tainteviction`: what becomes of a node that falls silent, and of its Pods
//! - `volumes`: claims and volumes find each other
//! - `protection`: storage that is deleted stays until nothing uses it
//! - `disruption`: how many Pods may be evicted now
//! - `resourcequota`: how much of each quota is used
//! - `csrapproving`, `csrsigning`, `csrcleaner`: certificates for nodes and for whoever was approved
//! - `tokencleaner`: what lets machines join goes when it has expired
//! - `roleaggregation`: which rules an aggregating ClusterRole shows
//! - `csr`, `history`, `pods`: what several loops ask about requests, ControllerRevisions and Pods
//!
//! A loop's folder has the same files as its siblings': `mod.rs` says what it watches and reads, `plan.rs` decides without I/O,
//! `tests.rs` says what a user would lose. The framework's executor does what was decided.

pub mod roster;

mod concurrency;

mod deployment;
mod replicaset;
mod replicationcontroller;

mod daemonset;
mod statefulset;

mod cronjob;
mod job;
mod ttlafterfinished;

mod podgc;

mod garbage;

mod namespace;

mod rootca;
mod serviceaccount;

mod endpointslice;

mod clusterdns;
mod nodeipam;
mod nodelifecycle;
mod tainteviction;

mod volumes;

mod protection;

mod disruption;

mod resourcequota;

mod csrapproving;
mod csrcleaner;
mod csrsigning;
mod tokencleaner;

mod roleaggregation;

mod csr;
mod history;
mod pods;

pub use concurrency::{Concurrency, ConcurrencyError};
pub use csrsigning::{Authority, Order};

pub use roster::{Loop, Options, Running, roster, start};
