//! A Pod's conditions, in upstream's order and words.

use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pintle_runtime::conditions;

use super::decide::is_resizing;
use super::slots::{Role, Slot};
use super::{Evicted, Input};

/// The conditions that the node agent owns. Others in the status are someone else's and stay.
const OWN: [&str; 5] = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// The conditions that are there only while the Pod is given other amounts.
const RESIZE: [&str; 2] = ["PodResizePending", "PodResizeInProgress"];

struct Verdict {
    status: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl Verdict {
    const TRUE: Verdict = Verdict { status: true, reason: None, message: None };

    fn no(reason: &'static str) -> Self {
        Verdict { status: false, reason: Some(reason), message: None }
    }
}

pub(super) fn conditions(
    input: &Input<'_>,
    slots: &[Slot<'_>],
    statuses: &[ContainerStatus],
    phase: Option<&str>,
    goes_on: bool,
) -> Vec<PodCondition> {
    let with_sandbox = match input.world.ready_sandbox() {
        Some(_) => Verdict::TRUE,
        None => Verdict { status: false, reason: None, message: None },
    };
    let verdicts = [
        with_sandbox,
        initialized(slots, statuses, phase),
        ready(input, containers_ready(slots, statuses, phase)),
        containers_ready(slots, statuses, phase),
        Verdict::TRUE,
    ];
    let resize = if goes_on { resize(input, slots) } else { [None, None] };
    written(input, verdicts, resize)
}

/// Whether the node has no room for what the Pod asks for, and whether its containers are not yet held to what it was given.
fn resize(input: &Input<'_>, slots: &[Slot<'_>]) -> [Option<Verdict>; 2] {
    let pending = input.resizing.pending.as_ref().map(|pending| Verdict {
        status: true,
        reason: Some(pending.reason),
        message: Some(pending.message.clone()),
    });
    let failed = input.resizing.failure.as_ref().map(|failure| Verdict {
        status: true,
        reason: Some("Error"),
        message: Some(failure.message.clone()),
    });
    [pending, failed.or_else(|| is_resizing(input, slots).then_some(Verdict::TRUE))]
}

/// The conditions of a Pod of which nothing is left.
pub(super) fn close(input: &Input<'_>, status: &mut PodStatus) {
    let reason = if status.phase.as_deref() == Some("Succeeded") { "PodCompleted" } else { "PodFailed" };
    let present = status.conditions.take().unwrap_or_default();
    let kept = |kind: &str| match conditions::find(&present, kind) {
        Some(condition) if condition.status == "True" => Verdict::TRUE,
        Some(condition) => Verdict { status: false, reason: None, message: condition.message.clone() },
        None => Verdict { status: false, reason: None, message: None },
    };
    let none = Verdict { status: false, reason: None, message: None };
    let verdicts = [none, kept("Initialized"), Verdict::no(reason), Verdict::no(reason), Verdict::TRUE];
    status.conditions = Some(written(input, verdicts, [None, None]));
}

/// For those who count how often their Pods are disturbed.
pub(super) fn tell_eviction(input: &Input<'_>, evicted: &Evicted, status: &mut PodStatus) {
    let Some(message) = evicted.disrupts.clone() else { return };
    let condition = PodCondition {
        type_: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
        reason: Some("TerminationByKubelet".to_owned()),
        message: Some(message),
        observed_generation: input.pod.metadata.generation,
        last_transition_time: Some(Time(input.now)),
        last_probe_time: None,
    };
    conditions::set(status.conditions.get_or_insert_default(), condition);
}

fn written(input: &Input<'_>, verdicts: [Verdict; 5], resize: [Option<Verdict>; 2]) -> Vec<PodCondition> {
    let old = input.status.conditions.as_deref().unwrap_or_default();
    let is_own = |kind: &str| OWN.contains(&kind) || RESIZE.contains(&kind);
    let foreign = old.iter().filter(|condition| !is_own(&condition.type_)).cloned();
    let resize = RESIZE.into_iter().zip(resize).filter_map(|(kind, verdict)| Some((kind, verdict?)));
    let own = OWN.into_iter().zip(verdicts).chain(resize).map(|(kind, verdict)| {
        let status = if verdict.status { "True" } else { "False" };
        let before = conditions::find(old, kind).filter(|condition| condition.status == status);
        PodCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: verdict.reason.map(str::to_owned),
            message: verdict.message,
            observed_generation: input.pod.metadata.generation,
            last_transition_time: before
                .and_then(|condition| condition.last_transition_time.clone())
                .or(Some(Time(input.now))),
            last_probe_time: None,
        }
    });
    own.chain(foreign).collect()
}

fn initialized(slots: &[Slot<'_>], statuses: &[ContainerStatus], phase: Option<&str>) -> Verdict {
    if phase == Some("Succeeded") {
        return Verdict { reason: Some("PodCompleted"), ..Verdict::TRUE };
    }
    if slots.iter().any(|slot| slot.role == Role::Main && slot.latest().is_some()) {
        return Verdict::TRUE;
    }
    let incomplete = names(slots, statuses, |role, status| match role {
        Role::Init => !status.ready,
        Role::Sidecar => status.started != Some(true),
        Role::Main | Role::Ephemeral => false,
    });
    match incomplete.is_empty() {
        true => Verdict::TRUE,
        false => Verdict {
            message: Some(format!("containers with incomplete status: [{}]", incomplete.join(" "))),
            ..Verdict::no("ContainersNotInitialized")
        },
    }
}

fn containers_ready(slots: &[Slot<'_>], statuses: &[ContainerStatus], phase: Option<&str>) -> Verdict {
    match phase {
        Some("Succeeded") => return Verdict::no("PodCompleted"),
        Some("Failed") => return Verdict::no("PodFailed"),
        _ => {}
    }
    let unready = names(slots, statuses, |role, status| matches!(role, Role::Sidecar | Role::Main) && !status.ready);
    match unready.is_empty() {
        true => Verdict::TRUE,
        false => Verdict {
            message: Some(format!("containers with unready status: [{}]", unready.join(" "))),
            ..Verdict::no("ContainersNotReady")
        },
    }
}

/// All containers are, and every gate says so.
fn ready(input: &Input<'_>, containers: Verdict) -> Verdict {
    if !containers.status {
        return containers;
    }
    let present = input.status.conditions.as_deref().unwrap_or_default();
    let closed: Vec<String> = input
        .spec
        .readiness_gates
        .iter()
        .flatten()
        .map(|gate| gate.condition_type.as_str())
        .filter_map(|kind| match conditions::find(present, kind) {
            None => Some(format!("corresponding condition of pod readiness gate {kind:?} does not exist.")),
            Some(condition) if condition.status == "True" => None,
            Some(condition) => {
                Some(format!("the status of pod readiness gate {kind:?} is not \"True\", but {}", condition.status))
            }
        })
        .collect();
    match closed.is_empty() {
        true => Verdict::TRUE,
        false => Verdict { message: Some(closed.join(", ")), ..Verdict::no("ReadinessGatesNotReady") },
    }
}

fn names<'a>(
    slots: &'a [Slot<'_>],
    statuses: &[ContainerStatus],
    wanted: impl Fn(Role, &ContainerStatus) -> bool,
) -> Vec<&'a str> {
    let both = slots.iter().zip(statuses);
    both.filter(|(slot, status)| wanted(slot.role, status)).map(|(slot, _)| slot.spec.name.as_str()).collect()
}
