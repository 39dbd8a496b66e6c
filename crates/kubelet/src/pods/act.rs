//! Does what a plan says, one step at a time, and tells of it in events.

use k8s_openapi::api::core::v1::{Container as Spec, ObjectReference, Pod, PodSpec};
use pintle_container::{ContainerConfig, Namespaces, PodRef, SandboxConfig};
use pintle_runtime::{Error, Key, events};

use super::hooks::Started;
use super::image::Outcome;
use super::observe::failed;
use super::prepare::Prepared;
use super::refuse::Stage;
use super::tally::count;
use super::{Memory, Pods, Seat};
use crate::ephemeral;
use crate::plan::{Action, RestartBackoff, World};

impl Pods {
    /// True if the world has changed and another plan may find more to do.
    #[expect(clippy::too_many_arguments, reason = "they are the parts of one look at a Pod, borrowed apart")]
    pub(super) async fn act(
        &self,
        key: &Key,
        pod: &Pod,
        spec: &PodSpec,
        seat: &Seat,
        memory: &mut Memory,
        world: &World,
        action: &Action,
    ) -> Result<bool, Error> {
        let runtime = &seat.home.runtime;
        match action {
            Action::RunSandbox { attempt } => {
                let prepared = match self.sandbox(pod, spec, seat, memory, world, *attempt).await? {
                    Prepared::OnMachine(config) => config,
                    Prepared::Plain => sandbox_config(key, pod, spec, *attempt),
                    Prepared::Held => return Ok(false),
                };
                if let Err(error) = runtime.run_sandbox(prepared).await {
                    count(&seat.home.tallies.sandbox_errors);
                    let message = format!("Failed to create pod sandbox: {error}");
                    seat.home.recorder.warning(pod, "FailedCreatePodSandBox", message);
                    return Err(failed(error));
                }
                count(&seat.home.tallies.sandboxes);
                Ok(true)
            }
            Action::Start { container, attempt, made, backoff } => {
                let Some(container) = ephemeral::find(spec, container) else { return Ok(false) };
                let container = container.as_ref();
                let Some(sandbox) = world.ready_sandbox() else { return Ok(true) };
                let Some(mounted) = self.mounted(pod, spec, seat, memory, world).await else { return Ok(false) };
                let image_id = match self.image(key, pod, spec, seat, container).await {
                    Outcome::Ready(image_id) => image_id,
                    Outcome::Failed => return Ok(true),
                    Outcome::Pending => return Ok(true),
                };
                let plain = config(pod, container, *attempt, image_id);
                let mut prepared =
                    match self.container(pod, spec, seat, memory, world, container, &mounted, &plain).await {
                        Prepared::OnMachine(config) => config,
                        Prepared::Plain => plain,
                        Prepared::Held => return Ok(true),
                    };
                if let Some(target) = ephemeral::target(spec, &container.name) {
                    let run = world.containers.iter().rfind(|run| run.name == target && run.is_running());
                    prepared.target = run.map(|run| run.id.clone());
                }
                let shared = match &seat.home.machine {
                    Some(machine) => {
                        let made = machine.sandbox(&machine.facts(pod, spec, world), sandbox.attempt).await;
                        made.map(|(config, _)| config)
                    }
                    None => Ok(sandbox_config(key, pod, spec, sandbox.attempt)),
                };
                let reference = reference(pod, spec, &container.name);
                let say = |kind, reason, message: String| seat.home.recorder.record(&reference, kind, reason, message);
                let created = match (made, shared) {
                    // The agent ended between the two steps.
                    (Some(made), _) => Ok(made.clone()),
                    (None, Err(message)) => Err((Stage::Config, message)),
                    (None, Ok(shared)) => match runtime.create_container(&sandbox.id, &shared, prepared).await {
                        Ok(id) => {
                            say("Normal", "Created", "Container created".to_owned());
                            Ok(id)
                        }
                        Err(error) => Err((Stage::Create, error.detail())),
                    },
                };
                let id = match created {
                    Ok(id) => id,
                    Err((stage, message)) => {
                        self.refuse(seat, memory, &reference, &container.name, stage, message);
                        return Ok(true);
                    }
                };
                // Also a start that fails is one: without its wait, the next would follow at once.
                remember(memory, container, *backoff);
                if let Err(error) = runtime.start_container(&id).await {
                    self.refuse(seat, memory, &reference, &container.name, Stage::Start, error.detail());
                    return Ok(true);
                }
                memory.attachment.refusals.remove(&container.name);
                if let Some(machine) = &seat.home.machine {
                    machine.link_log(sandbox.pod.clone(), &container.name, *attempt, &id).await;
                }
                count(&seat.home.tallies.containers);
                say("Normal", "Started", "Container started".to_owned());
                self.after_start(key, pod, spec, seat, Started { container, id: &id, world });
                memory.resizing.note_held(&id, container);
                Ok(true)
            }
            Action::Stop { id, container, grace, message, replace } => {
                if *replace {
                    memory.replaced.insert(id.clone());
                }
                match ephemeral::find(spec, container) {
                    Some(found) => {
                        self.stop(pod, spec, seat, Started { container: &found, id, world }, *grace).await?;
                    }
                    None => runtime.stop_container(id, *grace).await.map_err(failed)?,
                }
                if memory.asked.insert(id.clone(), *grace).is_none() {
                    let reference = reference(pod, spec, container);
                    seat.home.recorder.record(&reference, "Normal", "Killing", message.clone());
                }
                Ok(true)
            }
            Action::PreStop { id, container, grace } => {
                if let Some(found) = ephemeral::find(spec, container) {
                    self.before_turn(pod, spec, seat, Started { container: &found, id, world }, *grace);
                }
                Ok(false)
            }
            Action::Resize(runs) => {
                self.resize(pod, spec, seat, memory, world, runs).await;
                Ok(true)
            }
            Action::Remove(id) => {
                runtime.remove_container(id).await.map_err(failed)?;
                memory.asked.remove(id);
                memory.replaced.remove(id);
                memory.resizing.forget(id);
                Ok(false)
            }
            Action::Reset { runs, container, backoff } => {
                for id in runs {
                    runtime.remove_container(id).await.map_err(failed)?;
                    if let Some(run) = world.containers.iter().find(|run| run.id == *id) {
                        let last = memory.forgotten.entry(run.name.clone()).or_default();
                        *last = run.attempt.max(*last);
                    }
                    memory.asked.remove(id);
                    memory.replaced.remove(id);
                    memory.resizing.forget(id);
                }
                memory.backoffs.insert(container.clone(), *backoff);
                Ok(true)
            }
            Action::StopSandbox(id) => {
                runtime.stop_sandbox(id).await.map_err(failed)?;
                Ok(true)
            }
        }
    }
}

