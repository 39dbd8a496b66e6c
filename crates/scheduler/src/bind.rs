//! Tells the API server where a Pod goes, or why it goes nowhere.

use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use pintle_runtime::{ApiError, Objects, conditions};
use serde_json::{Map, json};

use crate::cycle::Diagnosis;
use crate::evict::Nomination;
use crate::nominated;
use crate::plugins::Event;
use crate::pod::PodInfo;
use crate::scheduler::Shared;
use crate::storage::Choice;
use crate::volumes::{self, Failure};

/// Binds a Pod to the node that the cache already has it on.
pub(crate) async fn bind(shared: &Shared, pod: &PodInfo, node: &str) {
    match write_binding(shared, pod, node).await {
        Ok(()) => {
            shared.queue.remove(&pod.key, &pod.uid);
            let message = format!("Successfully assigned {}/{} to {node}", pod.key.namespace(), pod.key.name());
            shared.recorder.normal(pod.pod.as_ref(), "Scheduled", message);
        }
        Err(refused) => {
            tracing::debug!(pod = %pod.key, node, why = refused.why, "the binding failed");
            shared.cache().displace(&pod.uid);
            shared.queue.happened(Event::PodRemoved);
            // Gone, or bound by someone else: the watch will tell. If it does not, the next try finds out.
            shared.queue.retry(pod);
            if !refused.is_over {
                let message = format!("binding rejected: {}", refused.why);
                shared.recorder.warning(pod.pod.as_ref(), "FailedScheduling", message.clone());
                write_condition(shared, pod, "SchedulerError", message, &Nomination::Cleared).await;
            }
        }
    }
}

struct Refused {
    why: String,
    /// The Pod is gone or has a node.
    is_over: bool,
}

/// Through the extender that binds, if there is one for this Pod; one that may be ignored is when it fails.
async fn write_binding(shared: &Shared, pod: &PodInfo, node: &str) -> Result<(), Refused> {
    if let Some(binder) = shared.extenders.iter().find(|extender| extender.binds() && extender.is_for(pod)) {
        match binder.bind(pod, node).await {
            Ok(()) => return Ok(()),
            Err(why) if binder.is_ignorable() => {
                tracing::info!(pod = %pod.key, why, "an extender does not bind; the scheduler does");
            }
            Err(why) => return Err(Refused { why, is_over: false }),
        }
    }
    let binding = Binding {
        metadata: ObjectMeta {
            namespace: Some(pod.key.namespace().to_owned()),
            name: Some(pod.key.name().to_owned()),
            // A successor of the same name must not inherit the node.
            uid: Some(pod.uid.clone()),
            ..ObjectMeta::default()
        },
        target: ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        },
    };
    let parameters = PostParams::default();
    let bound = pods(shared, pod).post("binding", pod.key.name(), &parameters, &binding).await;
    let refused =
        |error: kube::Error| Refused { is_over: error.is_not_found() || error.is_conflict(), why: error.to_string() };
    bound.map_err(refused)
}

/// Says what went wrong, and tries again.
pub(crate) async fn report_failure(shared: &Shared, pod: &PodInfo, why: String) {
    shared.cache().nominated.remove(&pod.uid);
    shared.queue.retry(pod);
    shared.recorder.warning(pod.pod.as_ref(), "FailedScheduling", why.clone());
    write_condition(shared, pod, "SchedulerError", why, &Nomination::Cleared).await;
}

