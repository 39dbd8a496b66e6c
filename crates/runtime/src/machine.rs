//! Objects with phases: one handler for each phase, a path of its own for deletion, one Event and one log line per transition.
//!
//! - The phase is an enum that the status shows. [`Machine::handle`] is called with the phase the object is in and says
//!   what comes [`Next`]; it is a `match` with one arm per phase.
//! - A phase that is in progress is looked at again: when something changes, and at the latest after [`Machine::PATIENCE`]. A
//!   terminal phase is not.
//! - A transition is written to the status before anything of the next phase is done, guarded by the version that was read, and
//!   the next phase's handler runs right after. So a handler runs again after a crash, never for a phase that is over.
//! - The Event and the log line come after the write: they tell what happened.
//! - With a [`Machine::FINALIZER`] nothing is handled before the finalizer is on, and an object that is deleted goes through
//!   [`Machine::clean_up`] and through no phase.
//!
//! ```
//! # use std::time::Duration; use pintle_runtime::machine::{Machine, Next, Phase}; use pintle_runtime::{Attempt, Error, Held, Kind};
//! # use serde::{Deserialize, Serialize}; use schemars::JsonSchema;
//! # #[derive(kube::CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
//! # #[kube(group = "example.com", version = "v1", kind = "Backup", namespaced, status = "BackupStatus")]
//! # pub struct BackupSpec { source: String }
//! # #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
//! # pub struct BackupStatus { phase: Option<Stage> }
//! # impl Kind for Backup {}
//! # async fn start(_: &Backup) -> Result<(), Error> { Ok(()) }
//! # async fn is_copied(_: &Backup) -> Result<bool, Error> { Ok(true) }
//! #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
//! pub enum Stage { Copying, Done }
//!
//! impl Phase for Stage {
//!     fn name(self) -> &'static str { match self { Stage::Copying => "Copying", Stage::Done => "Done" } }
//!     fn is_terminal(self) -> bool { self == Stage::Done }
//! }
//!
//! struct Backups;
//!
//! impl Machine for Backups {
//!     type Object = Backup;
//!     type Phase = Stage;
//!     fn phase(status: &mut BackupStatus) -> &mut Option<Stage> { &mut status.phase }
//!
//!     async fn handle(&self, phase: Option<Stage>, backup: &Held<Backup>, _: &mut BackupStatus, _: &Attempt) -> Result<Next<Stage>, Error> {
//!         Ok(match phase {
//!             None => { start(backup).await?; Next::enter(Stage::Copying, "the copy was started") }
//!             Some(Stage::Copying) if is_copied(backup).await? => Next::enter(Stage::Done, "everything is copied"),
//!             Some(Stage::Copying) => Next::StayFor(Duration::from_secs(10)),
//!             Some(Stage::Done) => Next::Stay,
//!         })
//!     }
//! }
//! ```

use std::future::Future;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use kube::core::object::HasStatus;
use kube::{Resource, api::Api};
use pintle_kinds::Kind;
use serde::Serialize;

use crate::attempt::Attempt;
use crate::controller::{Action, Reconciler};
use crate::error::Error;
use crate::events::Recorder;
use crate::finalizer::{Finalizer, Guard, Held};
use crate::informer::Informer;
use crate::key::Key;
use crate::status::Status;

/// A phase in the life of an object.
pub trait Phase: Copy + Send + Sync + 'static {
    /// As Events, logs and people name it.
    fn name(self) -> &'static str;

    /// Whether nothing follows.
    fn is_terminal(self) -> bool;
}

/// What comes after a look at a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<P> {
    /// The phase goes on until something changes.
    Stay,
    /// The phase goes on; look again after this time.
    StayFor(Duration),
    /// The phase is over, and this is what happened.
    Enter { phase: P, message: String },
}

impl<P> Next<P> {
    pub fn enter(phase: P, message: impl Into<String>) -> Self {
        Next::Enter { phase, message: message.into() }
    }
}

/// A kind whose objects go through phases.
pub trait Machine: Send + Sync + 'static {
    type Object: Kind<DynamicType = ()>
        + HasStatus<Status: Clone + Default + PartialEq + Serialize + Send + Sync>
        + Resource<Scope = NamespaceResourceScope>;
    type Phase: Phase;

    /// Held while the object lives, if something must be cleaned up after it.
    const FINALIZER: Option<Finalizer> = None;

    /// How long a phase that is in progress is left alone at most.
    const PATIENCE: Duration = Duration::from_secs(300);

    /// Where the status keeps the phase.
    fn phase(status: &mut <Self::Object as HasStatus>::Status) -> &mut Option<Self::Phase>;

    /// One look at an object, whose finalizer is on if there is one: does what is due in its phase and says what comes next. What it writes into the status is written
    /// whatever the outcome.
    fn handle(
        &self,
        phase: Option<Self::Phase>,
        object: &Held<Self::Object>,
        status: &mut <Self::Object as HasStatus>::Status,
        attempt: &Attempt,
    ) -> impl Future<Output = Result<Next<Self::Phase>, Error>> + Send;

    /// The object is going: whatever must not outlive it goes first. Runs again until it succeeds.
    fn clean_up(&self, _object: &Self::Object, _attempt: &Attempt) -> impl Future<Output = Result<(), Error>> + Send {
        async { Ok(()) }
    }
}

/// The reconciler of a machine: pass it to [`Controller::run`](crate::Controller::run).
pub struct Phases<M: Machine> {
    machine: M,
    objects: Informer<M::Object>,
    recorder: Recorder,
}

impl<M: Machine> Phases<M> {
    pub fn new(machine: M, objects: Informer<M::Object>, recorder: Recorder) -> Self {
        Phases { machine, objects, recorder }
    }

    async fn live(&self, object: &Held<M::Object>, api: &Api<M::Object>, attempt: &Attempt) -> Result<Action, Error> {
        let mut status = Status::of(&**object);
        let before = *M::phase(&mut status);
        let next = self.machine.handle(before, object, &mut status, attempt).await;
        let entered = match &next {
            Ok(Next::Enter { phase, message }) => {
                *M::phase(&mut status) = Some(*phase);
                Some((phase.name(), message.clone()))
            }
            _ => None,
        };
        let next = status.leave(api, next).await?;
        if let Some((phase, message)) = entered {
            let from = before.map_or("", Phase::name);
            tracing::info!(from, to = phase, "{message}");
            self.recorder.normal(&**object, phase, message);
        }
        Ok(match next {
            Next::Enter { .. } => Action::requeue_after(Duration::ZERO),
            Next::StayFor(time) => Action::requeue_after(time),
            Next::Stay if before.is_some_and(Phase::is_terminal) => Action::done(),
            Next::Stay => Action::requeue_after(M::PATIENCE),
        })
    }
}

impl<M: Machine> Reconciler for Phases<M> {
    async fn reconcile(&self, key: &Key, attempt: &Attempt) -> Result<Action, Error> {
        let Some(object) = self.objects.get(key) else { return Ok(Action::done()) };
        let api: Api<M::Object> = attempt.api();
        let Some(finalizer) = M::FINALIZER else {
            return match object.meta().deletion_timestamp {
                Some(_) => Ok(Action::done()),
                None => self.live(&Held::without_finalizer(object), &api, attempt).await,
            };
        };
        match finalizer.guard(&api, &object).await? {
            Guard::Held(object) => self.live(&object, &api, attempt).await,
            Guard::Release(object) => {
                self.machine.clean_up(&object, attempt).await?;
                object.done().await?;
                tracing::info!("cleaned up; the object may go");
                Ok(Action::done())
            }
            Guard::Released => Ok(Action::done()),
        }
    }
}
