//! Whether a Pod may run here: not if the node lacks something or cannot isolate it as it asks, nor if it does not fit beside the
//! others, nor if its containers do not get the devices that they ask for.
//! A Pod that may not fails before anything of it starts.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pintle_runtime::{Error, Key};

use super::observe::observe;
use super::room::Room;
use super::tally::count;
use super::{Home, Memory, Pods, Seat, by_node};
use crate::devices::{Devices, Refused, may_ask};
use crate::plan::is_terminal;
use crate::pressure;
use crate::statics::mirror::uid_at_runtime;

/// How soon a Pod is looked at again that waits for one that is about to end.
const AGAIN: Duration = Duration::from_secs(1);

pub(super) enum Admission {
    Granted,
    /// With the status that it has from now on.
    Refused(Box<PodStatus>),
    Later(Duration),
}

impl Pods {
    pub(super) async fn admit(
        &self,
        pod: &Pod,
        spec: &PodSpec,
        seat: &Seat,
        memory: &mut Memory,
        status: &PodStatus,
    ) -> Result<Admission, Error> {
        let ends = pod.metadata.deletion_timestamp.is_some() || is_terminal(status.phase.as_deref());
        if ends || memory.admitted {
            return Ok(Admission::Granted);
        }
        let devices = seat.home.machine.as_ref().and_then(|machine| machine.devices()).filter(|_| may_ask(spec));
        let lacking = pressure::refusal(pod, &seat.home.pressure.conditions()).map(|message| ("Evicted", message));
        let refusal = lacking.or_else(|| seat.home.guards.refusal(pod, spec));
        let room = match &refusal {
            Some((reason, message)) => Room::Refused((*reason).to_owned(), message.clone()),
            None => self.make_room(pod, seat),
        };
        if devices.is_none() && matches!(room, Room::Given) {
            memory.admitted = true;
            return Ok(Admission::Granted);
        }
        // What runs has what it needs: the agent was away, not the Pod.
        let world = observe(seat).await?;
        if world.ready_sandbox().is_some() || !world.nothing_runs() {
            self.take_on(pod, seat);
            memory.admitted = true;
            return Ok(Admission::Granted);
        }
        // One that has begun goes on: its sandbox may have died.
        let has_begun = status.start_time.is_some() || !world.sandboxes.is_empty();
        match room {
            Room::Given => {}
            _ if has_begun => self.take_on(pod, seat),
            Room::Refused(reason, message) => return Ok(self.refused(pod, seat, status, &reason, message)),
            Room::Later => return Ok(Admission::Later(AGAIN)),
        }
        let Some(devices) = devices else {
            memory.admitted = true;
            return Ok(Admission::Granted);
        };
        let refused = match devices.admit(&seat.uid, spec).await {
            Ok(()) => {
                memory.admitted = true;
                return Ok(Admission::Granted);
            }
            Err(refused) => refused,
        };
        seat.home.claims.release(&seat.uid);
        if let Refused::Short { resource, .. } = &refused
            && self.will_be_free(&seat.home, devices, resource)
        {
            return Ok(Admission::Later(AGAIN));
        }
        let message = format!("Allocate failed due to {refused}, which is unexpected");
        Ok(self.refused(pod, seat, status, "UnexpectedAdmissionError", message))
    }

    fn refused(&self, pod: &Pod, seat: &Seat, status: &PodStatus, reason: &str, message: String) -> Admission {
        seat.home.recorder.warning(pod, reason, message.clone());
        count(&seat.home.tallies.rejections);
        Admission::Refused(Box::new(PodStatus {
            phase: Some("Failed".to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(format!("Pod was rejected: {message}")),
            start_time: status.start_time.clone().or(Some(Time(self.now()))),
            ..status.clone()
        }))
    }

    /// Whether a Pod that the scheduler no longer counts still has devices of the resource.
    fn will_be_free(&self, home: &Home, devices: &Devices, resource: &str) -> bool {
        let counted = self.counted(home);
        devices.holders(resource).iter().any(|holder| !counted.contains(holder))
    }

    /// Wakes Pods when something has become of their devices. Runs until dropped.
    pub(crate) async fn follow_devices(&self, home: &Home, devices: &Devices) {
        let mut changes = devices.changes();
        while changes.changed().await.is_ok() {
            let holders = devices.pods();
            let pods = self.pods.by(by_node, &home.name);
            let has = |pod: &Pod| holders.iter().any(|holder| holder == uid_at_runtime(pod));
            for pod in pods.iter().filter(|pod| has(pod)) {
                self.waker.add(Key::of(pod.as_ref()));
            }
        }
    }
}

/// Says of each container which devices it has and whether they are well; of one that has none any more, what was said last.
pub(super) fn tell_devices(seat: &Seat, old: &PodStatus, new: &mut PodStatus) {
    let Some(devices) = seat.home.machine.as_ref().and_then(|machine| machine.devices()) else { return };
    for container in new.container_statuses.iter_mut().flatten() {
        let statuses = devices.statuses(&seat.uid, &container.name);
        let said = old.container_statuses.iter().flatten().find(|said| said.name == container.name);
        container.allocated_resources_status = match statuses.is_empty() {
            true => said.and_then(|said| said.allocated_resources_status.clone()),
            false => Some(statuses),
        };
    }
}

pub(super) async fn release_devices(seat: &Seat) {
    if let Some(machine) = &seat.home.machine {
        machine.release_devices(&seat.uid).await;
    }
}

#[cfg(test)]
#[path = "admit_tests.rs"]
mod tests;
