//! What a container wants done after it has started and before it is stopped.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container as Spec, Pod, PodSpec};
use pintle_container::ContainerId;
use pintle_runtime::{Error, Key};

use super::observe::failed;
use super::{Pods, Seat};
use crate::handlers::{Handler, Subject};
use crate::plan::{Hook, Hooked, World};

/// What is left for a container whose hook took all of the grace.
const LEAST: Duration = Duration::from_secs(2);

/// Hooks have no timeout of their own after a start; a container that hangs in one never gets ready.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Hooks that are at work or have failed, by container.
#[derive(Default)]
pub(super) struct Hooks {
    pub(super) after_start: BTreeMap<ContainerId, Hook>,
    pub(super) before_stop: BTreeSet<ContainerId>,
    /// Of sidecars, which do not wait for their turn with it.
    pub(super) before_turn: BTreeMap<ContainerId, Hooked>,
}

impl Pods {
    /// Runs what is to run after a start. Until it has ended well the container counts as being made.
    pub(super) fn after_start(&self, key: &Key, pod: &Pod, spec: &PodSpec, seat: &Seat, run: Started<'_>) {
        let hook = run.container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.as_ref());
        let Some(handler) = hook.and_then(Handler::of_hook) else { return };
        seat.hooks().after_start.insert(run.id.clone(), Hook::Going);
        let reference = super::act::reference(pod, spec, &run.container.name);
        let address = seat.address(run.world);
        let (pods, home, id, container) = (self.clone(), seat.home.clone(), run.id.clone(), run.container.clone());
        let (key, uid) = (key.clone(), seat.uid.clone());
        tokio::spawn(async move {
            let subject = Subject { runtime: home.runtime.as_ref(), id: &id, spec: &container, address };
            let outcome = handler.run(&subject, LONGEST).await;
            if let Err(error) = &outcome {
                tracing::info!(container = %id, %error, "the hook after its start failed");
                home.recorder.record(
                    &reference,
                    "Warning",
                    "FailedPostStartHook",
                    // What it said may be secret.
                    "PostStartHook failed".to_owned(),
                );
            }
            if let Some(seat) = pods.seat_of(&key, &uid) {
                match outcome {
                    Ok(()) => seat.hooks().after_start.remove(&id),
                    Err(_) => seat.hooks().after_start.insert(id, Hook::Failed),
                };
                pods.waker.add(key);
            }
        });
    }

    /// Stops a container, after what is to run before that. The hook's time is taken from the grace.
    pub(super) async fn stop(
        &self,
        pod: &Pod,
        spec: &PodSpec,
        seat: &Seat,
        run: Started<'_>,
        grace: Duration,
    ) -> Result<(), Error> {
        let hook = run.container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
        let runs = run.world.containers.iter().any(|known| known.id == *run.id && known.is_running());
        let hooked = seat.hooks().before_turn.contains_key(run.id);
        let again = seat.hooks().before_stop.replace(run.id.clone()).is_some() || hooked;
        let Some(handler) = hook.and_then(Handler::of_hook).filter(|_| runs && !again) else {
            seat.hooks().before_stop.remove(run.id);
            return seat.home.runtime.stop_container(run.id, grace).await.map_err(failed);
        };
        let reference = super::act::reference(pod, spec, &run.container.name);
        let address = seat.address(run.world);
        let (pods, home, id, container) = (self.clone(), seat.home.clone(), run.id.clone(), run.container.clone());
        let (key, uid) = (Key::of(pod), seat.uid.clone());
        tokio::spawn(async move {
            let began = tokio::time::Instant::now();
            let subject = Subject { runtime: home.runtime.as_ref(), id: &id, spec: &container, address };
            let outcome = tokio::time::timeout(grace, handler.run(&subject, grace)).await;
            if let Ok(Err(error)) = outcome {
                tracing::info!(container = %id, %error, "the hook before its stop failed");
                home.recorder.record(&reference, "Warning", "FailedPreStopHook", "PreStopHook failed".to_owned());
            }
            let left = grace.saturating_sub(began.elapsed()).max(LEAST);
            if let Err(error) = home.runtime.stop_container(&id, left).await {
                tracing::warn!(container = %id, %error, "it could not be stopped; it will be asked again");
            }
            if let Some(seat) = pods.seat_of(&key, &uid) {
                seat.hooks().before_stop.remove(&id);
                pods.waker.add(key);
            }
        });
        Ok(())
    }

    /// Runs what is to run before a sidecar stops, while it waits for its turn.
    pub(super) fn before_turn(&self, pod: &Pod, spec: &PodSpec, seat: &Seat, run: Started<'_>, grace: Duration) {
        let hook = run.container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
        let Some(handler) = hook.and_then(Handler::of_hook) else {
            seat.hooks().before_turn.insert(run.id.clone(), Hooked::Done);
            return;
        };
        seat.hooks().before_turn.insert(run.id.clone(), Hooked::Going);
        let reference = super::act::reference(pod, spec, &run.container.name);
        let address = seat.address(run.world);
        let (pods, home, id, container) = (self.clone(), seat.home.clone(), run.id.clone(), run.container.clone());
        let (key, uid) = (Key::of(pod), seat.uid.clone());
        tokio::spawn(async move {
            let subject = Subject { runtime: home.runtime.as_ref(), id: &id, spec: &container, address };
            let outcome = tokio::time::timeout(grace, handler.run(&subject, grace)).await;
            if let Ok(Err(error)) = outcome {
                tracing::info!(container = %id, %error, "the hook before its stop failed");
                home.recorder.record(&reference, "Warning", "FailedPreStopHook", "PreStopHook failed".to_owned());
            }
            if let Some(seat) = pods.seat_of(&key, &uid) {
                seat.hooks().before_turn.insert(id, Hooked::Done);
                pods.waker.add(key);
            }
        });
    }
}

/// A container of the Pod, and the run of it that is meant.
#[derive(Clone, Copy)]
pub(super) struct Started<'a> {
    pub(super) container: &'a Spec,
    pub(super) id: &'a ContainerId,
    pub(super) world: &'a World,
}
