//! Questions about Pods that several loops ask.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use pintle_runtime::{Informer, conditions, owner};

/// Name of the index that finds a controller's Pods by its UID.
const BY_CONTROLLER: &str = "controller";

/// Makes `controlled_by` and `orphans_in` work.
pub(crate) fn index_by_controller(pods: &Informer<Pod>) {
    pods.add_index(BY_CONTROLLER, |pod| {
        vec![match owner::controller_of(&pod.metadata) {
            Some(owner) => owner.uid.clone(),
            None => orphans_of(pod.metadata.namespace.as_deref().unwrap_or_default()),
        }]
    });
}

pub(crate) fn controlled_by(pods: &Informer<Pod>, uid: &str) -> Vec<std::sync::Arc<Pod>> {
    pods.by_index(BY_CONTROLLER, uid)
}

pub(crate) fn orphans_in(pods: &Informer<Pod>, namespace: &str) -> Vec<std::sync::Arc<Pod>> {
    pods.by_index(BY_CONTROLLER, &orphans_of(namespace))
}

/// A slash keeps it apart from every UID.
fn orphans_of(namespace: &str) -> String {
    format!("orphans/{namespace}")
}

/// Name of the index that finds the Pods of a node.
const BY_NODE: &str = "node";

/// Makes `on_node` work.
pub(crate) fn index_by_node(pods: &Informer<Pod>) {
    pods.add_index(BY_NODE, |pod| vec![node_name(pod).to_owned()]);
}

pub(crate) fn on_node(pods: &Informer<Pod>, node: &str) -> Vec<std::sync::Arc<Pod>> {
    pods.by_index(BY_NODE, node)
}

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Finished, for better or worse.
pub(crate) fn is_terminal(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Counts as a replica: neither finished nor on its way out.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_terminal(pod) && pod.metadata.deletion_timestamp.is_none()
}

/// On its way out, and still running.
pub(crate) fn is_terminating(pod: &Pod) -> bool {
    !is_terminal(pod) && pod.metadata.deletion_timestamp.is_some()
}

pub(crate) fn ready_condition(pod: &Pod) -> Option<&PodCondition> {
    let status = pod.status.as_ref()?;
    conditions::find(status.conditions.as_deref().unwrap_or_default(), "Ready")
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    ready_condition(pod).is_some_and(|condition| condition.status == "True")
}

/// Since when the Pod is ready.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let condition = ready_condition(pod).filter(|condition| condition.status == "True")?;
    condition.last_transition_time.as_ref().map(|time| time.0)
}

/// Ready for at least `minimum` seconds.
pub(crate) fn is_available(pod: &Pod, minimum: i32, now: Timestamp) -> bool {
    is_ready(pod) && (minimum == 0 || available_in(pod, minimum, now).is_some_and(|wait| wait.is_zero()))
}

/// How long until a ready Pod is available; nothing for one that is not ready.
pub(crate) fn available_in(pod: &Pod, minimum: i32, now: Timestamp) -> Option<Duration> {
    let since = ready_since(pod)?;
    let left = since + SignedDuration::from_secs(minimum.into());
    Some(Duration::try_from(left.duration_since(now)).unwrap_or(Duration::ZERO))
}

pub(crate) fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}
