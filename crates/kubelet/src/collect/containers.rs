//! Which dead containers and sandboxes go, so that the node keeps no more than it may.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use pintle_container::{Container, ContainerId, Sandbox, SandboxId, SandboxState};

use super::Collection;

/// Dead containers beyond what the node keeps in all: first each container of a Pod gives up what is above its equal share,
/// then the oldest go.
pub(super) fn superfluous(all: &[Container], settings: &Collection, now: Timestamp) -> Vec<ContainerId> {
    let Some(most) = settings.dead_per_node else { return Vec::new() };
    let old_enough = |container: &&Container| {
        let age = Duration::try_from(now.duration_since(container.created_at)).unwrap_or_default();
        !container.is_alive() && age >= settings.container_minimum_age
    };
    // Newest first within each.
    let mut units: BTreeMap<(&str, &str), Vec<&Container>> = BTreeMap::new();
    for container in all.iter().filter(old_enough) {
        units.entry((&container.pod.uid, &container.name)).or_default().push(container);
    }
    let mut total: usize = units.values().map(Vec::len).sum();
    if total <= most {
        return Vec::new();
    }
    let share = (most / units.len().max(1)).max(1);
    let mut gone = Vec::new();
    for unit in units.values_mut() {
        unit.sort_by(|a, b| b.created_at.cmp(&a.created_at).then_with(|| b.attempt.cmp(&a.attempt)));
        let above = unit.split_off(share.min(unit.len()));
        total -= above.len();
        gone.extend(above);
    }
    let mut left: Vec<&Container> = units.into_values().flatten().collect();
    left.sort_by(|a, b| a.created_at.cmp(&b.created_at).then_with(|| a.id.cmp(&b.id)));
    gone.extend(left.into_iter().take(total.saturating_sub(most)));
    gone.into_iter().map(|container| container.id.clone()).collect()
}

/// Sandboxes that have ended, have no container any more, and are not the last that is known of their Pod.
pub(super) fn superseded(sandboxes: &[Sandbox], containers: &[Container]) -> Vec<SandboxId> {
    let is_last = |sandbox: &Sandbox| {
        let mut siblings = sandboxes.iter().filter(|other| other.pod.uid == sandbox.pod.uid);
        !siblings.any(|other| (other.created_at, other.attempt) > (sandbox.created_at, sandbox.attempt))
    };
    let empty = |sandbox: &Sandbox| !containers.iter().any(|container| container.sandbox == sandbox.id);
    let over = sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::NotReady);
    over.filter(|sandbox| empty(sandbox) && !is_last(sandbox)).map(|sandbox| sandbox.id.clone()).collect()
}

#[cfg(test)]
mod tests {
    use pintle_container::{PodRef, State};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn dead(pod: &str, name: &str, second: i64) -> Container {
        Container {
            id: ContainerId(format!("{pod}-{name}-{second}")),
            sandbox: SandboxId(pod.into()),
            pod: PodRef { uid: pod.into(), ..PodRef::default() },
            name: name.into(),
            attempt: 0,
            image: String::new(),
            image_id: String::new(),
            created_at: at(second),
            state: State::Unknown,
            asked_image: None,
            stopping: false,
        }
    }

    fn ids(gone: Vec<ContainerId>) -> Vec<String> {
        gone.into_iter().map(|id| id.0).collect()
    }

    #[test]
    fn the_node_keeps_exactly_as_many_dead_containers_as_it_may() {
        let all = [dead("a", "x", 1), dead("a", "x", 2), dead("a", "x", 3), dead("b", "y", 4), dead("c", "z", 5)];
        let keep = |most| Collection { dead_per_node: Some(most), ..Collection::default() };
        assert!(superfluous(&all, &Collection::default(), at(9)).is_empty(), "no bound, nothing goes");
        for (most, expected) in [
            (5, vec![]),
            (4, vec!["a-x-2", "a-x-1"]),
            (3, vec!["a-x-2", "a-x-1"]),
            (2, vec!["a-x-2", "a-x-1", "a-x-3"]),
            (0, vec!["a-x-2", "a-x-1", "a-x-3", "b-y-4", "c-z-5"]),
        ] {
            assert_eq!(ids(superfluous(&all, &keep(most), at(9))), expected, "at most {most}");
        }
        let young = Collection { container_minimum_age: Duration::from_secs(7), ..keep(0) };
        assert_eq!(ids(superfluous(&all, &young, at(9))), ["a-x-1", "a-x-2"]);
    }

    #[test]
    fn a_running_container_never_goes() {
        let running = Container { state: State::Running { started_at: at(1) }, ..dead("a", "x", 1) };
        let settings = Collection { dead_per_node: Some(0), ..Collection::default() };
        assert!(superfluous(&[running], &settings, at(9)).is_empty());
    }

    #[test]
    fn an_ended_sandbox_goes_when_it_is_empty_and_another_has_followed() {
        let sandbox = |id: &str, pod: &str, attempt: u32, state: SandboxState| Sandbox {
            id: SandboxId(id.into()),
            pod: PodRef { uid: pod.into(), ..PodRef::default() },
            attempt,
            state,
            created_at: at(attempt.into()),
            addresses: Vec::new(),
        };
        let all = [
            sandbox("first", "a", 0, SandboxState::NotReady),
            sandbox("second", "a", 1, SandboxState::NotReady),
            sandbox("third", "a", 2, SandboxState::Ready),
            sandbox("only", "b", 0, SandboxState::NotReady),
        ];
        let left = Container { sandbox: SandboxId("second".into()), ..dead("a", "x", 1) };
        assert_eq!(superseded(&all, &[left]), [SandboxId("first".into())]);
    }
}
