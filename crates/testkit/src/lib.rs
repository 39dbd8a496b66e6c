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
//! The guide is `docs/testing.md`; `docs/guide/` begins further back, with the control loop.
//!
//! # Layout
//!
//! - [`builder`], [`cluster`]: starting one, its clients; [`raw`]: requests as bytes
//! - [`loops`]: what runs in it; `authority`: who signs certificates; `processes`: each loop as if it were a process that can be lost
//! - [`network`]: rules that nodes would have for Services and policies; [`outside`]: webhooks of the test, slow, down or lying; `reviewers`: programs that the server asks about users
//! - [`faults`]: what may happen to requests and watches of a loop
//! - `answering`: the way from the API server to simulated nodes
//! - `activity`: what was written, as the store saw it; [`settle`]: waiting until everything has happened
//! - [`snapshot`]: the end of a run as a value; [`fork`](Cluster::fork): a copy that goes its own way
//! - [`explore`]: one test under many seeds; `parallel`: many runs at once
//! - [`scenario`]: a story run without faults, then with a crash at every write (`sweep`), then under drawn faults (`chaos`)
//! - [`control`]: all of it over HTTPS, for operators in any language

mod activity;
mod answering;
mod authority;
pub mod builder;
mod chaos;
pub mod cluster;
pub mod control;
pub mod explore;
pub mod faults;
mod fork;
pub mod loops;
pub mod network;
pub mod outside;
mod parallel;
mod processes;
pub mod raw;
mod reviewers;
pub mod scenario;
pub mod settle;
pub mod snapshot;
pub mod sweep;

pub use builder::Builder;
pub use cluster::Cluster;
pub use explore::{explore, try_explore};
pub use faults::Faults;
pub use outside::{Lie, Webhook};
pub use pintle_apiserver::Pace;
pub use raw::Answer;
pub use scenario::Scenario;
pub use snapshot::Snapshot;
pub use sweep::Swept;

/// What `docs/` teaches, so that its code is compiled and run: this crate sees both the framework and the kit.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../../docs/testing.md")]
    struct Testing;
    #[doc = include_str!("../../../docs/coming-from-kube-rs.md")]
    struct ComingFromKubeRs;
    #[doc = include_str!("../../../docs/coming-from-controller-runtime.md")]
    struct ComingFromControllerRuntime;
    #[doc = include_str!("../../../docs/guide/01-control-loop.md")]
    struct TheControlLoop;
    #[doc = include_str!("../../../docs/guide/02-informers.md")]
    struct Informers;
    #[doc = include_str!("../../../docs/guide/03-queues.md")]
    struct Queues;
    #[doc = include_str!("../../../docs/guide/04-triggers.md")]
    struct Triggers;
    #[doc = include_str!("../../../docs/guide/05-conflicts.md")]
    struct Conflicts;
    #[doc = include_str!("../../../docs/guide/06-status.md")]
    struct ConditionsAndStatus;
    #[doc = include_str!("../../../docs/guide/07-finalizers.md")]
    struct Finalizers;
    #[doc = include_str!("../../../docs/guide/08-owners.md")]
    struct OwnersAndGarbage;
    #[doc = include_str!("../../../docs/guide/09-testing.md")]
    struct SweepAndExplore;
    #[doc = include_str!("../../../docs/guide/10-running.md")]
    struct RunningIt;
    #[doc = include_str!("../../../docs/guide/11-custom-api-server.md")]
    struct CustomApiServer;
    #[doc = include_str!("../../../docs/guide/12-admission-webhooks.md")]
    struct AdmissionWebhooks;
    #[doc = include_str!("../../../docs/guide/13-conversion-webhooks.md")]
    struct ConversionWebhooks;
    #[doc = include_str!("../../../docs/guide/14-authentication-webhooks.md")]
    struct AuthenticationWebhooks;
    #[doc = include_str!("../../../docs/guide/15-authorization-webhooks.md")]
    struct AuthorizationWebhooks;
}
