//! What to do for a Pod: its spec, what the runtime says and the time in; actions and the status to write out. No I/O.
//!
//! The plan is made anew each time and trusts nothing it decided before: a restarted node agent plans the same.

mod backoff;
mod conditions;
mod decide;
mod phase;
mod policy;
mod restart_all;
mod slots;
mod status;
mod teardown;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container as Spec, Pod, PodSpec, PodStatus};
use pintle_container::{Container, ContainerId, Sandbox, SandboxId, SandboxState};

pub(crate) use backoff::{RestartBackoff, after, pull_wait};
pub(crate) use phase::is_terminal;

use crate::collect::Collection;
use crate::probes::Verdicts;
use crate::resize::Resizing;
use decide::Decision;
use slots::Role;

/// How soon a Pod that is brought to its end is looked at again, if nothing is heard of it.
const STOP_AGAIN: Duration = Duration::from_secs(10);

/// Everything that a plan may know.
pub(crate) struct Input<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) spec: &'a PodSpec,
    /// Its ephemeral containers.
    pub(crate) ephemeral: &'a [Spec],
    /// The status as last written or read, whichever is newer.
    pub(crate) status: &'a PodStatus,
    pub(crate) world: &'a World,
    pub(crate) verdicts: &'a dyn Verdicts,
    /// Containers whose image is on its way or could not be had.
    pub(crate) pulls: &'a BTreeMap<String, Pull>,
    /// Containers that could not be made or started.
    pub(crate) refusals: &'a BTreeMap<String, Refusal>,
    pub(crate) backoffs: &'a BTreeMap<String, RestartBackoff>,
    /// Hooks that run after a start, or have failed.
    pub(crate) hooks: &'a BTreeMap<ContainerId, Hook>,
    /// The grace with which containers were asked to stop, while that goes on.
    pub(crate) asked: &'a BTreeMap<ContainerId, Duration>,
    /// When the Pod began to be brought to its end, if it is.
    pub(crate) ending_since: Option<Timestamp>,
    /// All containers were being restarted when this agent last looked.
    pub(crate) restarting_all: bool,
    /// By container, the number of the last run that was removed for all containers to be restarted.
    pub(crate) forgotten: &'a BTreeMap<String, u32>,
    /// Sidecars whose hooks run, or have run, before it is their turn to stop.
    pub(crate) hooked: &'a BTreeMap<ContainerId, Hooked>,
    /// Runs that were stopped for others to take their place.
    pub(crate) replaced: &'a BTreeSet<ContainerId>,
    /// The amounts that its containers are held to.
    pub(crate) resizing: &'a Resizing,
    /// That the node wants back what it gave to the Pod.
    pub(crate) evicted: Option<&'a Evicted>,
    /// How many dead runs a container keeps, and from which age on they go.
    pub(crate) dead: &'a Collection,
    pub(crate) host_address: IpAddr,
    /// What container identifiers begin with, as in `containerd://`.
    pub(crate) runtime_name: &'a str,
    pub(crate) now: Timestamp,
}

/// What the runtime has of the Pod.
#[derive(Debug, Default)]
pub(crate) struct World {
    /// Oldest first.
    pub(crate) sandboxes: Vec<Sandbox>,
    /// Oldest first.
    pub(crate) containers: Vec<Container>,
}

impl World {
    /// The sandbox that counts, if it can take containers.
    pub(crate) fn ready_sandbox(&self) -> Option<&Sandbox> {
        self.sandboxes.last().filter(|sandbox| sandbox.state == SandboxState::Ready)
    }

    /// The sandbox that must give way to another: it has died, or is one of several.
    pub(crate) fn changed_sandbox(&self) -> Option<&Sandbox> {
        let ready = self.sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready).count();
        self.sandboxes.last().filter(|last| last.state != SandboxState::Ready || ready > 1)
    }

    pub(crate) fn nothing_runs(&self) -> bool {
        !self.containers.iter().any(Container::has_process)
    }
}

/// Where the pull of a container's image stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pull {
    Going,
    Failed(FailedPull),
    /// It is not pulled at all: its name cannot be one, or its policy forbids it.
    Refused {
        reason: &'static str,
        image: String,
        message: String,
        retry_at: Timestamp,
    },
    /// It is there, with this digest, for the start that it was pulled for.
    Done(String),
}

/// A pull that failed, and for how long no other is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailedPull {
    pub(crate) image: String,
    pub(crate) message: String,
    pub(crate) failed_at: Timestamp,
    pub(crate) wait: Duration,
}

impl FailedPull {
    pub(crate) fn retry_at(&self) -> Timestamp {
        after(self.failed_at, self.wait)
    }
}

/// Where the hook that runs after a container's start stands; one that ended well is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    Going,
    Failed,
}

/// Where the hook that runs before a sidecar's turn to stop stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hooked {
    Going,
    Done,
}

/// Why a container could not be made or started, and until when its status says so and nothing is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) until: Timestamp,
}

/// That a Pod must leave its node, and what its owner is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Evicted {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) grace: Duration,
    /// What those are told who count how often their Pods are disturbed; nothing if it goes for what it did itself.
    pub(crate) disrupts: Option<String>,
}

