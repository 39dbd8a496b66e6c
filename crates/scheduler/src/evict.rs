//! Makes Pods leave for one that fits nowhere without their room, and tries it again when that is done.

use std::sync::Arc;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use pintle_runtime::{ApiError, Key, Objects, conditions};
use serde_json::json;

use crate::cache::Cache;
use crate::plugins::Event;
use crate::pod::PodInfo;
use crate::preemption::{Candidate, Facts, REASON, Refused, budgets, candidates, choose};
use crate::scheduler::Shared;
use crate::{DEFAULT_NAME, cycle};

/// What a try that failed means for the node that a Pod is nominated to.
#[derive(Debug)]
pub(crate) enum Nomination {
    Kept,
    Cleared,
    To(Eviction),
}

/// Who has to leave a node, and what else is to be written for it.
#[derive(Debug)]
pub(crate) struct Eviction {
    pub(crate) node: String,
    /// Without those that are ending already.
    victims: Vec<Arc<PodInfo>>,
    /// Less important Pods that were nominated to the same node.
    outranked: Vec<Arc<PodInfo>>,
}

/// Where room can be made for the Pod, which was just found to fit nowhere in this cache.
pub(crate) fn search(
    shared: &Shared,
    cycle: &cycle::Cycle,
    pod: &PodInfo,
    cache: &Cache,
    diagnosis: &cycle::Diagnosis,
) -> Result<Vec<Candidate>, Refused> {
    let budgets = budgets(&shared.context.informers.of().all());
    candidates(cycle, pod, cache, diagnosis, &Facts { budgets: &budgets, started: &starts(shared) })
}

/// When a Pod on a node started; now if it has not.
pub(crate) fn starts(shared: &Shared) -> impl Fn(&PodInfo) -> Timestamp {
    let (pods, now) = (shared.context.informers.of::<Pod>(), shared.context.clock.now());
    // The cache does not follow the status of Pods on nodes: it changes more often than all the rest, and only this needs it.
    move |placed| {
        let latest = pods.get(&placed.key).filter(|latest| latest.metadata.uid.as_ref() == Some(&placed.uid));
        latest.and_then(|latest| latest.status.as_ref()?.start_time.clone()).map_or(now, |time| time.0)
    }
}

/// Takes the best of the candidates: from here on the room counts as the Pod's.
///
/// Call it under the lock under which the Pod is parked.
pub(crate) fn decide(
    shared: &Shared,
    cache: &mut Cache,
    pod: &Arc<PodInfo>,
    found: Result<Vec<Candidate>, Refused>,
) -> (Nomination, String) {
    let none = || Refused::NotNow("no candidate node for preemption".to_owned());
    match found.and_then(|candidates| choose(candidates).ok_or_else(none)) {
        // Its deletion may have been told while it was tried, and would not be told again.
        Ok(_) if !still_waits(shared, pod) => (Nomination::Kept, String::new()),
        Ok(best) => {
            let lower = cache.nominated.on(&best.node).filter(|other| other.priority < pod.priority);
            let outranked: Vec<Arc<PodInfo>> = lower.cloned().collect();
            for other in &outranked {
                cache.nominated.remove(&other.uid);
            }
            cache.nominated.set(pod.clone(), &best.node);
            let victims = best.victims.into_iter().map(|victim| victim.pod).filter(|victim| !victim.is_going());
            let eviction = Eviction { node: best.node, victims: victims.collect(), outranked };
            if !eviction.victims.is_empty() {
                shared.queue.hold(pod);
            }
            (Nomination::To(eviction), String::new())
        }
        Err(refused) => {
            let message = refused.message();
            if !matches!(refused, Refused::Unhelpful(_)) {
                return (Nomination::Kept, message);
            }
            cache.nominated.remove(&pod.uid);
            (Nomination::Cleared, message)
        }
    }
}

fn still_waits(shared: &Shared, pod: &PodInfo) -> bool {
    let latest = latest(shared, pod);
    latest.is_some_and(|latest| latest.metadata.deletion_timestamp.is_none() && !has_node(&latest))
}

fn has_node(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(|name| !name.is_empty())
}

/// The Pod as it is now; nothing if it is gone.
fn latest(shared: &Shared, pod: &PodInfo) -> Option<Arc<Pod>> {
    let latest = shared.context.informers.of::<Pod>().get(&pod.key)?;
    (latest.metadata.uid.as_ref() == Some(&pod.uid)).then_some(latest)
}

