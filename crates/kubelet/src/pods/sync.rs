//! One look at a Pod: observe, probe, plan, act, until there is nothing left to do; then write the status.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::api::{DeleteParams, Preconditions};
use pintle_container::ContainerId;
use pintle_runtime::{ApiError, Error, Key, Objects};

use super::admit::{Admission, release_devices, tell_devices};
use super::observe::observe;
use super::prepare::{release, teardown};
use super::{Memory, Pods, Seat};
use crate::ephemeral;
use crate::plan::{Hook, Input, Plan, World, is_terminal, plan};

/// The hooks after a start, and the stops that are under way. One that the runtime gave up is asked for again.
fn going(
    seat: &Seat,
    world: &World,
    memory: &Memory,
) -> (BTreeMap<ContainerId, Hook>, BTreeMap<ContainerId, Duration>) {
    let hooks = seat.hooks();
    let stopping = |id: &ContainerId| {
        hooks.before_stop.contains(id) || world.containers.iter().any(|run| run.id == *id && run.stopping)
    };
    let asked = memory.asked.iter().filter(|(id, _)| stopping(id)).map(|(id, grace)| (id.clone(), *grace));
    (hooks.after_start.clone(), asked.collect())
}

/// Once for each sandbox that gives way to another.
fn say_sandbox_changed(seat: &Seat, pod: &Pod, world: &World, memory: &mut Memory) {
    let changed = world.changed_sandbox().map(|sandbox| sandbox.id.clone());
    if changed.is_some() && changed != memory.changed_sandbox {
        let message = "Pod sandbox changed, it will be killed and re-created.";
        seat.home.recorder.normal(pod, "SandboxChanged", message.to_owned());
        memory.changed_sandbox = changed;
    }
}

/// More rounds than any Pod of the usual size needs; what is left is done at the next look.
const ROUNDS: usize = 64;

