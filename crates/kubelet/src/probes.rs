//! Liveness, readiness and startup probes: when each is due, and what its answers add up to.
//!
//! There is no task a probe. A Pod's worker asks what is due, and is woken when the next one is.
//!
//! - A startup probe holds the others back until it has succeeded, and is not asked again after that.
//! - Before any answer a container is alive, not ready and not started.
//! - A verdict changes after as many equal answers in a row as the threshold says.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container as Spec, ContainerStatus, Probe};
use pintle_container::{Container, ContainerId, ProbeKind};

/// What probes have found out; `None` if there is no answer yet.
pub(crate) trait Verdicts {
    fn verdict(&self, id: &ContainerId, kind: ProbeKind) -> Option<bool>;
}

#[derive(Debug, Default)]
pub(crate) struct Probes {
    /// The Pod comes to its end: only readiness is asked for from now on.
    ending: bool,
    states: BTreeMap<(ContainerId, ProbeKind), ProbeState>,
}

#[derive(Debug)]
struct ProbeState {
    next_at: Timestamp,
    verdict: Option<bool>,
    /// The last answer, and how often in a row it was given.
    streak: (bool, i32),
    /// An answer is on its way.
    asking: bool,
}

/// A probe whose time has come.
#[derive(Clone, Debug)]
pub(crate) struct Due {
    pub(crate) id: ContainerId,
    pub(crate) spec: Spec,
    pub(crate) kind: ProbeKind,
    pub(crate) probe: Probe,
}

impl Probes {
    /// What is about to end is not restarted, so nobody asks whether it should be; whether it is ready matters until it has ended.
    pub(crate) fn end(&mut self) {
        self.ending = true;
    }

    /// Takes note of what runs, forgets what does not, and says what is to be asked now.
    ///
    /// What was ready or started before this node agent was is taken to be so until a probe says otherwise.
    pub(crate) fn due<'a>(
        &mut self,
        running: impl Iterator<Item = (&'a Spec, &'a Container, Option<&'a ContainerStatus>)>,
        now: Timestamp,
    ) -> Vec<Due> {
        let mut due = Vec::new();
        let mut known = BTreeMap::new();
        for (spec, container, old) in running {
            let Some(started_at) = container.started_at().filter(|_| container.is_running()) else { continue };
            let old = old.filter(|old| old.container_id.as_deref().is_some_and(|id| id.ends_with(&container.id.0)));
            let mut held_back = false;
            for (kind, probe) in probes_of(spec) {
                let identity = (container.id.clone(), kind);
                let state = self.states.remove(&identity).unwrap_or_else(|| ProbeState {
                    next_at: later(started_at, seconds(probe.initial_delay_seconds, 0)).max(now),
                    verdict: match kind {
                        ProbeKind::Startup => old.and_then(|old| old.started).filter(|started| *started),
                        ProbeKind::Readiness => Some(old.is_some_and(|old| old.ready)),
                        ProbeKind::Liveness => Some(true),
                    },
                    streak: (true, 0),
                    asking: false,
                });
                let is_over = match kind {
                    ProbeKind::Startup => state.verdict.is_some(),
                    // A container found dead is not asked again: it is being stopped.
                    ProbeKind::Liveness => state.verdict == Some(false),
                    ProbeKind::Readiness => false,
                };
                let is_asked = !self.ending || kind == ProbeKind::Readiness;
                if is_asked && !held_back && !is_over && !state.asking && state.next_at <= now {
                    let (id, spec) = (container.id.clone(), spec.clone());
                    due.push(Due { id, spec, kind, probe: probe.clone() });
                }
                held_back |= kind == ProbeKind::Startup && state.verdict != Some(true);
                known.insert(identity, state);
            }
        }
        self.states = known;
        due
    }

    /// Its answer will take a while; it is not due until that is here.
    pub(crate) fn wait_for(&mut self, due: &Due) {
        if let Some(state) = self.states.get_mut(&(due.id.clone(), due.kind)) {
            state.asking = true;
        }
    }

    /// Takes in an answer; true if the verdict changed.
    pub(crate) fn record(&mut self, due: &Due, healthy: bool, now: Timestamp) -> bool {
        let Some(state) = self.states.get_mut(&(due.id.clone(), due.kind)) else { return false };
        state.asking = false;
        state.next_at = later(now, seconds(due.probe.period_seconds, 10).max(Duration::from_secs(1)));
        let times = if state.streak.0 == healthy { state.streak.1.saturating_add(1) } else { 1 };
        state.streak = (healthy, times);
        let threshold =
            if healthy { due.probe.success_threshold.unwrap_or(1) } else { due.probe.failure_threshold.unwrap_or(3) };
        if times < threshold || state.verdict == Some(healthy) {
            return false;
        }
        state.verdict = Some(healthy);
        // Others were held back by it and are due by now.
        true
    }