/// Carries it out. The Pod is not tried again before all of its victims are on their way.
pub(crate) async fn evict(shared: &Shared, pod: &PodInfo, eviction: &Eviction) {
    join_all(eviction.outranked.iter().map(|other| clear_nomination(shared, other))).await;
    let Some((last, others)) = eviction.victims.split_last() else { return };
    let mut refused = join_all(others.iter().map(|victim| make_leave(shared, pod, victim, &eviction.node))).await;
    // One is left until the others are gone for certain: its end is what the Pod is tried again for.
    if refused.iter().all(Result::is_ok) {
        refused.push(make_leave(shared, pod, last, &eviction.node).await);
    }
    let failed = refused.into_iter().filter_map(Result::err).next();
    if let Some(error) = &failed {
        tracing::info!(pod = %pod.key, node = eviction.node, %error, "not every Pod could be made to leave");
    }
    shared.queue.release(pod, failed.is_some());
}

async fn clear_nomination(shared: &Shared, pod: &PodInfo) {
    let patch = json!({"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": null}});
    let api = pods(shared, &pod.key);
    if let Err(error) = api.patch_status(pod.key.name(), &PatchParams::default(), &Patch::Strategic(patch)).await {
        tracing::debug!(pod = %pod.key, %error, "the nomination could not be cleared");
    }
}

async fn make_leave(shared: &Shared, pod: &PodInfo, victim: &PodInfo, node: &str) -> Result<(), kube::Error> {
    let tell = |where_from: &str| {
        tracing::info!(pod = %pod.key, victim = %victim.key, node, "preempted");
        let message = format!("Preempted by pod {} on node {node}{where_from}", pod.uid);
        shared.recorder.normal_because(victim.pod.as_ref(), pod.pod.as_ref(), ("Preempted", "Preempting"), message);
    };
    if call_off(shared, victim) {
        tell(" (in kube-scheduler memory).");
        return Ok(());
    }
    let (api, name) = (pods(shared, &victim.key), victim.key.name());
    let scheduler = pod.spec().and_then(|spec| spec.scheduler_name.as_deref()).unwrap_or(DEFAULT_NAME);
    let known = latest(shared, victim);
    let condition =
        disrupted(known.as_deref().unwrap_or(victim.pod.as_ref()), scheduler, Time(shared.context.clock.now()));
    if let Some(condition) = condition {
        let patch = json!({"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}});
        let written = api.patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await;
        // A conflict is one of UIDs: the victim is gone, and a successor has its name.
        if written.as_ref().is_err_and(|error| error.is_not_found() || error.is_conflict()) {
            return Ok(());
        }
        written?;
    }
    let whose = Preconditions { uid: Some(victim.uid.clone()), resource_version: None };
    let how = DeleteParams { preconditions: Some(whose), ..DeleteParams::default() };
    match api.delete(name, &how).await {
        Err(error) if error.is_not_found() || error.is_conflict() => return Ok(()),
        other => drop(other?),
    }
    tell("");
    Ok(())
}

/// Takes the node from a Pod that is not bound to it yet: it need not be deleted, and looks for another one.
fn call_off(shared: &Shared, victim: &PodInfo) -> bool {
    let is_called_off = {
        let mut cache = shared.cache();
        cache.unwritten.remove(&victim.uid) && cache.displace(&victim.uid)
    };
    if is_called_off {
        // Whoever waits for its volumes finds that it has no node any more, and tries it again.
        shared.storage_changed.notify_waiters();
        shared.queue.happened(Event::PodRemoved);
    }
    is_called_off
}

/// Why it has to leave; nothing if it says so already.
fn disrupted(victim: &Pod, scheduler: &str, now: Time) -> Option<PodCondition> {
    let present = victim.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let message = format!("{scheduler}: preempting to accommodate a higher priority pod");
    let old = conditions::find(present, "DisruptionTarget").filter(|old| old.status == "True");
    let says_so = old
        .is_some_and(|old| old.reason.as_deref() == Some(REASON) && old.message.as_deref() == Some(message.as_str()));
    let since = old.and_then(|old| old.last_transition_time.clone());
    (!says_so).then(|| PodCondition {
        type_: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
        reason: Some(REASON.to_owned()),
        message: Some(message),
        last_transition_time: since.or(Some(now)),
        observed_generation: victim.metadata.generation,
        last_probe_time: None,
    })
}

fn pods(shared: &Shared, key: &Key) -> Objects<Pod> {
    Objects::namespaced(shared.context.client.clone(), key.namespace())
}
