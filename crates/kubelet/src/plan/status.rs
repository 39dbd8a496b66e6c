//! The status to write: containers' states, phase, addresses and times.

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, HostIP,
    PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pintle_container::{Container, ProbeKind, State};

use super::decide::{Decision, is_started};
use super::slots::{Role, Slot};
use super::{Ending, Hook, Input, conditions, phase, restart_all};

/// The code that stands for an end that no one saw.
const UNSEEN: i32 = 137;

pub(super) fn status(
    input: &Input<'_>,
    slots: &[Slot<'_>],
    decisions: &[Decision],
    ending: Option<Ending>,
) -> PodStatus {
    let old = input.status;
    if was_refused(input) {
        return old.clone();
    }
    let has_init = slots.iter().any(|slot| matches!(slot.role, Role::Init | Role::Sidecar));
    let statuses: Vec<ContainerStatus> =
        slots.iter().zip(decisions).map(|(slot, decision)| of_slot(input, slot, decision, has_init, ending)).collect();
    let initialized = slots.iter().any(|slot| slot.role == Role::Main && slot.latest().is_some());
    let of_slots = slots.iter().zip(&statuses);
    let mut status = PodStatus {
        start_time: old.start_time.clone().or(Some(Time(input.now))),
        qos_class: old.qos_class.clone(),
        reason: old.reason.clone(),
        message: old.message.clone(),
        nominated_node_name: old.nominated_node_name.clone(),
        resource_claim_statuses: old.resource_claim_statuses.clone(),
        observed_generation: input.pod.metadata.generation,
        ..PodStatus::default()
    };
    status.phase = Some(match ending {
        // What ended stays ended: its containers may be gone by now.
        Some(Ending::Finished) => old.phase.clone().unwrap_or_default(),
        Some(Ending::DeadlineExceeded) => "Failed".to_owned(),
        // What it gives back is free only when nothing of it runs any more.
        Some(Ending::Evicted) if input.world.nothing_runs() => "Failed".to_owned(),
        Some(Ending::Evicted) => old.phase.clone().unwrap_or_else(|| "Pending".to_owned()),
        // What ended only ended for the others to begin anew with it.
        None if restart_all::is_going(input, slots) && old.phase.is_some() => old.phase.clone().unwrap_or_default(),
        _ if phase::is_terminal(old.phase.as_deref()) => old.phase.clone().unwrap_or_default(),
        _ => phase::phase(input.spec, of_slots, ending.is_some(), initialized).to_owned(),
    });
    if ending == Some(Ending::DeadlineExceeded) {
        status.reason = Some("DeadlineExceeded".to_owned());
        status.message = Some("Pod was active on the node longer than the specified deadline".to_owned());
    }
    set_addresses(input, &mut status);
    let split = slots.iter().take_while(|slot| matches!(slot.role, Role::Init | Role::Sidecar)).count();
    let (init, rest) = statuses.split_at(split);
    let (main, ephemeral) = rest.split_at(input.spec.containers.len().min(rest.len()));
    status.ephemeral_container_statuses = (!ephemeral.is_empty()).then(|| ephemeral.to_vec());
    status.init_container_statuses = (!init.is_empty()).then(|| init.to_vec());
    status.container_statuses = Some(main.to_vec());
    if ending == Some(Ending::Finished) && old.container_statuses.is_none() && input.world.containers.is_empty() {
        // It was refused before any of them came into being.
        (status.init_container_statuses, status.container_statuses) = (None, None);
    }
    status.conditions =
        Some(conditions::conditions(input, slots, &statuses, status.phase.as_deref(), ending.is_none()));
    if let Some(evicted) = input.evicted.filter(|_| ending == Some(Ending::Evicted) && input.world.nothing_runs()) {
        status.reason = Some(evicted.reason.to_owned());
        status.message = Some(evicted.message.clone());
        conditions::tell_eviction(input, evicted, &mut status);
    }
    status
}

/// A Pod that the node did not take on has nothing to tell but that.
fn was_refused(input: &Input<'_>) -> bool {
    let old = input.status;
    phase::is_terminal(old.phase.as_deref()) && old.container_statuses.is_none() && input.world.sandboxes.is_empty()
}

/// The last word on a Pod of which nothing is left: what was not seen to end is said to have ended.
pub(super) fn close(input: &Input<'_>, status: &mut PodStatus) {
    let statuses = status.init_container_statuses.iter_mut().chain(&mut status.container_statuses).flatten();
    for container in statuses {
        container.ready = false;
        container.started = Some(false);
        let ended = container.state.as_ref().is_some_and(|state| state.terminated.is_some());
        if !ended {
            let message = "The container could not be located when the pod was terminated";
            container.state = Some(unseen_end(message));
        }
    }
    if !phase::is_terminal(status.phase.as_deref()) {
        let ends = status.container_statuses.iter().flatten().filter_map(|status| status.state.as_ref());
        let well = ends.filter_map(|state| state.terminated.as_ref()).all(|end| end.exit_code == 0);
        status.phase = Some(if well { "Succeeded" } else { "Failed" }.to_owned());
    }
    conditions::close(input, status);
}

fn of_slot(
    input: &Input<'_>,
    slot: &Slot<'_>,
    decision: &Decision,
    has_init: bool,
    ending: Option<Ending>,
) -> ContainerStatus {
    let Some(run) = slot.latest() else { return of_unstarted(input, slot, decision, has_init) };
    let started = is_started(input, slot, run);
    let ready = match slot.role {
        Role::Init => run.exit_code() == Some(0),
        _ => {
            let unprobed = slot.spec.readiness_probe.is_none();
            started && ending.is_none_or(|ending| ending == Ending::Deleted) && (unprobed || is_ready(input, run))
        }
    };
    let before = slot.runs.len().checked_sub(2).and_then(|index| slot.runs.get(index));
    let remembered = || {
        // The run before was removed, or ended before the runtime was restarted.
        let same = slot.old.filter(|old| old.restart_count == count(run));
        same.and_then(|old| old.last_state.clone()).or_else(|| lost_end(slot))
    };
    let last_state = before.map_or_else(remembered, |run| Some(ended_state(input, run)));
    let held = input.resizing.held_by(&run.id, slot.old).filter(|_| run.is_running());
    let ended = matches!(run.state, State::Exited { .. } | State::Unknown);
    let (state, last_state) = match (&run.state, decision) {
        (_, Decision::Wait { reason, message, .. }) if ended => {
            (waiting(reason, message), Some(ended_state(input, run)))
        }
        (State::Created, Decision::Wait { reason, message, .. }) => (waiting(reason, message), last_state),
        // What is to run after the start belongs to the start.
        (State::Running { .. }, _) if input.hooks.get(&run.id) == Some(&Hook::Going) => {
            (waiting("ContainerCreating", ""), last_state)
        }
        (State::Created | State::Starting, _) => (waiting("ContainerCreating", ""), last_state),
        (State::Running { started_at }, _) => {
            let running = ContainerStateRunning { started_at: Some(Time(*started_at)) };
            (ContainerState { running: Some(running), ..ContainerState::default() }, last_state)
        }
        (State::Exited { .. } | State::Unknown, _) => (ended_state(input, run), last_state),
    };
    ContainerStatus {
        name: slot.spec.name.clone(),
        image: run.image.clone(),
        image_id: run.image_id.clone(),
        container_id: Some(format!("{}://{}", input.runtime_name, run.id)),
        restart_count: count(run),
        ready,
        started: Some(started),
        state: Some(state),
        last_state: Some(last_state.unwrap_or_default()),
        resources: held.or(slot.spec.resources.as_ref()).cloned(),
        allocated_resources: slot.spec.resources.as_ref().and_then(|resources| resources.requests.clone()),
        ..ContainerStatus::default()
    }
}

/// A container of which the runtime knows nothing: not begun yet, or lost with the runtime.
fn of_unstarted(input: &Input<'_>, slot: &Slot<'_>, decision: &Decision, has_init: bool) -> ContainerStatus {
    if let Some(old) = slot.old
        && old.state.as_ref().is_some_and(|state| state.terminated.is_some())
        && *decision == Decision::Leave
    {
        return old.clone();
    }
    let state = match decision {
        Decision::Wait { reason, message, .. } => waiting(reason, message),
        _ if has_init => waiting("PodInitializing", ""),
        _ => waiting("ContainerCreating", ""),
    };
    let was_running = slot.old.and_then(|old| old.state.as_ref()).is_some_and(|state| state.running.is_some());
    let deleting = input.pod.metadata.deletion_timestamp.is_some();
    ContainerStatus {
        name: slot.spec.name.clone(),
        image: slot.spec.image.clone().unwrap_or_default(),
        restart_count: slot.old.map_or(0, |old| old.restart_count) + i32::from(was_running && !deleting),
        started: Some(false),
        state: Some(state),
        last_state: lost_end(slot).or_else(|| slot.old?.last_state.clone()).or_else(|| Some(ContainerState::default())),
        ..ContainerStatus::default()
    }
}

/// The end of the run that was last heard of, if the runtime knows nothing of it.
fn lost_end(slot: &Slot<'_>) -> Option<ContainerState> {
    let old = slot.old?;
    let is_known = |id: &String| slot.runs.iter().any(|run| id.ends_with(&run.id.0));
    if old.container_id.as_ref().is_some_and(is_known) {
        return None;
    }
    let state = old.state.as_ref()?;
    let message = "The container could not be located when the pod was deleted.  The container used to be Running";
    let unseen = state.running.as_ref().map(|_| unseen_end(message));
    state.terminated.as_ref().map(|_| state.clone()).or(unseen)
}

fn is_ready(input: &Input<'_>, run: &Container) -> bool {
    input.verdicts.verdict(&run.id, ProbeKind::Readiness) == Some(true)
}

fn count(run: &Container) -> i32 {
    i32::try_from(run.attempt).unwrap_or(i32::MAX)
}

fn waiting(reason: &str, message: &str) -> ContainerState {
    let message = Some(message.to_owned()).filter(|message| !message.is_empty());
    let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

fn ended_state(input: &Input<'_>, run: &Container) -> ContainerState {
    let State::Exited { started_at, finished_at, exit_code, reason, message } = &run.state else {
        return unseen_end("The container's state is unknown");
    };
    let end = ContainerStateTerminated {
        container_id: Some(format!("{}://{}", input.runtime_name, run.id)),
        exit_code: *exit_code,
        started_at: started_at.map(Time),
        finished_at: Some(Time(*finished_at)),
        reason: Some(reason.clone()),
        message: Some(message.clone()).filter(|message| !message.is_empty()),
        ..ContainerStateTerminated::default()
    };
    ContainerState { terminated: Some(end), ..ContainerState::default() }
}

fn unseen_end(message: &str) -> ContainerState {
    let end = ContainerStateTerminated {
        exit_code: UNSEEN,
        reason: Some("ContainerStatusUnknown".to_owned()),
        message: Some(message.to_owned()),
        ..ContainerStateTerminated::default()
    };
    ContainerState { terminated: Some(end), ..ContainerState::default() }
}

fn set_addresses(input: &Input<'_>, status: &mut PodStatus) {
    let host = input.host_address.to_string();
    status.host_ips = Some(vec![HostIP { ip: host.clone() }]);
    status.host_ip = Some(host.clone());
    let on_host = input.spec.host_network == Some(true);
    let addresses: Vec<String> = match input.world.sandboxes.last() {
        Some(_) if on_host => vec![host],
        Some(sandbox) => sandbox.addresses.iter().map(ToString::to_string).collect(),
        None => input.status.pod_ips.iter().flatten().map(|address| address.ip.clone()).collect(),
    };
    status.pod_ip = addresses.first().cloned();
    status.pod_ips = (!addresses.is_empty()).then(|| addresses.into_iter().map(|ip| PodIP { ip }).collect());
}