    /// When the next probe is due.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        let held_back = |id: &ContainerId| {
            let startup = self.states.get(&(id.clone(), ProbeKind::Startup));
            startup.is_some_and(|startup| startup.verdict != Some(true))
        };
        let idle = self.states.iter().filter(|(_, state)| !state.asking);
        let asked = idle.filter(|((_, kind), _)| !self.ending || *kind == ProbeKind::Readiness);
        let waits = asked.filter(|((id, kind), state)| match kind {
            ProbeKind::Startup => state.verdict.is_none(),
            ProbeKind::Liveness => state.verdict != Some(false) && !held_back(id),
            ProbeKind::Readiness => !held_back(id),
        });
        waits.map(|(_, state)| state.next_at).min()
    }
}

impl Verdicts for Probes {
    fn verdict(&self, id: &ContainerId, kind: ProbeKind) -> Option<bool> {
        self.states.get(&(id.clone(), kind)).and_then(|state| state.verdict)
    }
}

/// The container's probes, the startup probe first.
fn probes_of(spec: &Spec) -> impl Iterator<Item = (ProbeKind, &Probe)> {
    let startup = spec.startup_probe.iter().map(|probe| (ProbeKind::Startup, probe));
    let liveness = spec.liveness_probe.iter().map(|probe| (ProbeKind::Liveness, probe));
    startup.chain(liveness).chain(spec.readiness_probe.iter().map(|probe| (ProbeKind::Readiness, probe)))
}

fn seconds(given: Option<i32>, default: u64) -> Duration {
    Duration::from_secs(given.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(default))
}

fn later(moment: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    moment.checked_add(wait).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use pintle_container::{PodRef, SandboxId, State};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn probe(initial: i32, period: i32, success: i32, failure: i32) -> Option<Probe> {
        Some(Probe {
            initial_delay_seconds: Some(initial),
            period_seconds: Some(period),
            success_threshold: Some(success),
            failure_threshold: Some(failure),
            ..Probe::default()
        })
    }

    fn running() -> Container {
        Container {
            id: ContainerId("c1".into()),
            sandbox: SandboxId("s".into()),
            pod: PodRef::default(),
            name: "web".into(),
            attempt: 0,
            image: String::new(),
            image_id: String::new(),
            created_at: at(0),
            state: State::Running { started_at: at(0) },
            asked_image: None,
            stopping: false,
        }
    }

    /// Asks at each of the seconds what is due and answers it; tells the verdicts after each.
    fn play(spec: &Spec, script: &[(i64, bool)], kind: ProbeKind) -> Vec<Option<bool>> {
        let (mut probes, container) = (Probes::default(), running());
        script
            .iter()
            .map(|(second, healthy)| {
                for due in probes.due([(spec, &container, None)].into_iter(), at(*second)) {
                    probes.record(&due, *healthy, at(*second));
                }
                probes.verdict(&container.id, kind)
            })
            .collect()
    }

    #[test]
    fn thresholds_turn_a_verdict() {
        let spec = Spec { readiness_probe: probe(5, 10, 2, 2), ..Spec::default() };
        let script = [(0, true), (5, true), (15, true), (25, false), (35, false), (36, true)];
        let expected = [Some(false), Some(false), Some(true), Some(true), Some(false), Some(false)];
        assert_eq!(play(&spec, &script, ProbeKind::Readiness), expected);
    }

    #[test]
    fn a_startup_probe_holds_the_others_back() {
        let spec = Spec { startup_probe: probe(0, 1, 1, 30), liveness_probe: probe(0, 1, 1, 1), ..Spec::default() };
        let script = [(0, false), (1, false), (2, true), (3, false)];
        let expected = [Some(true), Some(true), Some(true), Some(false)];
        assert_eq!(play(&spec, &script, ProbeKind::Liveness), expected);
        assert_eq!(play(&spec, &script, ProbeKind::Startup), [None, None, Some(true), Some(true)]);
    }

    #[test]
    fn readiness_is_asked_for_until_the_end_and_nothing_else_is() {
        let spec = Spec { liveness_probe: probe(0, 5, 1, 3), readiness_probe: probe(0, 10, 1, 1), ..Spec::default() };
        let (mut probes, container) = (Probes::default(), running());
        let kinds = |probes: &mut Probes, second| {
            let due = probes.due([(&spec, &container, None)].into_iter(), at(second));
            due.iter().for_each(|due| _ = probes.record(due, true, at(second)));
            due.into_iter().map(|due| due.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(&mut probes, 0), [ProbeKind::Liveness, ProbeKind::Readiness]);
        probes.end();
        assert_eq!(probes.next_at(), Some(at(10)));
        assert_eq!(kinds(&mut probes, 10), [ProbeKind::Readiness]);
        assert_eq!(probes.verdict(&ContainerId("c1".into()), ProbeKind::Readiness), Some(true));
    }

    #[test]
    fn a_restarted_agent_does_not_take_a_ready_container_for_unready() {
        let spec = Spec { readiness_probe: probe(0, 10, 1, 3), ..Spec::default() };
        let (mut probes, container) = (Probes::default(), running());
        let old = ContainerStatus { container_id: Some("x://c1".into()), ready: true, ..ContainerStatus::default() };
        probes.due([(&spec, &container, Some(&old))].into_iter(), at(100));
        assert_eq!(probes.verdict(&container.id, ProbeKind::Readiness), Some(true));
        assert_eq!(probes.next_at(), Some(at(100)));
    }
}
