//! Which containers to start, to stop, or to let wait.

use std::time::Duration;

use jiff::Timestamp;
use pintle_container::{Container, ProbeKind, State};

use super::backoff::{RestartBackoff, after, written};
use super::slots::{Role, Slot};
use super::{Action, FailedPull, Hook, Input, Pull, restart_all};
use crate::probes::Verdicts;
use crate::resize::Held;

/// How long a failed pull is shown as such before it is shown as waiting.
const FRESH_FAILURE: Duration = Duration::from_secs(1);

pub(super) const CRASH_LOOP: &str = "CrashLoopBackOff";
pub(super) const PULL_BACK_OFF: &str = "ImagePullBackOff";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It is as it should be, or it is not its turn.
    Leave,
    Start,
    /// It runs, and is to be held to other amounts.
    Resize,
    /// Not now; this is what its status says.
    Wait {
        reason: &'static str,
        message: String,
        until: Option<Timestamp>,
    },
    Stop {
        message: String,
        grace: Option<Duration>,
        /// Another run takes its place, whatever the restart policy says.
        replace: bool,
    },
}

impl Decision {
    pub(super) fn waits_for(&self, wanted: &str) -> bool {
        matches!(self, Decision::Wait { reason, .. } if *reason == wanted)
    }

    pub(super) fn until(&self) -> Option<Timestamp> {
        match self {
            Decision::Wait { until, .. } => *until,
            _ => None,
        }
    }
}

/// One decision a slot, in the slots' order.
pub(super) fn decide(input: &Input<'_>, slots: &[Slot<'_>]) -> Vec<Decision> {
    let sandbox = input.world.ready_sandbox().map(|sandbox| &sandbox.id);
    let initialized = slots.iter().any(|slot| slot.role == Role::Main && slot.latest_in(sandbox).is_some());
    // Whether those before have come far enough for the next one to start.
    let mut turn = true;
    let mut decisions = Vec::with_capacity(slots.len());
    for slot in slots {
        let skipped = slot.role == Role::Init && initialized;
        // They are there to see why the others do not come to their turn.
        let now = turn || (slot.role == Role::Ephemeral && sandbox.is_some());
        decisions.push(if now && !skipped { of_slot(input, slot) } else { Decision::Leave });
        let run = slot.latest_in(sandbox);
        turn &= match slot.role {
            Role::Main | Role::Ephemeral => true,
            _ if initialized => true,
            Role::Init => run.and_then(|run| run.exit_code()) == Some(0),
            Role::Sidecar => run.is_some_and(|run| is_started(input, slot, run)),
        };
    }
    decisions
}

/// Whether its hook has ended and its startup probe has succeeded, if it has them.
pub(super) fn is_started(input: &Input<'_>, slot: &Slot<'_>, run: &Container) -> bool {
    run.is_running()
        && !input.hooks.contains_key(&run.id)
        && (slot.spec.startup_probe.is_none() || input.verdicts.verdict(&run.id, ProbeKind::Startup) == Some(true))
}

fn is_stopping(input: &Input<'_>, run: &Container) -> bool {
    run.stopping || input.asked.contains_key(&run.id)
}

fn of_slot(input: &Input<'_>, slot: &Slot<'_>) -> Decision {
    let sandbox = input.world.ready_sandbox().map(|sandbox| &sandbox.id);
    match slot.latest() {
        // Made, and never started: the agent ended in between, or the runtime could not start it and left it as it was.
        Some(run) if run.state == State::Created => match slot.latest_in(sandbox) {
            Some(_) => refused(input, slot).unwrap_or(Decision::Start),
            None => start(input, slot),
        },
        Some(run) if input.hooks.get(&run.id) == Some(&Hook::Failed) && run.is_running() => {
            match is_stopping(input, run) {
                true => Decision::Leave,
                false => Decision::Stop { message: "FailedPostStartHook".to_owned(), grace: None, replace: false },
            }
        }
        Some(run) if run.is_alive() && slot.has_other_image() => match is_stopping(input, run) {
            true => Decision::Leave,
            false => Decision::Stop {
                message: format!("{} definition changed, will be restarted", named(slot)),
                grace: None,
                replace: true,
            },
        },
        Some(run) if run.is_alive() => match failed_probe(input.verdicts, slot, run) {
            Some(kind) if !is_stopping(input, run) => {
                let (name, probe) = match kind {
                    ProbeKind::Startup => ("startup", &slot.spec.startup_probe),
                    _ => ("liveness", &slot.spec.liveness_probe),
                };
                let after = if slot.restarts_on_failure(input.spec) { ", will be restarted" } else { "" };
                let seconds = probe.as_ref().and_then(|probe| probe.termination_grace_period_seconds);
                Decision::Stop {
                    message: format!("{} failed {name} probe{after}", named(slot)),
                    replace: false,
                    grace: seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs),
                }
            }
            _ => resized(input, slot, run),
        },
        // An init container runs again in a new sandbox, however it ended in the old one.
        _ if slot.role == Role::Init && slot.latest_in(sandbox).is_none() => start(input, slot),
        None if slot.role == Role::Main && restart_all::begun(input) => start(input, slot),
        _ => match slot.exit_code() {
            Some(code) if !slot.should_restart(input.spec, code) => Decision::Leave,
            _ => start(input, slot),
        },
    }
}

