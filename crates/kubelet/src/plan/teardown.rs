//! How a Pod comes to its end: main containers first, then sidecars from the last to the first, then the sandbox.

use std::time::Duration;

use jiff::Timestamp;
use pintle_container::{Container, SandboxState};

use super::backoff::after;
use super::decide::grace_of;
use super::slots::{Role, Slot};
use super::{Action, Hooked, Input};

/// What a container gets that waited for its turn until nothing of its grace was left.
const LEAST: Duration = Duration::from_secs(2);

pub(super) fn actions(input: &Input<'_>, slots: &[Slot<'_>]) -> Vec<Action> {
    if input.world.nothing_runs() {
        let ready = input.world.sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready);
        return ready.map(|sandbox| Action::StopSandbox(sandbox.id.clone())).collect();
    }
    containers(input, slots)
}

/// What runs is asked to end. Sidecars wait for their turn, and what they wait is taken from their grace; their hooks do not wait.
pub(super) fn containers(input: &Input<'_>, slots: &[Slot<'_>]) -> Vec<Action> {
    let is_sidecar =
        |run: &Container| slots.iter().any(|slot| slot.role == Role::Sidecar && slot.spec.name == run.name);
    let alive = || input.world.containers.iter().filter(|run| run.has_process());
    let mut actions: Vec<Action> =
        alive().filter(|run| !is_sidecar(run)).filter_map(|run| stop(input, run, grace_of(input))).collect();
    let mut is_turn = !alive().any(|run| !is_sidecar(run));
    let left = grace_left(input);
    for slot in slots.iter().rev().filter(|slot| slot.role == Role::Sidecar) {
        let Some(run) = slot.latest().filter(|run| run.has_process()) else { continue };
        let has_hook = slot.spec.lifecycle.as_ref().is_some_and(|lifecycle| lifecycle.pre_stop.is_some());
        let hooked = input.hooked.get(&run.id);
        if left.is_zero() || (is_turn && hooked != Some(&Hooked::Going)) {
            actions.extend(stop(input, run, left.max(LEAST)));
        } else if has_hook && hooked.is_none() {
            let (id, container) = (run.id.clone(), run.name.clone());
            actions.push(Action::PreStop { id, container, grace: left });
        }
        is_turn = false;
    }
    actions
}

/// What is left of the grace of a container that waits for its turn.
fn grace_left(input: &Input<'_>) -> Duration {
    let since = input.ending_since.unwrap_or(input.now);
    let waited = Duration::try_from(input.now.duration_since(since)).unwrap_or_default();
    grace_of(input).saturating_sub(waited)
}

/// When no container waits for its turn any longer.
pub(super) fn turn_at(input: &Input<'_>) -> Timestamp {
    after(input.ending_since.unwrap_or(input.now), grace_of(input))
}

/// Nothing if it was asked already with no more grace than now.
fn stop(input: &Input<'_>, run: &Container, grace: Duration) -> Option<Action> {
    let asked = input.asked.get(&run.id).is_some_and(|asked| *asked <= grace);
    (!asked).then(|| Action::Stop {
        id: run.id.clone(),
        container: run.name.clone(),
        grace,
        message: format!("Stopping container {}", run.name),
        replace: false,
    })
}