/// One step towards what the spec says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    RunSandbox {
        attempt: u32,
    },
    /// `made` is a container that was made for it and never started.
    Start {
        container: String,
        attempt: u32,
        made: Option<ContainerId>,
        backoff: Option<RestartBackoff>,
    },
    Stop {
        id: ContainerId,
        container: String,
        grace: Duration,
        message: String,
        /// Another run takes its place, whatever the restart policy says.
        replace: bool,
    },
    /// Run what is to run before the container stops; it stops when its turn comes.
    PreStop {
        id: ContainerId,
        container: String,
        grace: Duration,
    },
    /// Hold these runs to what their containers were given.
    Resize(Vec<(ContainerId, String)>),
    Remove(ContainerId),
    /// Forget these runs: all containers are restarted for the sake of this one, which waits so long the next time.
    Reset {
        runs: Vec<ContainerId>,
        container: String,
        backoff: RestartBackoff,
    },
    StopSandbox(SandboxId),
}

/// What to do now, what to say, and when to look again.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) actions: Vec<Action>,
    pub(crate) status: PodStatus,
    /// Containers that wait before they are started again.
    pub(crate) backing_off: Vec<String>,
    /// Containers that wait before their image is pulled again.
    pub(crate) backing_off_pull: Vec<String>,
    pub(crate) wake_at: Option<Timestamp>,
    /// The Pod is being brought to its end.
    pub(crate) ends: bool,
    /// All containers are being restarted.
    pub(crate) restarting_all: bool,
    /// The Pod's sandbox gives way to another.
    pub(crate) replaces_sandbox: bool,
    /// A container is not held to what the Pod was given.
    pub(crate) resizing: bool,
    /// Nothing of it runs and nothing will: a Pod that is being deleted may go.
    pub(crate) gone: bool,
}

/// Why a Pod is being brought to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Deleted,
    Finished,
    Evicted,
    DeadlineExceeded,
}

pub(crate) fn plan(input: &Input<'_>) -> Plan {
    let slots = slots::slots(input);
    let ending = ending(input);
    let decisions = match ending {
        Some(_) => vec![Decision::Leave; slots.len()],
        None => decide::decide(input, &slots),
    };
    let mut status = status::status(input, &slots, &decisions, ending);
    restart_all::tell(input, ending.is_none() && restart_all::is_going(input, &slots), &mut status);
    let finished = phase::is_terminal(status.phase.as_deref());
    // Sidecars run until the others have ended for good.
    let mut main = slots.iter().filter(|slot| slot.role == Role::Main);
    let restarting_all = ending.is_none() && restart_all::is_going(input, &slots);
    let over =
        !restarting_all && main.all(|slot| slot.exit_code().is_some_and(|code| !slot.should_restart(input.spec, code)));
    if ending.is_none() && !finished && !over {
        let waiting_for = |reason: &str| {
            let waiting = slots.iter().zip(&decisions).filter(|(_, decision)| decision.waits_for(reason));
            waiting.map(|(slot, _)| slot.spec.name.clone()).collect()
        };
        let (backing_off, backing_off_pull) = (waiting_for(decide::CRASH_LOOP), waiting_for(decide::PULL_BACK_OFF));
        let (actions, later) = match (input.world.changed_sandbox(), restart_all::source(&slots)) {
            // Nothing starts in it any more, and what runs in it has no Pod around it.
            (Some(_), _) if !input.world.nothing_runs() => (teardown::containers(input, &slots), None),
            (None, Some(source)) => restart_all::actions(input, &slots, source),
            _ => (decide::actions(input, &slots, &decisions), None),
        };
        let wake_at = decisions.iter().filter_map(Decision::until).chain(deadline(input)).chain(later).min();
        let resizing = decide::is_resizing(input, &slots);
        let replaces_sandbox = input.world.changed_sandbox().is_some()
            && actions.iter().any(|action| matches!(action, Action::RunSandbox { .. } | Action::Stop { .. }));
        return Plan {
            actions,
            status,
            backing_off,
            backing_off_pull,
            wake_at,
            ends: false,
            restarting_all,
            replaces_sandbox,
            resizing,
            gone: false,
        };
    }
    let actions = teardown::actions(input, &slots);
    let gone = input.world.nothing_runs() && input.world.ready_sandbox().is_none();
    if gone && ending == Some(Ending::Deleted) {
        status::close(input, &mut status);
    }
    // A stop that the runtime gave up is asked for again.
    let turn = Some(teardown::turn_at(input)).filter(|at| *at > input.now);
    let wake_at = turn.into_iter().chain([backoff::after(input.now, STOP_AGAIN)]).min().filter(|_| !gone);
    Plan {
        actions,
        status,
        backing_off: Vec::new(),
        backing_off_pull: Vec::new(),
        wake_at,
        ends: true,
        restarting_all: false,
        replaces_sandbox: false,
        resizing: false,
        gone,
    }
}

fn ending(input: &Input<'_>) -> Option<Ending> {
    if input.pod.metadata.deletion_timestamp.is_some() {
        Some(Ending::Deleted)
    } else if phase::is_terminal(input.status.phase.as_deref()) {
        Some(Ending::Finished)
    } else if input.evicted.is_some() {
        Some(Ending::Evicted)
    } else if deadline(input).is_some_and(|deadline| deadline <= input.now) {
        Some(Ending::DeadlineExceeded)
    } else {
        None
    }
}

/// When the Pod has been active for as long as it may be.
fn deadline(input: &Input<'_>) -> Option<Timestamp> {
    let seconds = input.spec.active_deadline_seconds?;
    let started = input.status.start_time.as_ref().map_or(input.now, |time| time.0);
    started.checked_add(SignedDuration::from_secs(seconds)).ok()
}
