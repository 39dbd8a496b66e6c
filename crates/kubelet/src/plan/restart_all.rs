//! A container whose rules say so restarts all of its Pod's containers when it ends: what runs is killed, every run is removed,
//! and the Pod begins anew in its sandbox, init containers first.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pintle_runtime::conditions;

use super::backoff::RestartBackoff;
use super::slots::{Role, Slot};
use super::{Action, Input, policy};
use crate::make::containers;

const CONDITION: &str = "AllContainersRestarting";

/// Nobody waits for the others to end well.
const GRACE: Duration = Duration::from_secs(2);

/// The container whose end restarts all, as long as its run is there.
pub(super) fn source<'a, 'b>(slots: &'b [Slot<'a>]) -> Option<&'b Slot<'a>> {
    slots.iter().filter(|slot| slot.role != Role::Ephemeral).find(|slot| {
        let rule = slot.latest().and_then(|run| policy::matching(slot.spec, run.exit_code()?));
        slot.spec.restart_policy.is_some() && rule.is_some_and(|rule| rule.action == policy::RESTART_ALL)
    })
}

/// Whether all containers are being restarted: until each main one has a run again.
pub(super) fn is_going(input: &Input<'_>, slots: &[Slot<'_>]) -> bool {
    let mut main = slots.iter().filter(|slot| slot.role == Role::Main);
    source(slots).is_some() || (begun(input) && main.any(|slot| slot.latest().is_none()))
}

/// Whether it has begun, as far as this agent or the one before remembers.
pub(super) fn begun(input: &Input<'_>) -> bool {
    let present = input.status.conditions.as_deref().unwrap_or_default();
    input.restarting_all || conditions::find(present, CONDITION).is_some_and(|found| found.status == "True")
}

/// What to do next, and when to look again if that must wait.
pub(super) fn actions(input: &Input<'_>, slots: &[Slot<'_>], source: &Slot<'_>) -> (Vec<Action>, Option<Timestamp>) {
    let own = || slots.iter().filter(|slot| slot.role != Role::Ephemeral);
    let alive: Vec<_> = own().filter_map(Slot::latest).filter(|run| run.has_process()).collect();
    if !alive.is_empty() {
        let unasked = alive.into_iter().filter(|run| input.asked.get(&run.id).is_none_or(|asked| *asked > GRACE));
        let stops = unasked.map(|run| Action::Stop {
            id: run.id.clone(),
            container: run.name.clone(),
            grace: GRACE,
            message: "killing".to_owned(),
            replace: false,
        });
        return (stops.collect(), None);
    }
    let ended_at = source.latest().and_then(|run| run.finished_at()).unwrap_or(input.now);
    let backoff = source.backoff(input.backoffs);
    if let Some(until) = RestartBackoff::until(backoff.as_ref(), ended_at, input.now) {
        return (Vec::new(), Some(until));
    }
    // The one that began it goes last: after a crash in between it begins again.
    let is_source = |slot: &&Slot<'_>| std::ptr::eq(*slot, source);
    let ordered = own().filter(|slot| !is_source(slot)).chain(own().filter(is_source));
    let runs = ordered.flat_map(|slot| slot.runs.iter().map(|run| run.id.clone())).collect();
    let backoff = RestartBackoff::next(backoff.as_ref(), ended_at, input.now);
    (vec![Action::Reset { runs, container: source.spec.name.clone(), backoff }], None)
}

/// Says that it goes on, or that it does not, of a Pod that may ever do so.
pub(super) fn tell(input: &Input<'_>, going: bool, status: &mut PodStatus) {
    let old = input.status.conditions.as_deref().unwrap_or_default();
    let known = conditions::find(old, CONDITION);
    let rules = containers(input.spec).flat_map(|container| container.restart_policy_rules.iter().flatten());
    let may_ever = rules.into_iter().any(|rule| rule.action == policy::RESTART_ALL);
    if !going && known.is_none() && !may_ever {
        return;
    }
    let value = if going { "True" } else { "False" };
    let since = known.filter(|known| known.status == value).and_then(|known| known.last_transition_time.clone());
    let condition = PodCondition {
        type_: CONDITION.to_owned(),
        status: value.to_owned(),
        reason: going.then(|| "RestartAllContainersStarted".to_owned()),
        message: going.then(|| "container exited with restart policy rule".to_owned()),
        observed_generation: input.pod.metadata.generation,
        last_transition_time: since.or(Some(Time(input.now))),
        last_probe_time: None,
    };
    conditions::set(status.conditions.get_or_insert_default(), condition);
}
