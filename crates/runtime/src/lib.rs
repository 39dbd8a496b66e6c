//! The framework for people who write controllers, against any Kubernetes.
//!
//! A loop watches kinds through shared informers, turns changes into keys, and reconciles one key at a time:
//!
//! ```no_run
//! use std::time::Duration;
//! use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
//! use pintle_runtime::{Action, Attempt, Context, Controller, Error, Informer, Key, Reconciler, when};
//!
//! struct CountPods { pods: Informer<Pod> }
//!
//! impl Reconciler for CountPods {
//!     async fn reconcile(&self, key: &Key, attempt: &Attempt) -> Result<Action, Error> {
//!         let pods = self.pods.in_namespace(key.namespace()).len();
//!         tracing::info!(pods, because = %attempt.causes, "counted");
//!         Ok(Action::requeue_after(Duration::from_secs(60)))
//!     }
//! }
//!
//! async fn run(context: Context) {
//!     Controller::new("count-pods", &context)
//!         .for_each::<ReplicaSet>(when::spec)
//!         .owns::<Pod>(when::anything)
//!         .workers(2)
//!         .run(CountPods { pods: context.informers.of() })
//!         .await;
//! }
//! ```
//!
//! Every `select!` in here is biased, and nothing waits on a `tokio::sync::watch`: both draw at random which task goes
//! first, and the same seed must give the same run.
//!
//! # Layout
//!
//! In the order in which a change walks them:
//!
//! - [`context`]: what a loop is given: client, clock, chance, informers, recorder, shutdown
//! - [`shutdown`]: how a loop is told to stop; `moment`: what is waited for
//! - [`reflector`]: lists and watches one kind, for ever
//! - [`informer`]: store, indexes and handlers over one reflector; one watch per kind
//! - [`key`]: the identity that queues carry
//! - [`backoff`], [`queue`]: keys that wait to be worked on
//! - [`controller`]: workers that reconcile keys; [`board`]: what they have to do
//! - [`cause`], [`attempt`]: why a reconcile runs, and what it is given
//! - [`trace`]: reconciles as spans of W3C traces
//! - [`error`]: what can go wrong in a reconcile
//! - [`plan`]: what a reconcile decided, as data; [`executor`]: carrying it out; [`claim`]: adopting and releasing
//! - [`objects`]: single objects on the server; [`owner`], [`conditions`], [`finalizer`], [`status`], [`write`], [`discovery`]: what reconcilers are made of
//! - [`machine`]: objects that go through phases
//! - [`storage`]: claims and the volumes that fit them
//! - [`events`]: what people read afterwards
//! - [`leader`]: of several processes that run the same loop, one acts
//! - [`manager`]: a process full of loops, from its first list to its last reconcile
//! - [`serve`]: health and metrics for those who watch the process; [`webhook`]: admission, conversion, tokens and access, with certificates of its own

pub mod context;
mod moment;
pub mod shutdown;

pub mod reflector;

pub mod informer;

pub mod key;

pub mod backoff;
pub mod queue;

pub mod attempt;
pub mod board;
pub mod cause;
pub mod controller;
pub mod error;
pub mod trace;

pub mod claim;
pub mod conditions;
pub mod discovery;
pub mod executor;
pub mod finalizer;
pub mod objects;
pub mod owner;
pub mod plan;
pub mod status;
pub mod write;

pub mod machine;

pub mod storage;

pub mod events;

pub mod leader;

pub mod manager;

pub mod accept;
pub mod serve;
pub mod webhook;

#[cfg(test)]
mod testing;

pub use attempt::Attempt;
pub use backoff::Backoff;
pub use board::Board;
pub use cause::{Cause, Causes};
pub use context::Context;
pub use controller::{Action, Controller, OnError, Reconciler, Waker, when};
pub use error::{ApiError, Error};
pub use events::Recorder;
pub use executor::{Executor, Failed};
pub use finalizer::{Finalizer, Guard, Held};
pub use informer::{Change, Informer, Informers, Registration, Retention};
pub use key::Key;
pub use leader::{LeaderConfig, Leadership, lead};
pub use manager::Manager;
pub use objects::Objects;
pub use pintle_kinds::{Codec, Kind};
pub use pintle_meta::{Clock, Random};
pub use plan::{Plan, Write};
pub use queue::{Class, Queue};
pub use reflector::Selection;
pub use shutdown::{Shutdown, Trigger};
pub use status::Status;
