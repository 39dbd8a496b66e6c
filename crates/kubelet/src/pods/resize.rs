//! Gives a Pod that runs other amounts of processors and memory, and holds its containers to them.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus};
use pintle_container::ContainerId;

use super::{Memory, Pods, Seat, by_node};
use crate::make::resources::resources;
use crate::make::{Facts, containers};
use crate::plan::{World, is_terminal};
use crate::resize::{as_given, described, room};

impl Pods {
    /// The Pod with the amounts that the node gives it, which may be others than it asks for.
    pub(super) fn size<'a>(
        &self,
        pod: &'a Pod,
        spec: &PodSpec,
        seat: &Seat,
        memory: &mut Memory,
        status: &PodStatus,
    ) -> Cow<'a, Pod> {
        memory.resizing.recall(spec, status);
        let ends = pod.metadata.deletion_timestamp.is_some() || is_terminal(status.phase.as_deref());
        if ends || !memory.resizing.is_asked_for(spec) {
            memory.resizing.pending = None;
            return memory.resizing.sized(pod);
        }
        let others: Vec<Arc<Pod>> = self.pods.by(by_node, &seat.home.name);
        let others: Vec<Cow<'_, Pod>> = others
            .iter()
            .filter(|other| other.metadata.uid != pod.metadata.uid)
            .filter(|other| !is_terminal(other.status.as_ref().and_then(|status| status.phase.as_deref())))
            .map(|other| as_given(other))
            .collect();
        match room(pod, others.iter().map(AsRef::as_ref), &seat.home.allocatable) {
            Ok(()) => {
                memory.resizing.give(spec);
                let message = format!("Pod resize started: {}", described(pod));
                seat.home.recorder.normal(pod, "ResizeStarted", message);
            }
            Err(pending) => {
                let said = status.conditions.iter().flatten().any(|condition| {
                    condition.type_ == "PodResizePending"
                        && condition.reason.as_deref() == Some(pending.reason)
                        && condition.observed_generation == pod.metadata.generation
                });
                if !said && memory.resizing.pending.as_ref() != Some(&pending) {
                    let (reason, how) = match pending.reason {
                        "Infeasible" => ("ResizeInfeasible", "infeasible"),
                        _ => ("ResizeDeferred", "deferred"),
                    };
                    let message = format!("Pod resize {how}: {}: {}", pending.message, described(pod));
                    seat.home.recorder.warning(pod, reason, message);
                }
                memory.resizing.pending = Some(pending);
            }
        }
        memory.resizing.sized(pod)
    }

    /// Holds containers to what the Pod was given. What fails is said, and tried again later.
    pub(super) async fn resize(
        &self,
        pod: &Pod,
        spec: &PodSpec,
        seat: &Seat,
        memory: &mut Memory,
        world: &World,
        runs: &[(ContainerId, String)],
    ) {
        let facts = match &seat.home.machine {
            Some(machine) => machine.facts(pod, spec, world),
            None => Facts {
                pod,
                spec,
                pod_addresses: Vec::new(),
                host_addresses: Vec::new(),
                allocatable: &seat.home.allocatable,
            },
        };
        let mut done = fits(&facts, seat, runs).await;
        if let Some(machine) = seat.home.machine.as_ref().filter(|_| done.is_ok()) {
            // A container cannot get more than its Pod has, nor its Pod less than a container has.
            machine.unbound(&facts).await;
        }
        for (run, name) in runs {
            let Some(container) = facts.containers().find(|container| container.name == *name) else { continue };
            if done.is_ok() {
                done = match seat.home.runtime.update_resources(run, &resources(&facts, container)).await {
                    Ok(()) => {
                        memory.resizing.note_held(run, container);
                        Ok(())
                    }
                    Err(error) => Err(format!("container {name}: {error}")),
                };
            }
        }
        if let Some(machine) = &seat.home.machine {
            let bound = machine.bound(&facts).await;
            done = done.and(bound);
        }
        match done {
            Ok(()) => memory.resizing.failure = None,
            Err(message) => {
                let said = format!("Pod resize error: {message}: {}", described(pod));
                seat.home.recorder.warning(pod, "ResizeError", said);
                memory.resizing.fail(message, self.now());
            }
        }
    }

    /// Says so once all containers are held to what the Pod was given.
    pub(super) fn say_resized(&self, pod: &Pod, seat: &Seat, memory: &mut Memory, resizing: bool) {
        if memory.resizing.going && !resizing {
            memory.resizing.going = false;
            let message = format!("Pod resize completed: {}", described(pod));
            seat.home.recorder.normal(pod, "ResizeCompleted", message);
        }
    }
}

/// A container that uses more memory than it may use from now on would be killed for it.
async fn fits(facts: &Facts<'_>, seat: &Seat, runs: &[(ContainerId, String)]) -> Result<(), String> {
    let used = seat.home.runtime.usage().await.unwrap_or_default();
    for (run, name) in runs {
        let Some(container) = containers(facts.spec).find(|container| container.name == *name) else { continue };
        let limit = u64::try_from(resources(facts, container).memory_limit).unwrap_or(0);
        let used = used.iter().find(|used| used.id == *run).map_or(0, |used| used.memory_working_set);
        if limit > 0 && used > limit {
            return Err(format!("container {name} uses {used} bytes of memory, more than its new limit of {limit}"));
        }
    }
    Ok(())
}
