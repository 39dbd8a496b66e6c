//! What a Pod needs on its machine before something of it starts, while it runs, and when it is gone.
//!
//! On a node without a machine nothing is needed, and nothing happens here.

use k8s_openapi::api::core::v1::{Container as Spec, Pod, PodSpec};
use pintle_container::{ContainerConfig, Image, PodRef, SandboxConfig};
use pintle_runtime::{Error, Key};

use super::act::reference;
use super::refuse::Stage;
use super::{Memory, Pods, Seat};
use crate::plan::World;
use crate::volumes::{MountFailure, Mounted};

pub(super) enum Prepared<T> {
    OnMachine(T),
    /// There is no machine: what the spec itself says is enough.
    Plain,
    /// Not now; the Pod is looked at again when it may go on.
    Held,
}

impl Pods {
    /// What the sandbox is made from, with the Pod's volumes in their places.
    pub(super) async fn sandbox(
        &self,
        pod: &Pod,
        spec: &PodSpec,
        seat: &Seat,
        memory: &mut Memory,
        world: &World,
        attempt: u32,
    ) -> Result<Prepared<SandboxConfig>, Error> {
        let Some(machine) = &seat.home.machine else { return Ok(Prepared::Plain) };
        if self.mounted(pod, spec, seat, memory, world).await.is_none() {
            return Ok(Prepared::Held);
        }
        let facts = machine.facts(pod, spec, world);
        let made = match machine.bound(&facts).await {
            Ok(()) => machine.sandbox(&facts, attempt).await,
            Err(message) => Err(message),
        };
        match made {
            Ok((config, warnings)) => {
                for (reason, message) in warnings {
                    seat.home.recorder.warning(pod, reason, message);
                }
                Ok(Prepared::OnMachine(config))
            }
            Err(message) => {
                let said = format!("Failed to create pod sandbox: {message}");
                seat.home.recorder.warning(pod, "FailedCreatePodSandBox", said);
                Err(Error::Outside(message))
            }
        }
    }

    /// Where the Pod's volumes are; nothing if one cannot be had, which is said and tried again later.
    pub(super) async fn mounted(
        &self,
        pod: &Pod,
        spec: &PodSpec,
        seat: &Seat,
        memory: &mut Memory,
        world: &World,
    ) -> Option<Mounted> {
        let Some(machine) = &seat.home.machine else { return Some(Mounted::new()) };
        let now = self.context.clock.now();
        if memory.attachment.is_held(now) {
            return None;
        }
        let facts = machine.facts(pod, spec, world);
        match machine.mount(&facts, &mut memory.attachment).await {
            Ok(mounted) => {
                memory.attachment.note_success();
                memory.attachment.note_refresh(&facts, now);
                Some(mounted)
            }
            Err(failures) => {
                memory.attachment.note_failure(now);
                say(seat, pod, &failures);
                None
            }
        }
    }

    /// What the container is made from. A spec that cannot be followed is said, and shown as what the container waits for.
    #[expect(clippy::too_many_arguments, reason = "they are the parts of one look at a Pod, borrowed apart")]
    pub(super) async fn container(
        &self,
        pod: &Pod,
        spec: &PodSpec,
        seat: &Seat,
        memory: &mut Memory,
        world: &World,
        container: &Spec,
        mounted: &Mounted,
        plain: &ContainerConfig,
    ) -> Prepared<ContainerConfig> {
        let Some(machine) = &seat.home.machine else { return Prepared::Plain };
        let facts = machine.facts(pod, spec, world);
        let made = match seat.home.runtime.image(&plain.image).await {
            Ok(image) => {
                let image = Image { id: plain.image_id.clone(), ..image.unwrap_or_default() };
                machine.container(&facts, container, plain.attempt, &image, mounted, &mut memory.attachment).await
            }
            Err(error) => Err(error.to_string()),
        };
        match made {
            Ok(config) => {
                memory.attachment.refusals.remove(&container.name);
                Prepared::OnMachine(config)
            }
            Err(message) => {
                let involved = reference(pod, spec, &container.name);
                self.refuse(seat, memory, &involved, &container.name, Stage::Config, message);
                Prepared::Held
            }
        }
    }

    /// While the Pod runs: its files follow what they are made from, and the last words of its containers are heard.
    pub(super) async fn attend(&self, pod: &Pod, spec: &PodSpec, seat: &Seat, memory: &mut Memory, world: &mut World) {
        let Some(machine) = &seat.home.machine else { return };
        let facts = machine.facts(pod, spec, world);
        machine.tell_ends(&facts, world);
        let now = self.context.clock.now();
        let runs = pod.metadata.deletion_timestamp.is_none() && world.ready_sandbox().is_some();
        if runs && memory.attachment.is_due(&facts, now) {
            memory.attachment.note_refresh(&facts, now);
            if let Err(failures) = machine.mount(&facts, &mut memory.attachment).await {
                say(seat, pod, &failures);
            }
        }
    }
}

/// After the last container of a Pod is gone that will start none any more.
pub(super) async fn release(seat: &Seat, memory: &mut Memory) -> Result<(), Error> {
    let Some(machine) = seat.home.machine.as_ref().filter(|_| !memory.attachment.released) else { return Ok(()) };
    machine.release(seat.uid.clone()).await.map_err(Error::Outside)?;
    memory.attachment.released = true;
    Ok(())
}

/// After the last container is gone and before the API server forgets the Pod.
pub(super) async fn teardown(key: &Key, seat: &Seat) -> Result<(), Error> {
    let Some(machine) = &seat.home.machine else { return Ok(()) };
    let pod = PodRef { namespace: key.namespace().to_owned(), name: key.name().to_owned(), uid: seat.uid.clone() };
    machine.teardown(pod).await.map_err(Error::Outside)
}

fn say(seat: &Seat, pod: &Pod, failures: &[MountFailure]) {
    for failure in failures {
        seat.home.recorder.warning(pod, "FailedMount", failure.to_string());
    }
}

#[cfg(test)]
#[path = "prepare_tests.rs"]
mod tests;
