//! The one word that sums a Pod up.

use k8s_openapi::api::core::v1::{ContainerStatus, PodSpec};

use super::slots::{Role, Slot};

pub(crate) fn is_terminal(phase: Option<&str>) -> bool {
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// What the statuses of all containers, in the order of their roles, add up to.
///
/// `ending` says that nothing will be started again, whatever the restart policy; `initialized` that main containers
/// have run before.
pub(super) fn phase<'a>(
    spec: &PodSpec,
    statuses: impl Iterator<Item = (&'a Slot<'a>, &'a ContainerStatus)>,
    ending: bool,
    initialized: bool,
) -> &'static str {
    let mut count = Count::default();
    for (slot, status) in statuses {
        count.add(spec, slot, status);
    }
    if count.init_failed {
        return "Failed";
    }
    if count.init_pending || (count.sidecar_pending && !initialized) || count.waiting > 0 {
        return "Pending";
    }
    match (count.running, count.stopped) {
        (1.., _) => "Running",
        (0, 0) => "Pending",
        (0, stopped) if !ending && count.restarting > 0 && stopped > 0 => "Running",
        (0, stopped) if stopped == count.succeeded => "Succeeded",
        _ => "Failed",
    }
}

#[derive(Default)]
struct Count {
    init_pending: bool,
    init_failed: bool,
    sidecar_pending: bool,
    running: u32,
    waiting: u32,
    stopped: u32,
    restarting: u32,
    succeeded: u32,
}

impl Count {
    fn add(&mut self, spec: &PodSpec, slot: &Slot<'_>, status: &ContainerStatus) {
        let state = status.state.as_ref();
        let last_end = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        let running = state.is_some_and(|state| state.running.is_some());
        let end = state.and_then(|state| state.terminated.as_ref());
        // One that waits after an end counts as ended, or a crash loop would look as if it had never begun.
        let ended = end.or(last_end.filter(|_| !running));
        let restarts = |code| slot.should_restart(spec, code);
        match slot.role {
            Role::Init => match ended {
                Some(ended) if ended.exit_code == 0 => {}
                Some(ended) if !restarts(ended.exit_code) => self.init_failed = true,
                Some(_) => self.init_pending = true,
                None => self.init_pending = true,
            },
            Role::Sidecar if running => {
                self.running += 1;
                self.sidecar_pending |= status.started != Some(true);
            }
            Role::Sidecar if ended.is_some() => {}
            Role::Sidecar => {
                self.sidecar_pending = true;
                self.waiting += 1;
            }
            Role::Ephemeral => {}
            Role::Main if running => self.running += 1,
            Role::Main => match ended {
                Some(ended) => {
                    self.stopped += 1;
                    self.restarting += u32::from(restarts(ended.exit_code));
                    // Only an end that stands is a success.
                    self.succeeded += u32::from(end.is_some_and(|end| end.exit_code == 0));
                }
                None => self.waiting += 1,
            },
        }
    }
}