/// The same for a Pod that gets volumes with its node: they come first.
pub(crate) async fn bind_with_volumes(shared: &Shared, pod: &PodInfo, node: &str, choice: &Choice) {
    shared.cache().unwritten.insert(pod.uid.clone());
    let provided = volumes::provide(shared, pod, node, choice).await;
    let is_called_off = !shared.cache().unwritten.remove(&pod.uid);
    let failure = match provided {
        Ok(()) if !is_called_off => return bind(shared, pod, node).await,
        Ok(()) => Failure::Overtaken,
        Err(failure) => failure,
    };
    tracing::debug!(pod = %pod.key, node, ?failure, "the volumes are not there");
    let was_placed = {
        let mut cache = shared.cache();
        cache.storage.forget(choice);
        cache.displace(&pod.uid)
    };
    if was_placed {
        shared.queue.happened(Event::PodRemoved);
    }
    shared.queue.retry(pod);
    // Of a Pod that is gone nothing is said.
    if let (Failure::Said(why), true) = (failure, was_placed) {
        let message = format!("running PreBind plugin \"VolumeBinding\": binding volumes: {why}");
        shared.recorder.warning(pod.pod.as_ref(), "FailedScheduling", message.clone());
        write_condition(shared, pod, "SchedulerError", message, &Nomination::Cleared).await;
    }
}

/// Says why no node would do, and for which one it waits.
pub(crate) async fn report(shared: &Shared, pod: &PodInfo, diagnosis: &Diagnosis, nomination: &Nomination) {
    let message = diagnosis.to_string();
    shared.recorder.warning(pod.pod.as_ref(), "FailedScheduling", message.clone());
    if !write_condition(shared, pod, "Unschedulable", message, nomination).await {
        // Nobody may ever help this Pod, and until then nobody would know why it waits.
        shared.queue.unpark(pod);
    }
}

/// False if it could not be written; the next try of the Pod writes it again.
async fn write_condition(
    shared: &Shared,
    pod: &PodInfo,
    reason: &str,
    message: String,
    nomination: &Nomination,
) -> bool {
    let condition = changed_condition(&pod.pod, reason, message, Time(shared.context.clock.now()));
    let mut status = Map::new();
    status.extend(condition.map(|condition| ("conditions".to_owned(), json!([condition]))));
    let decided = match nomination {
        Nomination::To(eviction) => Some(eviction.node.clone()),
        Nomination::Cleared => None,
        // It may be that it could not be written when it was decided.
        Nomination::Kept => shared.cache().nominated.node_of(&pod.uid).map(str::to_owned),
    };
    if decided.as_deref() != nominated::written(pod) {
        status.insert("nominatedNodeName".to_owned(), json!(decided));
    }
    if status.is_empty() {
        return true;
    }
    let patch = json!({"metadata": {"uid": pod.uid}, "status": status});
    let written =
        pods(shared, pod).patch_status(pod.key.name(), &PatchParams::default(), &Patch::Strategic(patch)).await;
    let Err(error) = written else { return true };
    tracing::debug!(pod = %pod.key, %error, "the condition could not be written");
    error.is_not_found()
}

/// Nothing if the Pod says so already.
fn changed_condition(pod: &Pod, reason: &str, message: String, now: Time) -> Option<PodCondition> {
    let present = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let old = conditions::find(present, "PodScheduled");
    let since = old.filter(|old| old.status == "False").and_then(|old| old.last_transition_time.clone());
    let says_so = old.is_some_and(|old| {
        old.status == "False" && old.reason.as_deref() == Some(reason) && old.message.as_deref() == Some(&message)
    });
    (!says_so).then(|| PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: since.or(Some(now)),
        observed_generation: pod.metadata.generation,
        last_probe_time: None,
    })
}

fn pods(shared: &Shared, pod: &PodInfo) -> Objects<Pod> {
    Objects::namespaced(shared.context.client.clone(), pod.key.namespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_verdict_is_not_written_twice_and_its_time_does_not_move() {
        let at = |second| Time(jiff::Timestamp::from_second(second).unwrap());
        let mut pod = Pod::default();
        let first = changed_condition(&pod, "Unschedulable", "no".into(), at(1)).unwrap();
        pod.status.get_or_insert_default().conditions = Some(vec![first]);
        assert_eq!(changed_condition(&pod, "Unschedulable", "no".into(), at(2)), None);
        let other = changed_condition(&pod, "Unschedulable", "still no".into(), at(3)).unwrap();
        assert_eq!(other.last_transition_time, Some(at(1)));
    }
}
