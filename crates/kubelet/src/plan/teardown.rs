//! How a Pod comes to its end: main containers first, then sidecars from the last to the first, then the sandbox.

use pintle_container::Container;

use super::decide::grace_of;
use super::slots::{Role, Slot};
use super::{Action, Input};

pub(super) fn actions(input: &Input<'_>, slots: &[Slot<'_>]) -> Vec<Action> {
    if input.world.nothing_runs() {
        return input
            .world
            .ready_sandbox()
            .map(|sandbox| Action::StopSandbox(sandbox.id.clone()))
            .into_iter()
            .collect();
    }
    let is_sidecar =
        |run: &Container| slots.iter().any(|slot| slot.role == Role::Sidecar && slot.spec.name == run.name);
    let alive = || input.world.containers.iter().filter(|run| run.has_process());
    let main: Vec<&Container> = alive().filter(|run| !is_sidecar(run)).collect();
    if !main.is_empty() {
        return main.into_iter().filter_map(|run| stop(input, run)).collect();
    }
    let last_sidecar = slots.iter().rev().filter_map(Slot::latest).find(|run| run.has_process());
    last_sidecar.and_then(|run| stop(input, run)).into_iter().collect()
}

/// Nothing if it was asked already with no more grace than now.
fn stop(input: &Input<'_>, run: &Container) -> Option<Action> {
    let grace = grace_of(input);
    let asked = input.asked.get(&run.id).is_some_and(|asked| *asked <= grace);
    (!asked).then(|| Action::Stop {
        id: run.id.clone(),
        container: run.name.clone(),
        grace,
        message: format!("Stopping container {}", run.name),
    })
}