fn named(slot: &Slot<'_>) -> String {
    let who = if slot.role == Role::Main { "Container" } else { "Init container" };
    format!("{who} {}", slot.spec.name)
}

fn resized(input: &Input<'_>, slot: &Slot<'_>, run: &Container) -> Decision {
    let held_off = input.resizing.failure.as_ref().is_some_and(|failure| input.now < failure.until);
    if held_off || slot.role == Role::Ephemeral || !run.is_running() || is_stopping(input, run) {
        return Decision::Leave;
    }
    match input.resizing.compare(&run.id, slot.spec, slot.old) {
        Held::Right => Decision::Leave,
        Held::Wrong { restart: true } => {
            let message = format!("Container {} resize requires restart", slot.spec.name);
            Decision::Stop { message, grace: None, replace: false }
        }
        Held::Unknown | Held::Wrong { restart: false } => Decision::Resize,
    }
}

/// Whether a container that runs is not held to what it was given.
pub(super) fn is_resizing(input: &Input<'_>, slots: &[Slot<'_>]) -> bool {
    slots.iter().filter(|slot| slot.role != Role::Ephemeral).any(|slot| {
        let run = slot.latest().filter(|run| run.is_alive());
        run.is_some_and(|run| matches!(input.resizing.compare(&run.id, slot.spec, slot.old), Held::Wrong { .. }))
    })
}

fn failed_probe(verdicts: &dyn Verdicts, slot: &Slot<'_>, run: &Container) -> Option<ProbeKind> {
    let failed = |kind| verdicts.verdict(&run.id, kind) == Some(false);
    let startup = slot.spec.startup_probe.as_ref().filter(|_| failed(ProbeKind::Startup)).map(|_| ProbeKind::Startup);
    let liveness = || slot.spec.liveness_probe.as_ref().filter(|_| failed(ProbeKind::Liveness));
    startup.or_else(|| liveness().map(|_| ProbeKind::Liveness))
}

/// The wait after a container could not be made or started.
fn refused(input: &Input<'_>, slot: &Slot<'_>) -> Option<Decision> {
    let refusal = input.refusals.get(&slot.spec.name).filter(|refusal| input.now < refusal.until)?;
    let (reason, message) = (refusal.reason, refusal.message.clone());
    Some(Decision::Wait { reason, message, until: Some(refusal.until) })
}

fn start(input: &Input<'_>, slot: &Slot<'_>) -> Decision {
    let name = &slot.spec.name;
    if let Some(wait) = refused(input, slot) {
        return wait;
    }
    match input.pulls.get(name) {
        Some(Pull::Going) => return Decision::Leave,
        // What became of another image says nothing about this one.
        Some(Pull::Failed(FailedPull { image, .. }) | Pull::Refused { image, .. })
            if slot.spec.image.as_ref().is_some_and(|wanted| wanted != image) => {}
        Some(Pull::Failed(failed)) => {
            let FailedPull { image, message, failed_at, .. } = failed;
            let (retry_at, shown_until) = (failed.retry_at(), after(*failed_at, FRESH_FAILURE));
            if input.now < shown_until {
                let message = message.clone();
                return Decision::Wait { reason: "ErrImagePull", message, until: Some(shown_until) };
            }
            if input.now < retry_at {
                let message = format!("Back-off pulling image {image:?}: ErrImagePull: {message}");
                return Decision::Wait { reason: PULL_BACK_OFF, message, until: Some(retry_at) };
            }
        }
        Some(Pull::Refused { reason, message, retry_at, .. }) if input.now < *retry_at => {
            return Decision::Wait { reason, message: message.clone(), until: Some(*retry_at) };
        }
        Some(Pull::Refused { .. } | Pull::Done(_)) | None => {}
    }
    let backoff = slot.backoff(input.backoffs);
    let ended_at = slot.latest().and_then(|run| run.finished_at());
    let until = ended_at
        .filter(|_| !slot.has_other_image())
        .and_then(|ended_at| RestartBackoff::until(backoff.as_ref(), ended_at, input.now));
    match (until, backoff) {
        (Some(until), Some(backoff)) => Decision::Wait {
            reason: CRASH_LOOP,
            message: format!(
                "back-off {} restarting failed container={name} pod={}",
                written(backoff.wait),
                crate::pods::described(input.pod)
            ),
            until: Some(until),
        },
        _ => Decision::Start,
    }
}

