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
//! - `horizontalpodautoscaler`: as many replicas as keep metrics at their targets
//! - `podgc`: Pods that no node will end
//! - `garbage`: what goes when its owner goes
//! - `namespace`: what goes when its namespace goes
//! - `serviceaccount`, `rootca`: what every namespace has
//! - `serviceaccounttoken`: tokens of service accounts in Secrets
//! - `endpointslice`: which Pods stand behind a Service
//! - `endpointslicemirroring`: Endpoints written by hand, as slices
//! - `servicelb`: the nodes' addresses for Services of type LoadBalancer
//! - `clusterdns`: which nodes answer names
//! - `nodeipam`: which addresses the Pods of each node get
//! - `nodelifecycle`, `tainteviction`: what becomes of a node that falls silent, and of its Pods
//! - `volumes`: claims and volumes find each other
//! - `localpath`: a directory of this machine for each claim of the default class
//! - `ephemeralvolume`: claims for the volumes that live as long as their Pod
//! - `protection`: storage that is deleted stays until nothing uses it
//! - `disruption`: how many Pods may be evicted now
//! - `resourcequota`: how much of each quota is used
//! - `csrapproving`, `csrsigning`, `csrcleaner`: certificates for nodes and for approved requests
//! - `tokencleaner`: what lets machines join goes when it has expired
//! - `roleaggregation`: which rules an aggregating ClusterRole shows
//! - `csr`, `history`, `pods`, `scales`: what several loops ask about requests, ControllerRevisions, Pods and Scales
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

mod horizontalpodautoscaler;

mod podgc;

mod garbage;

mod namespace;

mod rootca;
mod serviceaccount;
mod serviceaccounttoken;

mod endpointslice;
mod endpointslicemirroring;
mod servicelb;

mod clusterdns;
mod nodeipam;
mod nodelifecycle;
mod tainteviction;

mod ephemeralvolume;
mod localpath;
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
mod scales;

pub use concurrency::{Concurrency, ConcurrencyError};
pub use csrsigning::{Authority, Order};
pub use localpath::LocalVolumes;
pub use serviceaccounttoken::{SecretToken, TokenSigner};

pub use roster::{Loop, Options, Running, roster, start};
