//! A whole cluster in the test's own process: the real API server, the real loops, virtual time.
//!
//! Run tests on a paused current-thread runtime: `#[tokio::test(start_paused = true)]`. Then timers and the cluster's
//! clock move together, a run depends on nothing but its seed, and waiting costs no time:
//!
//! ```
//! # use pintle_testkit::Cluster;
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
//! let cluster = Cluster::start().await;
//! cluster.apply(serde_json::json!({
//!     "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"},
//! })).await;
//! cluster.settle().await;
//! # }
//! ```
//!
//! # Layout
//!
//! - [`cluster`]: starting one, its clients, its loops
//! - `activity`: what was written, by key
//! - [`settle`]: waiting until everything that can happen has happened
//! - [`faults`]: what a cluster may do to a loop
//! - [`raw`]: requests as bytes

mod activity;
pub mod cluster;
pub mod faults;
pub mod raw;
pub mod settle;

pub use cluster::{Builder, Cluster};
pub use faults::Faults;
pub use raw::Answer;
