//! What the runtime has of a Pod, and what its probes say.

use k8s_openapi::api::core::v1::{Container as Spec, ContainerStatus, Pod, PodSpec, PodStatus};
use pintle_container::{Container, ProbeKind, Runtime};
use pintle_runtime::Error;

use super::{Memory, Seat};
use crate::plan::World;
use crate::probes::Due;

pub(super) async fn observe(seat: &Seat) -> Result<World, Error> {
    let runtime = &seat.home.runtime;
    let sandboxes = runtime.list_sandboxes(Some(&seat.uid)).await.map_err(failed)?;
    let containers = runtime.list_containers(Some(&seat.uid)).await.map_err(failed)?;
    Ok(World { sandboxes, containers })
}

pub(super) fn failed(error: pintle_container::Error) -> Error {
    Error::Invalid(error.to_string())
}

/// Asks every probe that is due.
pub(super) async fn probe(
    seat: &Seat,
    pod: &Pod,
    spec: &PodSpec,
    status: &PodStatus,
    world: &World,
    memory: &mut Memory,
    now: jiff::Timestamp,
) {
    // A second round asks those that a startup probe held back until just now.
    for _ in 0..2 {
        let running = running(spec, status, world);
        let due = memory.probes.due(running.into_iter(), now);
        if due.is_empty() {
            return;
        }
        for due in due {
            // Whether it is well cannot be known here: it is taken to be.
            let answer = ask(seat.home.runtime.as_ref(), &due).await.unwrap_or(Ok(()));
            if let Err(output) = &answer {
                let kind = match due.kind {
                    ProbeKind::Startup => "Startup",
                    ProbeKind::Liveness => "Liveness",
                    ProbeKind::Readiness => "Readiness",
                };
                let message = format!("{kind} probe failed: {output}");
                seat.home.recorder.record(
                    &super::act::reference(pod, spec, &due.container),
                    "Warning",
                    "Unhealthy",
                    message,
                );
            }
            memory.probes.record(&due, answer.is_ok(), now);
        }
    }
}

/// The answer of the back end itself, or of a command; nothing if the probe needs what this agent does not have.
async fn ask(runtime: &dyn Runtime, due: &Due) -> Option<Result<(), String>> {
    if let Some(answer) = runtime.probe(&due.id, due.kind).await {
        return Some(answer);
    }
    let command = due.probe.exec.as_ref()?.command.clone().unwrap_or_default();
    let timeout = std::time::Duration::from_secs(u64::try_from(due.probe.timeout_seconds.unwrap_or(1)).unwrap_or(1));
    Some(match runtime.exec(&due.id, &command, timeout).await {
        Ok(execution) if execution.exit_code == 0 => Ok(()),
        Ok(execution) => Err(String::from_utf8_lossy(&execution.output).into_owned()),
        Err(error) => Err(error.to_string()),
    })
}

fn running<'a>(
    spec: &'a PodSpec,
    status: &'a PodStatus,
    world: &'a World,
) -> Vec<(&'a Spec, &'a Container, Option<&'a ContainerStatus>)> {
    let old = || status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let specs = spec.init_containers.iter().flatten().chain(&spec.containers);
    specs
        .filter_map(|spec| {
            let latest = world.containers.iter().filter(|run| run.name == spec.name).max_by_key(|run| run.attempt)?;
            Some((spec, latest, old().find(|old| old.name == spec.name)))
        })
        .collect()
}
