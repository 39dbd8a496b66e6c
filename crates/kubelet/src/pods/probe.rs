//! Asks a Pod's probes, without holding its worker up while an answer is on its way.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container as Spec, ContainerStatus, Pod, PodSpec, PodStatus};
use pintle_container::{Container, ProbeKind};
use pintle_runtime::Key;

use super::{Memory, Pods, Seat};
use crate::handlers::{Handler, Outcome, Subject};
use crate::make::containers;
use crate::plan::World;
use crate::probes::Due;

/// An answer that came while no worker looked.
pub(super) struct Answer {
    due: Due,
    outcome: Outcome,
}

impl Pods {
    /// Takes in the answers that have come, and asks every probe that is due.
    pub(super) async fn probe(
        &self,
        pod: &Pod,
        spec: &PodSpec,
        status: &PodStatus,
        seat: &Seat,
        world: &World,
        memory: &mut Memory,
    ) {
        let now = self.context.clock.now();
        let came = std::mem::take(&mut *seat.answers());
        for answer in came {
            take_in(pod, spec, seat, memory, &answer.due, &answer.outcome, now);
        }
        // A second round asks those that a startup probe held back until just now.
        for _ in 0..2 {
            let running = running(spec, status, world);
            let due = memory.probes.due(running.into_iter(), now);
            if due.is_empty() {
                return;
            }
            for due in due {
                match self.ask(&Key::of(pod), seat, world, &due).await {
                    Some(outcome) => take_in(pod, spec, seat, memory, &due, &outcome, now),
                    None => memory.probes.wait_for(&due),
                }
            }
        }
    }

    /// The answer, if the back end itself has it; else it comes later, and the Pod's key with it.
    async fn ask(&self, key: &Key, seat: &Seat, world: &World, due: &Due) -> Option<Outcome> {
        if let Some(answer) = seat.home.runtime.probe(&due.id, due.kind).await {
            return Some(answer);
        }
        // A probe that asks nothing is always well.
        let Some(handler) = Handler::of_probe(&due.probe) else { return Some(Ok(())) };
        let timeout = Duration::from_secs(u64::try_from(due.probe.timeout_seconds.unwrap_or(1)).unwrap_or(1).max(1));
        let address = seat.address(world);
        let (pods, runtime, due) = (self.clone(), seat.home.runtime.clone(), due.clone());
        let (key, uid) = (key.clone(), seat.uid.clone());
        tokio::spawn(async move {
            let subject = Subject { runtime: runtime.as_ref(), id: &due.id, spec: &due.spec, address };
            let outcome = handler.run(&subject, timeout).await;
            if let Some(seat) = pods.seat_of(&key, &uid) {
                seat.answers().push(Answer { due, outcome });
                pods.waker.add(key);
            }
        });
        None
    }
}

fn take_in(
    pod: &Pod,
    spec: &PodSpec,
    seat: &Seat,
    memory: &mut Memory,
    due: &Due,
    outcome: &Outcome,
    now: jiff::Timestamp,
) {
    if let Err(output) = outcome {
        let kind = match due.kind {
            ProbeKind::Startup => "Startup",
            ProbeKind::Liveness => "Liveness",
            ProbeKind::Readiness => "Readiness",
        };
        let reference = super::act::reference(pod, spec, &due.spec.name);
        seat.home.recorder.record(&reference, "Warning", "Unhealthy", format!("{kind} probe failed: {output}"));
    }
    seat.count_probe(&due.spec.name, due.kind, outcome.is_ok());
    memory.probes.record(due, outcome.is_ok(), now);
}

fn running<'a>(
    spec: &'a PodSpec,
    status: &'a PodStatus,
    world: &'a World,
) -> Vec<(&'a Spec, &'a Container, Option<&'a ContainerStatus>)> {
    let old = || status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    containers(spec)
        .filter_map(|spec| {
            let latest = world.containers.iter().filter(|run| run.name == spec.name).max_by_key(|run| run.attempt)?;
            Some((spec, latest, old().find(|old| old.name == spec.name)))
        })
        .collect()
}
