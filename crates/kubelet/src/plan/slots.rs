//! A Pod's containers, each with its role, its runs and what was last said of it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container as Spec, ContainerStatus, PodSpec};
use pintle_container::{Container, SandboxId};

use super::backoff::RestartBackoff;
use super::{Input, policy};

/// What a container is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Must end well before the next one starts.
    Init,
    /// Must have started before the next one starts, and runs as long as the Pod.
    Sidecar,
    Main,
    /// Started once, beside the others; what becomes of it changes nothing for the Pod.
    Ephemeral,
}

#[derive(Debug)]
pub(super) struct Slot<'a> {
    pub(super) spec: &'a Spec,
    pub(super) role: Role,
    /// Oldest first.
    pub(super) runs: Vec<&'a Container>,
    pub(super) old: Option<&'a ContainerStatus>,
    /// The latest run was stopped for another to take its place, whatever the restart policy says.
    pub(super) replaced: bool,
    /// The number of the last run that was removed for all containers to be restarted.
    pub(super) forgotten: Option<u32>,
}

impl<'a> Slot<'a> {
    pub(super) fn latest(&self) -> Option<&'a Container> {
        self.runs.last().copied()
    }

    /// The latest run, if it was in this sandbox.
    pub(super) fn latest_in(&self, sandbox: Option<&SandboxId>) -> Option<&'a Container> {
        self.latest().filter(|run| Some(&run.sandbox) == sandbox)
    }

    /// The number of the run that comes next.
    pub(super) fn next_attempt(&self) -> u32 {
        let told = self.old.map_or(0, |old| {
            let state = old.state.as_ref();
            let ran = state.is_some_and(|state| state.running.is_some() || state.terminated.is_some());
            u32::try_from(old.restart_count).unwrap_or(0) + u32::from(ran)
        });
        let forgotten = self.forgotten.map_or(0, |attempt| attempt + 1);
        self.latest().map_or(told.max(forgotten), |run| run.attempt + 1)
    }

    /// The code with which it ended, as far as anyone remembers; nothing while it runs or if it never did.
    pub(super) fn exit_code(&self) -> Option<i32> {
        match self.latest() {
            Some(run) => run.exit_code(),
            None => self.old?.state.as_ref()?.terminated.as_ref().map(|end| end.exit_code),
        }
    }

    /// The backoff as remembered, or else as the last two runs tell it.
    pub(super) fn backoff(&self, remembered: &BTreeMap<String, RestartBackoff>) -> Option<RestartBackoff> {
        remembered.get(&self.spec.name).copied().or_else(|| {
            let [.., before, latest] = self.runs[..] else { return None };
            // One that could not be started was at least made.
            let began = latest.started_at().unwrap_or(latest.created_at);
            Some(RestartBackoff::recalled(before.finished_at()?, began))
        })
    }

    pub(super) fn should_restart(&self, spec: &PodSpec, exit_code: i32) -> bool {
        match self.role {
            Role::Sidecar => true,
            Role::Ephemeral => false,
            // One that ended well is never run again.
            Role::Init => exit_code != 0 && policy::should_restart(self.spec, spec, exit_code),
            Role::Main => self.replaced || policy::should_restart(self.spec, spec, exit_code),
        }
    }

    /// Whether a run that has not ended yet would be followed by another: rules need an exit code, so they do not count.
    pub(super) fn restarts_on_failure(&self, spec: &PodSpec) -> bool {
        let policy = self.spec.restart_policy.as_deref().or(spec.restart_policy.as_deref());
        self.role == Role::Sidecar || policy != Some("Never")
    }

    /// Whether the image of the latest run is another than the Pod names now.
    pub(super) fn has_other_image(&self) -> bool {
        let made_from = self.latest().and_then(|run| run.asked_image.as_ref());
        let wanted = self.spec.image.as_ref().filter(|_| matches!(self.role, Role::Main | Role::Sidecar));
        made_from.zip(wanted).is_some_and(|(made_from, wanted)| made_from != wanted)
    }
}

/// Init containers and sidecars in their order, then the main ones, then the ephemeral ones.
pub(super) fn slots<'a>(input: &Input<'a>) -> Vec<Slot<'a>> {
    let status = input.status;
    let init = input.spec.init_containers.iter().flatten().map(|spec| {
        let role = if spec.restart_policy.as_deref() == Some("Always") { Role::Sidecar } else { Role::Init };
        (spec, role, status.init_container_statuses.as_deref())
    });
    let main = input.spec.containers.iter().map(|spec| (spec, Role::Main, status.container_statuses.as_deref()));
    let beside = status.ephemeral_container_statuses.as_deref();
    let ephemeral = input.ephemeral.iter().map(|spec| (spec, Role::Ephemeral, beside));
    init.chain(main)
        .chain(ephemeral)
        .map(|(spec, role, old)| {
            let mut runs: Vec<&Container> = input.world.containers.iter().filter(|run| run.name == spec.name).collect();
            runs.sort_by_key(|run| run.attempt);
            let replaced = runs.last().is_some_and(|run| input.replaced.contains(&run.id));
            let forgotten = input.forgotten.get(&spec.name).copied();
            let old = old.into_iter().flatten().find(|old| old.name == spec.name);
            Slot { spec, role, runs, old, replaced, forgotten }
        })
        .collect()
}