fn remember(memory: &mut Memory, container: &Spec, backoff: Option<RestartBackoff>) {
    if let Some(backoff) = backoff {
        memory.backoffs.insert(container.name.clone(), backoff);
    }
}

fn sandbox_config(key: &Key, pod: &Pod, spec: &PodSpec, attempt: u32) -> SandboxConfig {
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    SandboxConfig {
        pod: PodRef { namespace: key.namespace().to_owned(), name: key.name().to_owned(), uid },
        attempt,
        labels: pod.metadata.labels.clone().unwrap_or_default(),
        annotations: pod.metadata.annotations.clone().unwrap_or_default(),
        namespaces: Namespaces { host_network: spec.host_network == Some(true), ..Namespaces::default() },
        ..SandboxConfig::default()
    }
}

fn config(pod: &Pod, container: &Spec, attempt: u32, image_id: String) -> ContainerConfig {
    let literals = container.env.iter().flatten();
    ContainerConfig {
        name: container.name.clone(),
        attempt,
        image: container.image.clone().unwrap_or_default(),
        image_id,
        command: container.command.clone().unwrap_or_default(),
        arguments: container.args.clone().unwrap_or_default(),
        environment: literals.filter_map(|entry| Some((entry.name.clone(), entry.value.clone()?))).collect(),
        working_directory: container.working_dir.clone(),
        labels: pod.metadata.labels.clone().unwrap_or_default(),
        annotations: pod.metadata.annotations.clone().unwrap_or_default(),
        ..ContainerConfig::default()
    }
}

/// A reference to one container of a Pod, as events carry it.
pub(super) fn reference(pod: &Pod, spec: &PodSpec, container: &str) -> ObjectReference {
    let init = spec.init_containers.iter().flatten().any(|init| init.name == container);
    let aside = spec.ephemeral_containers.iter().flatten().any(|aside| aside.name == container);
    let list = if init {
        "initContainers"
    } else if aside {
        "ephemeralContainers"
    } else {
        "containers"
    };
    ObjectReference { field_path: Some(format!("spec.{list}{{{container}}}")), ..events::reference(pod) }
}