impl Pods {
    /// Brings a Pod closer to its spec; says after which time to look again.
    pub(super) async fn sync(&self, key: &Key, pod: &Pod, seat: &Seat) -> Result<Option<Duration>, Error> {
        let Some(spec) = pod.spec.as_ref() else { return Ok(None) };
        let mut memory = seat.memory.lock().await;
        let before = super::write::latest(pod, &mut memory);
        if seat.home.machine.is_none() && !std::mem::replace(&mut memory.has_recalled, true) {
            let name = seat.home.runtime.version().name;
            if let Some(recalled) = super::recall::recalled(pod, &before, &name) {
                seat.home.runtime.recall(recalled);
            }
        }
        let status = match self.admit(pod, spec, seat, &mut memory, &before).await? {
            Admission::Granted => before.clone(),
            Admission::Refused(status) => *status,
            Admission::Later(wait) => return Ok(Some(wait)),
        };
        let pod = &*self.size(pod, spec, seat, &mut memory, &status);
        let Some(spec) = pod.spec.as_ref() else { return Ok(None) };
        let evicted = seat.evicted();
        memory.attachment.begin();
        let beside = ephemeral::containers(spec);
        let mut rounds = 0;
        let mut failure = None;
        let (mut plan, now) = loop {
            let now = self.context.clock.now();
            let mut world = observe(seat).await?;
            self.attend(pod, spec, seat, &mut memory, &mut world).await;
            if pod.metadata.deletion_timestamp.is_some() || evicted.is_some() {
                memory.probes.end();
            }
            self.probe(pod, spec, &status, seat, &world, &mut memory).await;
            let pulls = seat.pulls().states.clone();
            let (hooks, asked) = going(seat, &world, &memory);
            let hooked = seat.hooks().before_turn.clone();
            let version = seat.home.runtime.version();
            let plan = plan(&Input {
                pod,
                spec,
                ephemeral: &beside,
                status: &status,
                world: &world,
                verdicts: &memory.probes,
                pulls: &pulls,
                refusals: &memory.attachment.refusals,
                backoffs: &memory.backoffs,
                asked: &asked,
                evicted: evicted.as_ref(),
                resizing: &memory.resizing,
                replaced: &memory.replaced,
                ending_since: memory.ending_since,
                restarting_all: memory.restarting_all,
                forgotten: &memory.forgotten,
                hooked: &hooked,
                hooks: &hooks,
                dead: &seat.home.dead,
                host_address: seat.home.address,
                runtime_name: &version.name,
                now,
            });
            self.say_backing_off(seat, pod, &status, &plan);
            if plan.replaces_sandbox {
                say_sandbox_changed(seat, pod, &world, &mut memory);
            }
            memory.ending_since = plan.ends.then(|| memory.ending_since.unwrap_or(now));
            memory.restarting_all = plan.restarting_all;
            rounds += 1;
            let mut moved = false;
            for action in &plan.actions {
                match self.act(key, pod, spec, seat, &mut memory, &world, action).await {
                    Ok(changed) => moved |= changed,
                    Err(error) => {
                        failure = Some(error);
                        break;
                    }
                }
            }
            if failure.is_some() || !moved || rounds == ROUNDS {
                break (plan, now);
            }
        };
        if let Some(failure) = failure {
            // What is known of the Pod is told although something could not be done for it.
            tell_devices(seat, &before, &mut plan.status);
            if !plan.gone {
                self.write_status(pod, &before, &plan.status, &mut memory).await?;
            }
            return Err(failure);
        }
        self.say_resized(pod, seat, &mut memory, plan.resizing);
        tell_devices(seat, &before, &mut plan.status);
        if plan.gone || is_terminal(plan.status.phase.as_deref()) {
            seat.home.claims.release(&seat.uid);
        }
        if plan.gone {
            // Before its end is told: then others are sent here that need its devices.
            release_devices(seat).await;
        }
        self.write_status(pod, &before, &plan.status, &mut memory).await?;
        if plan.gone {
            release(seat, &mut memory).await?;
            seat.finished.store(true, Ordering::Release);
        }
        if plan.gone && pod.metadata.deletion_timestamp.is_some() && !memory.deleted {
            teardown(key, seat).await?;
            match self.statics.ended(key, &seat.uid) {
                true => self.waker.add(key.clone()),
                false => self.let_go(key, pod).await?,
            }
            memory.deleted = true;
        }
        let later = memory.probes.next_at().into_iter().chain(memory.attachment.next_at(now));
        let later = later.chain(memory.resizing.next_at(now)).filter(|_| !plan.gone);
        let wake_at = plan.wake_at.into_iter().chain(later).min();
        Ok(wake_at
            .map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default().max(Duration::from_millis(1))))
    }

    /// Nothing of it runs any more: the API server may forget it.
    async fn let_go(&self, key: &Key, pod: &Pod) -> Result<(), Error> {
        let pods: Objects<Pod> = Objects::namespaced(self.context.client.clone(), key.namespace());
        let preconditions = Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
        let parameters = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        match pods.delete(key.name(), &parameters).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            // Also a conflict is tried again: it may be nobody's fault, and if another Pod has taken the name, the next look finds it.
            Err(error) => Err(error.into()),
        }
    }

    fn say_backing_off(&self, seat: &Seat, pod: &Pod, status: &PodStatus, plan: &Plan) {
        let Some(spec) = pod.spec.as_ref() else { return };
        let of = |status: &PodStatus, name: &str| {
            let mut all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
            let found = all.find(|container| container.name == name)?;
            let waiting = found.state.as_ref().and_then(|state| state.waiting.as_ref())?;
            Some((found.restart_count, waiting.reason.clone()))
        };
        // Once for each run that ended, and for each pull that failed.
        let said_of = |name: &str| of(status, name) == of(&plan.status, name);
        for name in plan.backing_off.iter().filter(|name| !said_of(name)) {
            let message = format!("Back-off restarting failed container {name} in pod {}", super::described(pod));
            let reference = super::act::reference(pod, spec, name);
            seat.home.recorder.record(&reference, "Warning", "BackOff", message);
        }
        for name in plan.backing_off_pull.iter().filter(|name| !said_of(name)) {
            let container = ephemeral::find(spec, name);
            let image = container.and_then(|container| container.image.clone()).unwrap_or_default();
            let reference = super::act::reference(pod, spec, name);
            let say = |kind, reason, message| seat.home.recorder.record(&reference, kind, reason, message);
            say("Normal", "BackOff", format!("Back-off pulling image {image:?}"));
            say("Warning", "Failed", "Error: ImagePullBackOff".to_owned());
        }
    }
}