/// The steps that the decisions ask for, and the runs that no one will ask about again.
pub(super) fn actions(input: &Input<'_>, slots: &[Slot<'_>], decisions: &[Decision]) -> Vec<Action> {
    let mut actions = Vec::new();
    let starts = decisions.contains(&Decision::Start);
    if starts && input.world.ready_sandbox().is_none() {
        let attempt = input.world.sandboxes.last().map_or(0, |sandbox| sandbox.attempt + 1);
        // The old one gives its address and its ports back first.
        let old = input.world.changed_sandbox().map(|sandbox| Action::StopSandbox(sandbox.id.clone()));
        // Whose turn it is looks different with a sandbox: start nothing before.
        return old.into_iter().chain([Action::RunSandbox { attempt }]).collect();
    }
    let default_grace = grace_of(input);
    let mut resized = Vec::new();
    for (slot, decision) in slots.iter().zip(decisions) {
        match decision {
            Decision::Leave | Decision::Wait { .. } => {}
            Decision::Resize => {
                let run = slot.latest().map(|run| (run.id.clone(), slot.spec.name.clone()));
                resized.extend(run);
            }
            Decision::Start => {
                let ended_at = slot.latest().and_then(|run| run.finished_at());
                let old = slot.backoff(input.backoffs);
                let sandbox = input.world.ready_sandbox().map(|sandbox| &sandbox.id);
                let made = slot.latest_in(sandbox).filter(|run| run.state == State::Created);
                actions.push(Action::Start {
                    container: slot.spec.name.clone(),
                    attempt: made.map_or_else(|| slot.next_attempt(), |made| made.attempt),
                    made: made.map(|made| made.id.clone()),
                    backoff: ended_at.map(|ended_at| RestartBackoff::next(old.as_ref(), ended_at, input.now)),
                });
            }
            Decision::Stop { message, grace, replace } => actions.extend(slot.latest().map(|run| Action::Stop {
                id: run.id.clone(),
                container: slot.spec.name.clone(),
                grace: grace.unwrap_or(default_grace),
                message: message.clone(),
                replace: *replace,
            })),
        }
        let old_enough = |run: &&&Container| {
            let age = Duration::try_from(input.now.duration_since(run.created_at)).unwrap_or_default();
            !run.is_alive() && age >= input.dead.container_minimum_age
        };
        let dead: Vec<_> = slot.runs.iter().filter(old_enough).collect();
        let superseded = dead.len().saturating_sub(input.dead.dead_per_container);
        // The latest stays in any case: its status and the number of the next run come from it.
        let latest = slot.latest().map(|run| &run.id);
        let gone = dead[..superseded].iter().filter(|run| Some(&run.id) != latest);
        actions.extend(gone.map(|run| Action::Remove(run.id.clone())));
    }
    actions.extend((!resized.is_empty()).then_some(Action::Resize(resized)));
    actions
}

/// How long containers of this Pod may take to end.
pub(super) fn grace_of(input: &Input<'_>) -> Duration {
    let deleted = input.pod.metadata.deletion_grace_period_seconds;
    let seconds = deleted.or(input.spec.termination_grace_period_seconds);
    let own = Duration::from_secs(seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(30));
    let grace =
        input.evicted.map_or(own, |evicted| if deleted.is_some() { evicted.grace.min(own) } else { evicted.grace });
    // Even a Pod deleted with no grace gets a moment: the API server has already let its name go.
    grace.max(Duration::from_secs(1))
}
